"""Calls of a kind that went well before, each made in one C function.

A :class:`Plan` checks and places a call step by step.  What it found out is the same for every call that
differs from it in its data alone: such a call takes its addresses, and a look at the values that the host
can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.errors import error_of
from aclnn_bindings.execution import refusal
from aclnn_bindings.functions import PHASES
from aclnn_bindings.libraries import message_text
from aclnn_bindings.memory import dense_memory
from aclnn_bindings.preparation import X1_IN_USE, prepare
from aclnn_bindings.resources import Resources
from aclnn_bindings.streams import BorrowedStream
from aclnn_bindings.tensors import POSITION
from aclnn_bindings.torch_support import current_stream, import_torch
from reference.problem import ARGUMENTS, INPUTS
from reference.torch_tensors import is_device_tensor

if TYPE_CHECKING:
    from aclnn_bindings.device import DeviceContext
    from aclnn_bindings.libraries import Library
    from aclnn_bindings.plan import Plan, Validation
    from aclnn_bindings.preparation import Preparation
    from aclnn_bindings.sources import Array
    from reference.problem import Problem

_CALL = ffi.typeof("gmmfr_call *")
_NULL = ffi.NULL
_OUT = POSITION["out"]
_GROUP_LIST, _ROW_INDEX = POSITION["group_list"], POSITION["row_index"]


class _Shortcut:
    """What calls of one kind share, and how one is made.  Inputs come in the order of the prototype."""

    def __init__(
        self, library: Library, preparation: Preparation, workspace_size: int, validate: Validation
    ) -> None:
        self._library = library
        self._validate = validate
        self._preparation = preparation
        self._workspace_size = workspace_size
        #: Bytes of one block for the arguments that are copied in, and of one for a copy of x1.
        self._block_bytes = self._x1_bytes = 0
        self._shape = preparation.problem.spec("out").shape
        self._kind = kind = ffi.new("gmmfr_kind *")
        self._table = preparation.table(repeatable=False)
        kind.descriptors, kind.scalars = self._table.descriptors, preparation.scalars
        for name in preparation.specs:
            kind.offsets[POSITION[name]] = preparation.slots[name]
            kind.sizes[POSITION[name]] = preparation.nbytes[name]

    def _make(self, context: DeviceContext, resources: Resources, call: Any) -> None:
        """Make the call with what it borrowed, and return that."""
        context.sweep()
        call.stream = resources.stream.pointer
        try:
            self._run(resources, call)
        except BaseException:
            if resources.pending:
                context.abandon(resources)
            else:
                resources.give_back()  # its own errors say less than the one under way
            raise
        errors = resources.give_back()
        if errors:
            raise errors[0]

    def _run(self, resources: Resources, call: Any) -> None:
        """Make the call, once more where phase 1 asks for more workspace than the last one did."""
        library = self._library
        if self._block_bytes:
            call.block = resources.memory(self._block_bytes).address
        if self._x1_bytes:
            call.x1Copy = resources.memory(self._x1_bytes).address
        size = self._workspace_size  # another thread may raise it meanwhile
        while True:
            if size:
                call.workspace = resources.memory(size).address
                call.workspaceSize = size
            with library.soc_scope():
                status = lib.gmmfr_run(library.functions.table, self._kind, call)
            if call.step == lib.GMMFR_DONE:
                return
            if status or call.step != lib.GMMFR_WORKSPACE:
                self._fail(resources, call, status)
            size = int(call.workspaceSize)
            self._workspace_size = max(self._workspace_size, size)

    def _fail(self, resources: Resources, call: Any, status: int) -> NoReturn:
        """Raise the exception for the step that failed."""
        step, message = call.step, message_text(call.message)
        if step == lib.GMMFR_PHASE_ONE:
            raise refusal(self._preparation if self._validate != "off" else None, status, message)
        name, size = ARGUMENTS[call.argument], self._kind.sizes[call.argument]
        what = {
            lib.GMMFR_UPLOAD: f"aclrtMemcpy of {size} bytes to the device",
            lib.GMMFR_CREATE: f"aclCreateTensor for {name} returned NULL",
            lib.GMMFR_WORKSPACE: "destroying executor",
            lib.GMMFR_PROTECT_X1: f"aclrtMemcpyAsync of x1, {size} bytes on the device",
            lib.GMMFR_PHASE_TWO: PHASES[1],
            lib.GMMFR_SYNCHRONIZE: "synchronising the stream",
            lib.GMMFR_DOWNLOAD: f"aclrtMemcpy of {size} bytes from the device",
            lib.GMMFR_DESTROY: "destroying tensor descriptors",
        }[step]
        if step >= lib.GMMFR_PROTECT_X1:  # work may be on the stream
            resources.settle()
        raise error_of(status, message, what)


class HostShortcut(_Shortcut):
    """Calls of NumPy arrays that fit into one block of device memory together."""

    def __init__(
        self, library: Library, preparation: Preparation, workspace_size: int, validate: Validation
    ) -> None:
        super().__init__(library, preparation, workspace_size, validate)
        self._block_bytes = preparation.shared_bytes

    def run(self, values: Sequence[Array | None], out: Array | None) -> Array:
        """The result for dense arrays; ``out`` where it is given."""
        if self._validate != "off":
            routing = {"group_list": values[_GROUP_LIST], "row_index": values[_ROW_INDEX]}
            self._preparation.check(routing, strict=self._validate == "strict")
        result = np.empty(self._shape, np.float32) if out is None else out
        images = [_NULL if value is None else dense_memory(value) for value in (*values, result)]
        call = ffi.new(_CALL)
        call.host = images
        with self._library.runtime.bind() as context:
            self._make(context, Resources(context, None), call)
        return result


class DeviceShortcut(_Shortcut):
    """Calls of NPU tensors, which are used where they are, in the order of torch_npu's current stream."""

    def __init__(
        self,
        library: Library,
        preparation: Preparation,
        workspace_size: int,
        validate: Validation,
        device: Any,
        consume_x1: bool,
    ) -> None:
        super().__init__(library, preparation, workspace_size, validate)
        self._device, self._index = device, int(device.index)
        self._empty = import_torch().empty
        self._float32 = import_torch().float32
        protects = preparation.destroys_x1 and not consume_x1
        self._x1_bytes = preparation.nbytes[X1_IN_USE] if protects else 0
        self._shifts = [
            (POSITION[name], preparation.address_shift(name)) for name in INPUTS if name in preparation.specs
        ]

    def run(self, values: Sequence[Any], out: Any) -> Any:
        """The result for tensors on the device; ``out`` where it is given."""
        result = self._empty(self._shape, dtype=self._float32, device=self._device) if out is None else out
        call = ffi.new(_CALL)
        addresses = call.addresses
        for position, shift in self._shifts:
            addresses[position] = values[position].untyped_storage().data_ptr() + shift
        addresses[_OUT] = result.untyped_storage().data_ptr()
        # torch_npu sets the device as it needs it: it must be done before the device is bound here
        stream = BorrowedStream(current_stream(result))
        with self._library.runtime.bind(self._index) as context:
            resources = Resources(context, stream)
            resources.owners = [values, result]
            self._make(context, resources, call)
        return result


def shortcut_for(
    plan: Plan, problem: Problem, values: Sequence[Any], validate: Validation, consume_x1: bool
) -> HostShortcut | DeviceShortcut | None:
    """The quick way to make a call like that of ``plan``, which went well; None where there is none.

    ``problem`` is what the plan was made from, ``values`` the inputs in the order of the prototype and
    ``out``, as the caller gave them.
    """
    preparation = prepare(problem)
    if preparation.tuning_config is not None or plan.writes_nothing:
        return None
    given = [value for value in values if value is not None]
    made_of = plan.library, preparation, plan.workspace_size, validate
    if all(type(value) is np.ndarray for value in given):
        dense = preparation.dense >= preparation.specs.keys()
        flat = dense and all(value.flags.c_contiguous for value in given)
        return HostShortcut(*made_of) if flat and preparation.shared_bytes else None
    if all(is_device_tensor(value) for value in given):
        return DeviceShortcut(*made_of, given[0].device, consume_x1)
    return None

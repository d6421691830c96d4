"""Phase 1 and phase 2 of a placed call: executors, workspace, descriptors."""

from __future__ import annotations

import json
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

from aclnn_bindings._acl import ffi
from aclnn_bindings.determinism import DeterminismScope
from aclnn_bindings.errors import BindingError, error_of
from aclnn_bindings.functions import PHASES
from aclnn_bindings.handles import Executor, IntArray
from aclnn_bindings.phase_one import call_phase_one
from aclnn_bindings.tensors import POSITION, Tensors
from reference.status import REFUSALS

if TYPE_CHECKING:
    from aclnn_bindings.libraries import Library
    from aclnn_bindings.memory import DeviceMemory
    from aclnn_bindings.placement import Placement
    from aclnn_bindings.preparation import Preparation
    from aclnn_bindings.resources import Resources
    from aclnn_bindings.sources import DeviceAddress


def refusal(explain: Preparation | None, status: int, message: str | None) -> BindingError:
    """The exception for a phase 1 that failed.

    It says so where the library refuses ``explain``, a call that this project's rules accept.  Other codes
    are about the installation: their usual cause helps, a report does not.
    """
    note = None
    if explain is not None and explain.report.status == 0 and status in REFUSALS:
        call = json.dumps(explain.problem.to_json())
        note = (
            "The rules of this project accept this call: please report it, with the bundle that "
            f'reference.write_bundle("refused.safetensors", operands) saves, or with this problem: {call}'
        )
    return error_of(status, message, PHASES[0], note)


class Execution:
    """Runs one placed call.

    A repeatable executor serves all runs.  An ordinary one is spent by phase 2, and its thread is that of its
    phase 1: the next run, or a run in another thread, begins with a phase 1 on fresh descriptors.
    """

    def __init__(
        self,
        library: Library,
        preparation: Preparation,
        placement: Placement,
        resources: Resources,
        deterministic: bool | None,
        repeatable: bool,
    ) -> None:
        self._library = library
        self._functions = library.functions
        self._preparation = preparation
        self._placement = placement
        self._resources = resources
        self._deterministic = deterministic
        self._wants_repeatable = repeatable
        self._executor: Executor | None = None
        self._tensors: Tensors | None = None
        self._workspace: DeviceMemory | None = None
        self._workspace_pointer = ffi.NULL
        self._thread = 0
        self._tuning: IntArray | None = None
        self.repeatable = False
        self.workspace_size = 0
        self.x1_is_intact = True
        self.phase_one_seconds = 0.0

    def phase_one(self, explain: bool = False) -> None:
        """Make fresh descriptors, let the library check the call, and set the workspace aside."""
        resources = self._resources
        if self._preparation.tuning_config is not None and self._tuning is None:
            self._tuning = resources.keep(
                IntArray(resources.context, self._preparation.tuning_config, held=True)
            )
        if self._tensors is not None:
            resources.retire(self._tensors)
        table = self._preparation.table(self._wants_repeatable)
        self._tensors = resources.keep(
            Tensors(resources.context, table, self._placement.addresses, held=True)
        )
        self._executor = resources.keep(Executor(resources.context, held=True))
        size = ffi.new("uint64_t *")
        tuning = ffi.NULL if self._tuning is None else self._tuning.pointer
        started = perf_counter()
        call = (self._library, self._tensors, self._preparation.scalars, tuning, size, self._executor.cell)
        if self._deterministic is None:
            status = call_phase_one(*call)
        else:
            with DeterminismScope(resources.context.runtime, self._deterministic):
                status = call_phase_one(*call)
        self.phase_one_seconds = perf_counter() - started
        if status:
            message = self._library.recent_message()
            raise refusal(self._preparation if explain else None, status, message)
        self._thread = threading.get_ident()
        self.repeatable = self._wants_repeatable and self._make_repeatable()
        self._reserve_workspace(int(size[0]))

    def _make_repeatable(self) -> bool:
        """Ask for a repeatable executor.  Refused for one from the phase-1 cache, by older libraries for
        calls with an offset, and by libraries without the function: the executor then stays an ordinary
        one."""
        if self._executor is None or not self._functions.has("aclSetAclOpExecutorRepeatable"):
            return False
        if self._functions.aclSetAclOpExecutorRepeatable(self._executor.pointer):
            self._library.runtime.forget_message()
            return False
        return True

    def _reserve_workspace(self, size: int) -> None:
        self.workspace_size = size
        if size and (self._workspace is None or self._workspace.nbytes < size):
            self._workspace = self._resources.memory(size)
        self._workspace_pointer = self._workspace.pointer if size and self._workspace else ffi.NULL

    def launch(self) -> None:
        """Queue one run: x1 restored where the kernel destroys it, then phase 2."""
        placement, resources = self._placement, self._resources
        if placement.protects_x1:
            placement.restore_x1()
        elif self._preparation.destroys_x1:
            self._consume_x1()
        repeatable = self.repeatable
        executor = self._executor
        if not repeatable and (executor is None or executor.spent or self._thread != threading.get_ident()):
            if executor is not None:
                executor.close()
            self.phase_one()
            repeatable, executor = self.repeatable, self._executor
        assert executor is not None
        stream, phase_two = resources.stream.pointer, self._functions.aclnnGroupedMatmulFinalizeRoutingV3
        resources.pending = True
        if repeatable:
            status = phase_two(self._workspace_pointer, self.workspace_size, executor.pointer, stream)
        else:
            status = executor.run(phase_two, self._workspace_pointer, self.workspace_size, stream)
        if status:
            self._library.check(status, PHASES[1])

    def _consume_x1(self) -> None:
        if not self.x1_is_intact:
            raise BindingError(
                "x1: the last run overwrote it on the device, as the Atlas A2/A3 kernel does; give it new "
                "data with update(x1=...), or make the plan without consume_x1"
            )
        self.x1_is_intact = False

    def bind(self, name: str, source: DeviceAddress) -> None:
        """Give an argument another address: in the repeatable executor, or in the next phase 1's
        descriptors."""
        address = ffi.cast("void *", self._placement.bind(name, source))
        if name == "x1":
            self.x1_is_intact = True
        if not self.repeatable:
            if self._executor is not None:
                self._executor.close()
            return
        assert self._executor is not None
        assert self._tensors is not None
        setter = "aclSetOutputTensorAddr" if name == "out" else "aclSetInputTensorAddr"
        index = 0 if name == "out" else POSITION[name]
        call: Any = getattr(self._functions, setter)
        status = call(self._executor.pointer, index, self._tensors.of(name), address)
        self._library.check(status, f"{setter} for {name}")

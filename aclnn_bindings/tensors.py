"""Tensor descriptors: what ``aclCreateTensor`` gets for each argument of a call, made in one step.

A :class:`DescriptorTable` is prepared once for a call's shapes; :class:`Tensors` are the live handles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.errors import ClosedHandleError
from aclnn_bindings.handles import Handle
from aclnn_bindings.sources import storage_elements
from reference.acl import TENSOR_FORMATS
from reference.formats import number_format
from reference.problem import ARGUMENTS, Problem, ProblemError, TensorSpec

if TYPE_CHECKING:
    from aclnn_bindings.device import DeviceContext

POSITION = {name: position for position, name in enumerate(ARGUMENTS)}


def device_specs(problem: Problem) -> dict[str, TensorSpec]:
    """How the binding lays the arguments of ``problem`` out on the device.

    Strides of contiguous tensors are dropped, since those of axes of length 1 can make an operand look
    transposed to the operator; but where x2 is a transposed view they tell it the layout of a scale
    (e, 1, n, 2).  INT32 x2 gets neither strides nor an offset: phase 1 relabels it to INT4, after which it
    forgets the strides and counts the offset in 4-bit elements.
    """
    specs = {name: spec for name, spec in problem.arguments.items() if spec is not None}
    for name, spec in specs.items():
        if name == "x2" and spec.dtype == "int32":
            specs[name] = replace(spec, strides=None, offset=0)
        elif name == "scale" and "x2" in specs and specs["x2"].is_transposed:
            continue
        elif spec.strides is not None and spec.is_contiguous:
            specs[name] = replace(spec, strides=None)
    return specs


def storage_dims(spec: TensorSpec) -> Sequence[int]:
    """The storage shape to declare: as given, else the view's shape where the storage is no larger, else
    flat."""
    if spec.storage_shape is not None:
        return spec.storage_shape
    needed = storage_elements(spec)
    return spec.shape if needed <= spec.size else (needed,)


def _strides(spec: TensorSpec) -> Sequence[int]:
    """The strides to declare.  Compact ones beyond 64 bits wrap, as those of a caller in C do."""
    if spec.strides is not None or spec.size < 2**63:
        return spec.element_strides
    return [(step + 2**63) % 2**64 - 2**63 for step in spec.element_strides]


class DescriptorTable:
    """C descriptors of all arguments of a call; ``flat`` names those whose storage shape is one number."""

    def __init__(self, specs: Mapping[str, TensorSpec], flat: Collection[str] = ()) -> None:
        self.descriptors = ffi.new("gmmfr_descriptor[]", len(ARGUMENTS))
        self._keep: list[Any] = []
        for name, spec in specs.items():
            entry = self.descriptors[POSITION[name]]
            flattened = name in flat and spec.storage_shape is None
            storage = (storage_elements(spec),) if flattened else storage_dims(spec)
            try:
                entry.dims = self._dims(spec.shape)
                entry.strides = self._dims(_strides(spec))
                entry.storage = self._dims(storage)
                entry.offset = spec.offset
            except OverflowError:
                raise ProblemError(
                    f"{name}: expected dims, strides, offset and storage of 64 bits each, "
                    f"got {spec.describe()}"
                ) from None
            entry.rank, entry.storageRank = spec.rank, len(storage)
            entry.dtype = number_format(spec.dtype).acl
            entry.format = TENSOR_FORMATS[spec.format]

    def _dims(self, values: Sequence[int]) -> Any:
        block = ffi.new("int64_t[]", list(values) or [0])  # rank 0 still needs an address
        self._keep.append(block)
        return block


class Tensors(Handle):
    """The live descriptors of one call, in the order of the prototype; absent arguments are NULL.

    x2 is changed by phase 1 on Atlas A2/A3, so every phase 1 gets tensors of its own.
    """

    __slots__ = ("_addresses", "_table")

    def __init__(
        self, context: DeviceContext, table: DescriptorTable, addresses: Sequence[int], *, held: bool = False
    ) -> None:
        functions = context.runtime.functions
        cell = ffi.new("aclTensor *[]", len(ARGUMENTS))
        super().__init__(context, cell, _destroyer(functions.table), "tensor descriptors", held=held)
        self._table = table
        self._addresses = ffi.new("uintptr_t[]", addresses)
        pointers = ffi.cast("void **", self._addresses)
        made = lib.gmmfr_create_tensors(
            functions.table, len(ARGUMENTS), table.descriptors, pointers, self._cell
        )
        if made < len(ARGUMENTS):
            self.close()
            context.runtime.fail(f"aclCreateTensor for {ARGUMENTS[made]} returned NULL")

    @property
    def cell(self) -> Any:
        """All thirteen handles in a C array."""
        if self.closed:
            raise ClosedHandleError("tensor descriptors are closed")
        return self._cell

    def of(self, name: str) -> Any:
        """The handle of one argument."""
        return self.cell[POSITION[name]]


def _destroyer(table: Any) -> Callable[[Any], int]:
    def destroy(cell: Any) -> int:
        return int(lib.gmmfr_destroy_tensors(table, len(ARGUMENTS), cell))

    return destroy

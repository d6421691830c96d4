"""Phase 1 of the operator: the call itself, and its status alone for a problem without data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.handles import Executor, IntArray
from aclnn_bindings.tensors import DescriptorTable, Tensors
from reference.problem import ARGUMENTS, Attributes, Problem, ProblemError

if TYPE_CHECKING:
    from aclnn_bindings.libraries import Library

#: Enough for an address that phase 1 never follows.
_DUMMY_BYTES = 512


def scalars_of(attributes: Attributes) -> Any:
    """The scalar arguments of phase 1 as C takes them."""
    scalars = ffi.new("gmmfr_scalars *")
    try:
        scalars.dtype = attributes.dtype
        scalars.sharedInputWeight = attributes.shared_input_weight
        scalars.sharedInputOffset = attributes.shared_input_offset
        scalars.transposeX1 = attributes.transpose_x1
        scalars.transposeX2 = attributes.transpose_x2
        scalars.groupListType = attributes.group_list_type
    except OverflowError:
        raise ProblemError(f"attributes: expected 64-bit integers, got {attributes.to_json()}") from None
    return scalars


def call_phase_one(
    library: Library, tensors: Tensors, scalars: Any, tuning: Any, size: Any, executor: Any
) -> int:
    """Call GetWorkspaceSize; ``size`` and ``executor`` are the cells that it fills.  Returns its status."""
    table = library.functions.table
    with library.soc_scope():
        return int(lib.gmmfr_phase_one(table, tensors.cell, scalars, tuning, size, executor))


def phase_one_status(problem: Problem, library: Library | None = None) -> int:
    """What phase 1 answers to ``problem`` as it stands: 0, or the code of the first check that fails.

    Strides, offsets and storage shapes are passed exactly as the problem gives them.  No data is needed:
    phase 1 reads none.  ``library`` defaults to the simulator of the problem's platform.
    """
    from aclnn_bindings.arguments import check_library, check_problem
    from aclnn_bindings.libraries import simulator

    check_problem(problem)
    if library is None:
        library = simulator(problem.platform_row.default_soc)
    check_library(library)
    with library.runtime.bind() as context:
        memory = context.memory.acquire(_DUMMY_BYTES)
        try:
            return _status(problem, library, context, memory.address)
        finally:
            context.memory.release(memory)


def _status(problem: Problem, library: Library, context: Any, address: int) -> int:
    present = {name: spec for name, spec in problem.arguments.items() if spec is not None}
    tuning = problem.attributes.tuning_config
    addresses = [address if name in present else 0 for name in ARGUMENTS]
    with Tensors(context, DescriptorTable(present), addresses) as tensors, Executor(context) as executor:
        scalars, size = scalars_of(problem.attributes), ffi.new("uint64_t *")
        if tuning is None:
            return call_phase_one(library, tensors, scalars, ffi.NULL, size, executor.cell)
        with IntArray(context, tuning) as array:
            return call_phase_one(library, tensors, scalars, array.pointer, size, executor.cell)

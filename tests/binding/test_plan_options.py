"""Options of a plan: determinism, validation, timeout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import Plan
from reference import InvalidProblemError
from reference.operands import Array, Operands

SimulatorOf = Callable[[Operands], aclnn_bindings.Library]
AssertRight = Callable[[Array, Operands], None]


@pytest.mark.parametrize(("deterministic", "extra"), [(None, 0), (False, 0), (True, 96 << 20)])
def test_the_determinism_switch_reaches_phase_one_and_is_restored(
    small_w4a8: Operands,
    deterministic: bool | None,
    extra: int,
    simulator_of: SimulatorOf,
    assert_right: AssertRight,
) -> None:
    library = simulator_of(small_w4a8)
    with Plan(small_w4a8.problem, small_w4a8.arrays, library=library) as plan:
        plain = plan.workspace_size
    with Plan(small_w4a8.problem, small_w4a8.arrays, library=library, deterministic=deterministic) as plan:
        assert plan.workspace_size == plain + extra
        assert option(library, "aclrtGetSysParamOpt") == option(library, "aclrtCtxGetSysParamOpt") == 0
        plan.execute()
        assert_right(plan.result(), small_w4a8)


def option(library: aclnn_bindings.Library, reader: str) -> int:
    from aclnn_bindings._acl import ffi, lib

    cell = ffi.new("int64_t *")
    status = getattr(library.functions, reader)(lib.ACL_OPT_DETERMINISTIC, cell)
    return 0 if status else int(cell[0])


def test_a_value_that_was_set_before_comes_back(small_w4a8: Operands, simulator_of: SimulatorOf) -> None:
    from aclnn_bindings._acl import lib

    library = simulator_of(small_w4a8)
    with library.runtime.bind():
        functions = library.functions
        library.check(functions.aclrtSetSysParamOpt(lib.ACL_OPT_DETERMINISTIC, 1), "aclrtSetSysParamOpt")
        library.check(
            functions.aclrtCtxSetSysParamOpt(lib.ACL_OPT_DETERMINISTIC, 1), "aclrtCtxSetSysParamOpt"
        )
        try:
            with Plan(small_w4a8.problem, small_w4a8.arrays, library=library, deterministic=False):
                assert (
                    option(library, "aclrtGetSysParamOpt") == option(library, "aclrtCtxGetSysParamOpt") == 1
                )
        finally:
            functions.aclrtSetSysParamOpt(lib.ACL_OPT_DETERMINISTIC, 0)
            functions.aclrtCtxSetSysParamOpt(lib.ACL_OPT_DETERMINISTIC, 0)


def test_validation_levels(small_w4a8: Operands, simulator_of: SimulatorOf) -> None:
    # k 256 and n 128 are outside the documented 2048 and 7168
    library = simulator_of(small_w4a8)
    with pytest.raises(InvalidProblemError, match="phase 1 accepts this call"):
        Plan(small_w4a8.problem, small_w4a8.arrays, library=library, validate="strict")
    wrong = {**small_w4a8.arrays, "row_index": np.full(8, 4)}
    with pytest.raises(InvalidProblemError, match="row_index"):
        Plan(small_w4a8.problem, wrong, library=library)
    with pytest.raises(ValueError, match='validate: expected "errors", "strict" or "off"'):
        Plan(small_w4a8.problem, small_w4a8.arrays, library=library, validate="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), 1e9])
def test_a_timeout_is_a_number_of_seconds(
    small_mx: Operands, simulator_of: SimulatorOf, timeout: float
) -> None:
    with pytest.raises(ValueError, match="timeout: expected seconds above 0"):
        Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx), timeout=timeout)

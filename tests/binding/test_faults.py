"""Every function of the library fails at each of its uses: a clean exception, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import Plan
from aclnn_bindings import grouped_matmul_finalize_routing_v3 as operator
from aclnn_bindings._acl import ffi
from aclnn_bindings.functions import INDEX
from reference import golden
from reference.cases import Case
from reference.operands import Operands

Live = Callable[[], dict[str, int]]

#: Calls whose failure the binding lives with: it says so, or does without.
TOLERATED = {
    "aclSetAclOpExecutorRepeatable",  # an ordinary executor does
    "aclrtGetSysParamOpt",  # an option nobody has set
    "aclrtCtxGetSysParamOpt",
}
#: A failure on order does not do its work: what these should have destroyed is still there.
LOSES = {
    "aclrtFree": {"liveAllocations", "liveBytes"},
    "aclrtDestroyStream": {"liveStreams"},
    "aclDestroyTensor": {"liveTensors"},
    "aclDestroyIntArray": {"liveIntArrays"},
    "aclDestroyAclOpExecutor": {"liveExecutors"},
}
CASES = [
    Case("mx", "mxfp8", 8, 64, 32, 2, 4),
    Case("w4a8", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2", options={"tuning_config": (4,)}),
]
FUNCTIONS = sorted(name for name in INDEX if name.startswith("acl"))
CODE = 507899


@pytest.fixture
def inject() -> Iterator[Callable[[str], None]]:
    """Order a failure; all orders are gone at the end."""
    library = aclnn_bindings.simulator()

    def order(text: str) -> None:
        library.check(library.functions.gmmfrSimSetFaults(text.encode()), "gmmfrSimSetFaults")

    yield order
    order("")


def use_a_plan(operands: Operands, library: aclnn_bindings.Library) -> Any:
    with Plan(operands.problem, operands.arrays, library=library, deterministic=False, timeout=60) as plan:
        plan.execute()
        plan.update(logit=operands.arrays["logit"])
        return plan.run()


def use_the_function(operands: Operands, library: aclnn_bindings.Library) -> Any:
    names = ("shared_input_weight", "shared_input_offset", "transpose_x2", "group_list_type", "tuning_config")
    attributes = {name: getattr(operands.attributes, name) for name in names}
    return operator(**operands.arrays, **attributes, batch=operands.batch, library=library)


def is_right(result: Any, operands: Operands) -> bool:
    stage = golden(operands, magnitudes=True)
    assert stage.magnitude is not None
    slack = 1e-5 * stage.magnitude + (0 if stage.rounding is None else stage.rounding)
    return bool((np.abs(result - stage.out) <= slack).all())


def fail_at_each_use(
    function: str, use: Callable[..., Any], operands: Operands, inject: Callable[[str], None], live: Live
) -> int:
    """Fail ``function`` at its first, second, ... use; returns how many uses there are."""
    library = aclnn_bindings.simulator(operands.problem.platform_row.default_soc)
    for position in range(1, 200):
        before = live()
        inject(f"{function}:{position}:{CODE}")
        failure = None
        try:
            result = use(operands, library)
        except aclnn_bindings.AclError as error:
            failure = error.code
        else:
            assert is_right(result, operands)
        assert failure in (None, CODE, 500001)  # functions without a status return NULL
        inject("")
        after = live()
        assert library.memory_stats().in_use == 0
        lost = {name for name in after if after[name] != before[name]}
        assert lost <= LOSES.get(function, set()), f"use {position}"
        if failure is None and (function not in TOLERATED or position > 6):
            return position - 1
    raise AssertionError(f"{function} is used without end")


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("use", [use_a_plan, use_the_function])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_failure_is_clean(
    case: Case, use: Callable[..., Any], function: str, inject: Callable[[str], None], live: Live
) -> None:
    operands = case.make()
    fail_at_each_use(function, use, operands, inject, live)
    library = aclnn_bindings.simulator(operands.problem.platform_row.default_soc)
    assert is_right(use(operands, library), operands)


def test_the_calls_that_every_run_makes_are_really_failed(inject: Callable[[str], None], live: Live) -> None:
    operands = CASES[1].make()
    use_a_plan(operands, aclnn_bindings.simulator("Ascend910B2"))  # later ones hit the cache: a phase 1 a run
    uses = {
        name: fail_at_each_use(name, use_a_plan, operands, inject, live)
        for name in ("aclrtMalloc", "aclrtMemcpy", "aclCreateTensor", "aclCreateIntArray", "aclrtMemcpyAsync")
    }
    assert uses["aclrtMalloc"] >= 2
    assert uses["aclrtMemcpy"] == 8 + 1 + 1  # inputs, update, result
    assert uses["aclCreateTensor"] == 2 * 9
    assert uses["aclCreateIntArray"] == 1
    assert uses["aclrtMemcpyAsync"] == 2


def test_each_order_counts_every_call_from_the_order_on(inject: Callable[[str], None]) -> None:
    functions = aclnn_bindings.simulator().functions
    cell = ffi.new("int32_t *")
    with aclnn_bindings.simulator().runtime.bind():
        functions.aclrtGetDevice(cell)
        inject("aclrtGetDevice:2:107001,aclrtGetDevice:3:107002,aclrtGetDevice:5:107003,aclrtGetDevice:2:1")
        codes = [functions.aclrtGetDevice(cell) for _ in range(6)]
    assert codes == [0, 107001, 107002, 0, 107003, 0]


def test_out_of_memory_says_how_much_there_is(inject: Callable[[str], None]) -> None:
    operands = CASES[0].make()
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    library.release_memory()
    inject("aclrtMalloc:1:207001")
    with pytest.raises(aclnn_bindings.OutOfDeviceMemoryError, match="bytes free"):
        use_the_function(operands, library)


def test_an_allocation_that_fails_beside_idle_memory_is_tried_again(inject: Callable[[str], None]) -> None:
    operands = CASES[0].make()
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    library.release_memory()
    use_the_function(CASES[1].make(), aclnn_bindings.simulator("Ascend910B2"))  # leaves idle memory
    inject("aclrtMalloc:1:207001")
    assert is_right(use_the_function(operands, library), operands)


@pytest.mark.parametrize("code", [507035, 507015, 107003, 507899])
def test_a_failed_wait_does_not_free_memory_under_a_running_kernel(
    code: int, inject: Callable[[str], None], live: Live
) -> None:
    operands = Case("slow", "mxfp8", 512, 2048, 2048, 2, 256).make()
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    before = live()
    inject(f"aclrtSynchronizeStream:1:{code}")
    with pytest.raises(aclnn_bindings.AclError) as caught:
        use_the_function(operands, library)
    assert caught.value.code == code
    inject("")
    assert live() == before
    assert is_right(use_the_function(operands, library), operands)


def test_a_stream_that_hangs_after_a_failure_keeps_its_memory_until_it_is_done(
    inject: Callable[[str], None], live: Live
) -> None:
    operands = CASES[0].make()
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    before = live()
    inject(
        "aclrtSynchronizeStream:1:107003,aclrtSynchronizeStreamWithTimeout:1:507046,"
        "aclrtSynchronizeStream:2:107003,aclrtSynchronizeStreamWithTimeout:2:507046"  # and at the next use
    )
    with pytest.raises(aclnn_bindings.AclError) as caught:
        use_the_function(operands, library)
    assert caught.value.code == 107003
    inject("")
    assert library.memory_stats().in_use > 0
    with library.runtime.bind():
        library.check(library.functions.aclrtSynchronizeDevice(), "aclrtSynchronizeDevice")
    assert live() == before
    assert library.memory_stats().in_use == 0

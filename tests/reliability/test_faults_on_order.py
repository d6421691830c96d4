"""Each call that the binding makes, made to fail with the codes that it can have: what the caller sees.

tests/binding/test_faults.py fails every function at each of its uses with one code; here it is each code.
"""

from __future__ import annotations

import re
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
from reference.status import STATUSES, status_name

PHASE_2 = "aclnnGroupedMatmulFinalizeRoutingV3"
PHASE_1 = PHASE_2 + "GetWorkspaceSize"
WAIT = (507000, 507001, 507010, 507011, 507014, 507015, 507018, 507034, 507035, 507053, 507054, 507899)
WAIT += (507901, 107003, 107020, 107022, 107023)
INNER = (
    561000,
    561001,
    561002,
    561003,
    561101,
    561102,
    561103,
    561105,
    561107,
    561108,
    561112,
    561118,
    561201,
)

#: Function: what the exception says was being done, and the codes that it is failed with. 0 where the
#: function has no status: it gives NULL, and the caller sees 500001.
CALLS: dict[str, tuple[str, tuple[int, ...]]] = {
    "aclrtGetCurrentContext": ("aclrtGetCurrentContext", (107000, 507899)),
    "aclrtCreateStream": ("aclrtCreateStream", (207005, 207008, 507010)),
    "aclrtMalloc": ("aclrtMalloc of … bytes", (107002, 200000, 207001, 207018, 507053, 507899)),
    "aclrtMemcpy": ("aclrtMemcpy of … bytes to the device", (107000, 107002, 507010, 507053)),
    "aclrtMemcpyAsync": ("aclrtMemcpyAsync of x1, … bytes on the device", (107003, 107017, 507010)),
    "aclCreateTensor": ("aclCreateTensor for x1 returned NULL", (0,)),
    "aclCreateIntArray": ("aclCreateIntArray of 1 values returned NULL", (0,)),
    "aclrtSetSysParamOpt": ("aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0)", (100000, 507899)),
    "aclrtCtxSetSysParamOpt": ("aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0)", (100000, 107002)),
    PHASE_1: (PHASE_1, (161001, 161002, 361001, *INNER)),
    PHASE_2: (PHASE_2, (161001, 361001, 507010, *INNER)),
    "aclrtSynchronizeStream": ("synchronising the stream", WAIT),
    "aclrtSynchronizeStreamWithTimeout": ("synchronising the stream", (*WAIT, 107019, 507046)),
    "aclDestroyTensor": ("destroying tensor descriptors", (161002, 561000)),
    "aclDestroyIntArray": ("destroying int array", (161002, 561000)),
    "aclDestroyAclOpExecutor": ("destroying executor", (561000, 561103)),
}
#: Calls whose failure the caller does not see: there is another way, or nothing to do.
LIVED_WITH = {
    "aclSetAclOpExecutorRepeatable": "each run has a phase 1 of its own",
    "aclrtGetSysParamOpt": "an option that nobody has set counts as off",
    "aclrtCtxGetSysParamOpt": "an option that nobody has set counts as off",
}
#: Calls of the release of idle memory and streams, not of a run.
RELEASE = {"aclrtFree": "device memory of", "aclrtDestroyStream": "stream"}
#: A failure on order does not do its work: what these should have destroyed is still there.
LOSES = {
    "aclrtFree": {"liveAllocations", "liveBytes"},
    "aclrtDestroyStream": {"liveStreams"},
    "aclDestroyTensor": {"liveTensors"},
    "aclDestroyIntArray": {"liveIntArrays"},
    "aclDestroyAclOpExecutor": {"liveExecutors"},
}
#: Called once a process or once a thread: made to fail in processes of their own.
START = {"aclInit": (100000, 507033, 507899), "aclrtSetDevice": (107001, 507033), "aclrtGetDevice": (107002,)}

CASES = {
    "mx": Case("mx", "mxfp8", 8, 64, 32, 2, 4),
    "w4a8": Case("w4a8", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2", options={"tuning_config": (4,)}),
}


def use_a_plan(operands: Operands, library: aclnn_bindings.Library) -> Any:
    with Plan(operands.problem, operands.arrays, library=library, deterministic=False, timeout=60) as plan:
        plan.execute()
        plan.update(logit=operands.arrays["logit"])
        return plan.run()


def use_the_function(operands: Operands, library: aclnn_bindings.Library) -> Any:
    names = ("shared_input_weight", "shared_input_offset", "transpose_x2", "group_list_type", "tuning_config")
    attributes = {name: getattr(operands.attributes, name) for name in names}
    return operator(**operands.arrays, **attributes, batch=operands.batch, library=library)


USES = {"plan": use_a_plan, "function": use_the_function}


@pytest.fixture
def order() -> Iterator[Callable[[str], None]]:
    """Order failures; none is left at the end."""
    library = aclnn_bindings.simulator()

    def inject(text: str) -> None:
        library.check(library.functions.gmmfrSimSetFaults(text.encode()), "gmmfrSimSetFaults")

    yield inject
    inject("")


def live() -> dict[str, int]:
    """Live objects after idle memory was given back, in a thread without cached phase-1 results."""
    library = aclnn_bindings.simulator()
    library.release_memory()
    library.functions.gmmfrSimClearCache()
    cell = ffi.new("gmmfrSimStatistics *")
    library.check(library.functions.gmmfrSimGetStatistics(cell), "gmmfrSimGetStatistics")
    names = [name for name, _ in ffi.typeof("gmmfrSimStatistics").fields if name.startswith("live")]
    return {name: int(getattr(cell, name)) for name in names}


def is_right(result: Any, operands: Operands) -> bool:
    stage = golden(operands, magnitudes=True)
    assert stage.magnitude is not None
    slack = 1e-5 * stage.magnitude + (0 if stage.rounding is None else stage.rounding)
    return bool((np.abs(result - stage.out) <= slack).all())


def makes(use: str, family: str, function: str, order: Callable[[str], None]) -> bool:
    """Whether a use calls ``function``: then its failure shows."""
    operands = CASES[family].make()
    live()
    order(f"{function}:1:507899")
    try:
        USES[use](operands, aclnn_bindings.simulator(operands.problem.platform_row.default_soc))
    except aclnn_bindings.AclError:
        return True
    finally:
        order("")
    return False


def test_the_list_of_calls_is_the_observed_one(order: Callable[[str], None]) -> None:
    functions = [name for name in INDEX if name.startswith("acl")]
    observed = {
        name for name in functions for use in USES for family in CASES if makes(use, family, name, order)
    }
    live()
    assert observed == set(CALLS)


def failure_of(run: Callable[[], bool]) -> aclnn_bindings.AclError | None:
    """The exception of a run; without one its result is right."""
    try:
        right = run()
    except aclnn_bindings.AclError as error:
        return error
    assert right
    return None


def check(error: aclnn_bindings.AclError, function: str, code: int, what: str) -> None:
    """Code, name, message and call of one exception."""
    expected = code or 500001
    assert (error.code, error.name) == (expected, status_name(expected))
    assert re.sub(r"\d+ bytes", "… bytes", error.what) == what
    assert error.message is not None
    assert error.message.endswith(f"{function}: failure on order")
    assert str(error).startswith(f"{error.what} returned {expected} {error.name}")


ROWS = [(function, code) for function, (_, codes) in CALLS.items() for code in codes]


@pytest.mark.parametrize(("function", "code"), ROWS)
def test_the_caller_sees_code_name_message_and_call(
    function: str, code: int, order: Callable[[str], None], documented: Callable[[str], bool]
) -> None:
    what, _ = CALLS[function]
    seen = 0
    for case in CASES.values():
        operands = case.make()
        library = aclnn_bindings.simulator(operands.problem.platform_row.default_soc)
        for use in USES.values():
            before = live()
            order(f"{function}:1:{code or 507899}")
            error = failure_of(lambda o=operands, u=use, on=library: is_right(u(o, on), o))
            if error is not None:
                seen += 1
                check(error, function, code, what)
                assert documented(f"| {function} | {code or 'NULL'} | {type(error).__name__} | {what} |")
            order("")
            after = live()
            lost = {name for name in after if after[name] != before[name]}
            assert lost <= LOSES.get(function, set())
            assert library.memory_stats().in_use == 0
            assert is_right(use(operands, library), operands), "the next call works"
    assert seen


@pytest.mark.parametrize("function", LIVED_WITH)
def test_failures_that_the_binding_lives_with(
    function: str, order: Callable[[str], None], documented: Callable[[str], bool]
) -> None:
    for case in CASES.values():
        operands = case.make()
        library = aclnn_bindings.simulator(operands.problem.platform_row.default_soc)
        before = live()
        order(f"{function}:1:561000")
        assert is_right(use_a_plan(operands, library), operands)
        assert library.recent_message() is None, "the message of a failure that is none was read"
        order("")
        assert live() == before
    assert documented(f"| {function} | any | none | {LIVED_WITH[function]} |")


@pytest.mark.parametrize("function", RELEASE)
def test_a_failed_release_says_what_was_released(
    function: str, order: Callable[[str], None], documented: Callable[[str], bool]
) -> None:
    operands = CASES["mx"].make()
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    before = live()
    use_the_function(operands, library)
    order(f"{function}:1:507899")
    with pytest.raises(aclnn_bindings.DeviceFaultError, match=f"destroying {RELEASE[function]}") as caught:
        library.release_memory()
    assert caught.value.code == 507899
    order("")
    lost = {name for name, count in live().items() if count != before[name]}
    assert lost == LOSES[function]
    assert is_right(use_the_function(operands, library), operands)
    what = f"destroying {RELEASE[function]}{' … bytes' if function == 'aclrtFree' else ''}"
    assert documented(f"| {function} | 507899 | DeviceFaultError | {what} |")


@pytest.mark.parametrize(
    ("function", "code"), [(name, code) for name, codes in START.items() for code in codes]
)
def test_a_start_that_fails_is_an_exception_and_the_next_start_works(
    function: str, code: int, python: Callable[..., Any], documented: Callable[[str], bool]
) -> None:
    program = """
import aclnn_bindings
from reference.cases import Case
operands = Case("mx", "mxfp8", 8, 64, 32, 2, 4).make()
library = aclnn_bindings.simulator("Ascend950PR_9579")
def use():
    with aclnn_bindings.Plan(operands.problem, operands.arrays, library=library) as plan:
        return plan.run()
try:
    use()
except aclnn_bindings.AclError as error:
    print(type(error).__name__, error.code, error.what, error.message, sep="|")
print(use().shape)
"""
    done = python(program, GMMFR_SIM_FAULT=f"{function}:1:{code}")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    kind, seen, what, message = first.split("|")
    assert (int(seen), second) == (code, "(4, 32)")
    assert what.startswith(function)
    assert message.endswith(f"{function}: failure on order")
    assert documented(f"| {function} | {code} | {kind} | {what} |")


def test_every_code_has_a_cause_to_read() -> None:
    for function, (_, codes) in CALLS.items():
        for code in codes:
            assert code == 0 or STATUSES[code].cause, f"{function} {code}"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (161002, aclnn_bindings.RejectedError),
        (561103, aclnn_bindings.RejectedError),
        (207001, aclnn_bindings.OutOfDeviceMemoryError),
        (507046, aclnn_bindings.SynchronizeTimeoutError),
        (507035, aclnn_bindings.DeviceFaultError),
        (107003, aclnn_bindings.AclError),
    ],
)
def test_the_kind_of_exception_tells_what_can_be_done(code: int, kind: type[Exception]) -> None:
    from aclnn_bindings.errors import error_of

    assert type(error_of(code, None, "x")) is kind

"""Devices, threads, forks, and a runtime that someone else started."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import Plan
from reference import golden
from reference.operands import Operands

FakeFactory = Callable[..., Any]
SimulatorOf = Callable[[Operands], aclnn_bindings.Library]


def run_python(code: str) -> str:
    """Run ``code`` in an interpreter of its own; returns what it prints."""
    command = [sys.executable, "-c", code]  # in a folder without packages, which "-c" would put first
    here = Path(__file__).parent
    result = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_an_absent_device_says_which_exist(small_mx: Operands, simulator_of: SimulatorOf) -> None:
    library = simulator_of(small_mx)
    with pytest.raises(aclnn_bindings.AclError) as caught:
        Plan(small_mx.problem, small_mx.arrays, library=library, device=7)
    assert caught.value.code == 107001
    assert f"device 7: {library.device_count} visible: 0 to {library.device_count - 1}" in str(caught.value)


def test_no_device_at_all_is_said(compile_fake: FakeFactory, small_mx: Operands) -> None:
    library = aclnn_bindings.find_library(compile_fake("-DFAKE_DEVICES=0").path)
    assert library.device_count == 0
    with pytest.raises(aclnn_bindings.AclError, match="device 0: 0 visible: none"):
        Plan(small_mx.problem, small_mx.arrays, library=library)


def test_a_runtime_started_by_someone_else_is_used_and_never_ended(compile_fake: FakeFactory) -> None:
    fake = compile_fake("-DFAKE_INIT=100002")
    library = aclnn_bindings.find_library(fake.path)
    with library.runtime.bind():
        pass
    assert fake.record.inits == 1
    assert not library.runtime.owned
    library.runtime.end()
    assert (fake.record.finalizes, fake.record.resets) == (0, 0)


def test_our_own_runtime_is_started_once_and_ended_once(compile_fake: FakeFactory) -> None:
    fake = compile_fake()
    library = aclnn_bindings.find_library(fake.path)
    for _ in range(3):
        with library.runtime.bind():
            pass
    assert fake.record.inits == 1
    library.runtime.end()
    library.runtime.end()
    assert (fake.record.finalizes, fake.record.resets) == (1, 1)


def test_beside_torch_npu_nothing_is_ended(
    compile_fake: FakeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = compile_fake()
    library = aclnn_bindings.find_library(fake.path)
    with library.runtime.bind():
        pass
    monkeypatch.setitem(sys.modules, "torch_npu", sys)
    library.runtime.end()
    assert (fake.record.finalizes, fake.record.resets) == (0, 0)


def test_a_failed_start_is_an_error_and_can_be_tried_again(compile_fake: FakeFactory) -> None:
    fake = compile_fake("-DFAKE_INIT=507033")
    library = aclnn_bindings.find_library(fake.path)
    for _ in range(2):
        with pytest.raises(aclnn_bindings.DeviceFaultError, match=r"aclInit\(NULL\) returned 507033"):
            library.runtime.start()
    assert fake.record.inits == 2


def current(library: aclnn_bindings.Library) -> tuple[Any, int]:
    """The calling thread's context and device."""
    from aclnn_bindings._acl import ffi

    cell = ffi.new("int32_t *")
    library.check(library.functions.aclrtGetDevice(cell), "aclrtGetDevice")
    return library.runtime.current_context(), cell[0]


def test_the_threads_device_is_kept_and_another_one_is_only_borrowed(compile_fake: FakeFactory) -> None:
    library = aclnn_bindings.find_library(compile_fake("-DFAKE_DEVICES=4").path)
    library.runtime.start()
    library.runtime.set_device(2)
    before = current(library)
    with library.runtime.bind() as context:
        assert context.device == 2
    with library.runtime.bind(3) as context:
        assert context.device == 3
        assert current(library)[1] == 3
    assert current(library) == before


def test_a_plan_runs_on_its_own_device_from_a_thread_of_another(
    small_mx: Operands, simulator_of: SimulatorOf
) -> None:
    library = simulator_of(small_mx)
    with library.runtime.bind(0):
        before = current(library)
    with Plan(small_mx.problem, small_mx.arrays, library=library, device=1) as plan:
        plan.execute()
        result = plan.result()
        assert current(library) == before
    np.testing.assert_allclose(result, golden(small_mx).out, rtol=1e-4)


def test_new_threads_get_a_device_by_themselves(small_mx: Operands, simulator_of: SimulatorOf) -> None:
    library = simulator_of(small_mx)
    expected = golden(small_mx).out
    results: list[Any] = []

    def work() -> None:
        try:
            for _ in range(5):
                with Plan(small_mx.problem, small_mx.arrays, library=library) as plan:
                    plan.execute()
                    results.append(plan.result())
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-4)


@pytest.mark.parametrize("repeatable", [True, False])
def test_one_plan_may_be_used_from_several_threads(
    small_mx: Operands, simulator_of: SimulatorOf, repeatable: bool
) -> None:
    expected = golden(small_mx).out
    errors: list[BaseException] = []
    with Plan(
        small_mx.problem, small_mx.arrays, library=simulator_of(small_mx), repeatable=repeatable
    ) as plan:

        def work() -> None:
            try:
                for _ in range(10):
                    plan.execute()
                    np.testing.assert_allclose(plan.result(), expected, rtol=1e-4)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


_FORK = """
import os, sys
from reference.cases import Case
import aclnn_bindings
from aclnn_bindings import Plan
operands = Case("small", "mxfp8", 8, 64, 32, 2, 4).make()
library = aclnn_bindings.simulator()
def run():
    with Plan(operands.problem, operands.arrays, library=library) as plan:
        plan.execute()
        return plan.result()
{before}
child = os.fork()
if child == 0:
    try:
        {inside}
        print("ran", flush=True)
    except aclnn_bindings.ForkedProcessError as error:
        print("refused:", error, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
{after}
print("parent fine")
"""


def test_a_child_of_a_fork_is_told_to_spawn() -> None:
    printed = run_python(_FORK.format(before="run()", inside="run()", after="run()"))
    first, second = printed.splitlines()
    assert first.startswith("refused:")
    assert '"spawn"' in first
    assert second == "parent fine"


def test_a_plan_made_before_the_fork_is_refused_in_the_child_and_lives_on_in_the_parent() -> None:
    before = "plan = Plan(operands.problem, operands.arrays, library=library); plan.execute()"
    printed = run_python(
        _FORK.format(before=before, inside="plan.execute()", after="plan.execute(); plan.close()")
    )
    first, second = printed.splitlines()
    assert first.startswith("refused:")
    assert second == "parent fine"


def test_closing_an_inherited_plan_in_the_child_calls_no_library() -> None:
    before = "plan = Plan(operands.problem, operands.arrays, library=library); plan.execute()"
    printed = run_python(
        _FORK.format(before=before, inside="plan.close()", after="plan.execute(); plan.close()")
    )
    assert printed.splitlines() == ["ran", "parent fine"]


def test_a_fork_before_the_first_call_is_fine() -> None:
    printed = run_python(_FORK.format(before="", inside="run()", after="run()"))
    assert printed.splitlines() == ["ran", "parent fine"]


def test_the_interpreter_may_end_with_live_handles() -> None:
    code = (
        "from reference.cases import Case\nimport aclnn_bindings\n"
        "operands = Case('small', 'mxfp8', 8, 64, 32, 2, 4).make()\n"
        "plan = aclnn_bindings.Plan(operands.problem, operands.arrays, library=aclnn_bindings.simulator())\n"
        "plan.launch()\nprint('end')"
    )
    environment = {**os.environ, "GMMFR_SIM_CHECK": "1"}
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", code]
    here = Path(__file__).parent
    result = subprocess.run(
        command, cwd=here, capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "end", "")

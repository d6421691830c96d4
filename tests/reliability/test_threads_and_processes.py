"""Threads with streams of their own, threads that are running when the process ends, forks, interrupts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import Plan
from aclnn_bindings._acl import ffi
from reference import golden
from reference.cases import Case

CASE = Case("threads", "mxfp8", 8, 64, 32, 2, 4)
START = """
import aclnn_bindings
from aclnn_bindings import Plan
from reference.cases import Case
operands = Case("threads", "mxfp8", 8, 64, 32, 2, 4).make()
library = aclnn_bindings.simulator("Ascend950PR_9579")
def run():
    with Plan(operands.problem, operands.arrays, library=library) as plan:
        return plan.run()
"""


def test_threads_with_streams_of_their_own_do_not_meet(raw: Callable[..., Any]) -> None:
    """Raw calls, each in its own thread on its own stream, with its own memory; all at once."""
    calls = [raw() for _ in range(4)]
    barrier = threading.Barrier(len(calls))
    statuses: list[int] = []

    def work(call: Any) -> None:
        with call.library.runtime.bind():
            barrier.wait()
            for _ in range(10):
                statuses.append(call.run())

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 40
    assert len({call.read("out") for call in calls}) == 1


def test_plans_on_streams_of_the_caller_run_side_by_side(raw: Callable[..., Any]) -> None:
    operands, call = CASE.make(), raw()
    expected = golden(operands).out
    streams = [call.new_stream() for _ in range(3)]
    results: list[Any] = []

    def work(stream: Any) -> None:
        address = int(ffi.cast("uintptr_t", stream))
        with Plan(operands.problem, operands.arrays, library=call.library, stream=address) as plan:
            for _ in range(10):
                results.append(plan.run())

    threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 30
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-4)
    for stream in streams:
        assert call.f.aclrtDestroyStream(stream) == 0
    call.library.release_memory()


def test_a_thread_without_a_device_is_told_so_by_the_library(raw: Callable[..., Any]) -> None:
    call = raw()
    seen: list[Any] = []

    def work() -> None:
        cell = ffi.new("void **")
        seen.append(call.f.aclrtMalloc(cell, 64, 0))
        seen.append(call.library.recent_message())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen[0] == 107002
    assert "this thread has no current context; call aclrtSetDevice" in seen[1]


def test_messages_belong_to_their_threads(raw: Callable[..., Any]) -> None:
    call = raw()
    assert call.f.aclrtFree(ffi.NULL) != 0
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(call.library.recent_message()))
    thread.start()
    thread.join()
    assert seen == [None]
    assert "devPtr is NULL" in (call.library.recent_message() or "")


@pytest.mark.parametrize("kind", ["plan in use", "buffers", "raw handles", "exception", "thread"])
def test_the_interpreter_ends_with_things_alive(kind: str, python: Callable[..., Any]) -> None:
    endings = {
        "plan in use": "plan = Plan(operands.problem, operands.arrays, library=library)\nplan.launch()",
        "buffers": (
            "from aclnn_bindings.handles import IntArray\n"
            "from aclnn_bindings.memory import DeviceMemory\n"
            "from aclnn_bindings.streams import Stream\n"
            "with library.runtime.bind() as context:\n"
            "    kept = [DeviceMemory(context, 64), Stream(context), IntArray(context, (1,))]"
        ),
        "raw handles": (
            "from aclnn_bindings._acl import ffi\n"
            "run()\n"
            "with library.runtime.bind():\n"
            "    stream, event, memory = ffi.new('void **'), ffi.new('void **'), ffi.new('void **')\n"
            "    library.functions.aclrtCreateStream(stream)\n"
            "    library.functions.aclrtCreateEvent(event)\n"
            "    library.functions.aclrtMalloc(memory, 1 << 20, 0)\n"
            "    library.functions.aclrtMemsetAsync(memory[0], 1 << 20, 1, 1 << 20, stream[0])"
        ),
        "exception": (
            "plan = Plan(operands.problem, operands.arrays, library=library)\nplan.launch()\n"
            "import sys\nprint('end', flush=True)\nsys.exit(3)"
        ),
        "thread": (
            "import threading, time\n"
            "def work():\n    while True: run()\n"
            "threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.3)"
        ),
    }
    done = python(START + endings[kind] + "\nprint('end')")
    assert done.stdout.strip() == "end"
    assert done.returncode == (3 if kind == "exception" else 0), done.stderr
    if kind != "thread":  # a daemon thread is stopped anywhere, and may say so
        assert done.stderr == ""


def test_workers_of_a_fork_are_refused_and_spawned_ones_work(
    python: Callable[..., Any], tmp_path: Any
) -> None:
    program = tmp_path / "workers.py"
    program.write_text(
        START
        + """
import multiprocessing, sys
def work(_):
    return run().shape
def told(_):
    try:
        return str(run().shape)
    except aclnn_bindings.ForkedProcessError as error:
        return f"refused: {error}"
if __name__ == "__main__":
    run()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(*pool.map(told, [1, 2]), sep="\\n")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1]))
    print(run().shape)
""",
        encoding="utf-8",
    )
    done = python(
        f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, {str(program)!r}]).returncode)"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["refused"] * 2
    assert '"spawn"' in lines[0]
    assert lines[2:] == ["[(4, 32)]", "(4, 32)"]


def test_an_interrupt_while_waiting_loses_nothing(python: Callable[..., Any]) -> None:
    """An exception of a signal's handler, which comes up after the wait or between two calls."""
    code = (
        START
        + """
import gc, signal
from aclnn_bindings._acl import ffi
class Interrupted(Exception):
    pass
def interrupt(*_):
    raise Interrupted
def live():
    gc.collect()
    library.release_memory()
    cell = ffi.new("gmmfrSimStatistics *")
    library.functions.gmmfrSimGetStatistics(cell)
    return [cell.liveBytes, cell.liveTensors, cell.liveExecutors, cell.liveStreams, cell.liveIntArrays]
run()
before, count = live(), 0
signal.signal(signal.SIGALRM, interrupt)
import warnings
warnings.simplefilter("ignore", ResourceWarning)
for step in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0004 + 0.0001 * step)
        for _ in range(100):
            run()
    except Interrupted:
        count += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
print(count, live() == before, run().shape)
"""
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "60 True (4, 32)", done.stdout + done.stderr


def test_two_devices_at_once() -> None:
    operands = CASE.make()
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    with (
        Plan(operands.problem, operands.arrays, library=library, device=0) as first,
        Plan(operands.problem, operands.arrays, library=library, device=1) as second,
    ):
        first.launch()
        second.launch()
        np.testing.assert_array_equal(first.result(), second.result())
    for device in (0, 1):
        library.release_memory(device)

"""What the binding adds to the same calls made from C, on the simulator and a call too small to matter.

Run from the repository: ``python benchmarks/binding.py [--json]``.  C and Python take turns in rounds, so
that both see the same machine; each figure is the median of all calls, the added time the median of the
rounds' differences.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns, thread_time_ns
from typing import Any

import numpy as np

import aclnn_bindings
from aclnn_bindings.headers import LIBRARY_DIRECTORY, SIMULATOR_LIBRARY
from reference.cases import Case
from reference.operands import Operands

CASE = Case("tiny", "mxfp8", 2, 64, 32, 2, 2, options={"counts": [1, 1]})
INPUTS = ("x1", "x2", "scale", "pertoken_scale", "group_list", "logit", "row_index")
ROUNDS, CALLS = 25, 200
# The kernel's helper threads fall asleep between two calls from Python and not between two from C.
os.environ["GMMFR_SIM_THREADS"] = "1"


class Baseline:
    """The calls of ``binding_baseline.c`` on the simulator that the binding has loaded."""

    def __init__(self, operands: Operands, folder: Path) -> None:
        path = folder / "baseline.so"
        flags = ["-O2", "-shared", "-fPIC", f"-I{aclnn_bindings.include_directory()}"]
        link = [f"-L{LIBRARY_DIRECTORY}", f"-l:{SIMULATOR_LIBRARY.name}", f"-Wl,-rpath,{LIBRARY_DIRECTORY}"]
        source = Path(__file__).with_name("binding_baseline.c")
        subprocess.run(["cc", *flags, str(source), "-o", str(path), *link], check=True)
        self._library = ctypes.CDLL(str(path))
        self._arrays = [operands.arrays[name] for name in INPUTS]
        self._host = (ctypes.c_void_p * len(INPUTS))(*(array.ctypes.data for array in self._arrays))
        self._out = np.empty((CASE.batch, CASE.n), np.float32)
        self._library.prepare(self._host)

    def executes(self, count: int) -> list[float]:
        """Microseconds of each phase 2 with its wait."""
        times = (ctypes.c_double * count)()
        self._library.time_executes(count, times)
        return [time / 1e3 for time in times]

    def calls(self, count: int) -> list[float]:
        """Microseconds of each whole call."""
        times = (ctypes.c_double * count)()
        self._library.time_calls(count, times, self._host, ctypes.c_void_p(self._out.ctypes.data))
        return [time / 1e3 for time in times]


def microseconds(function: Callable[[], Any], count: int) -> list[float]:
    """Microseconds of each of ``count`` calls."""
    times = []
    for _ in range(count):
        begin = perf_counter_ns()
        function()
        times.append((perf_counter_ns() - begin) / 1e3)
    return times


def processor_time(function: Callable[[int], list[float]], count: int) -> tuple[list[float], float]:
    """What ``function`` measured in ``count`` calls, and the thread's own microseconds for each call."""
    begin = thread_time_ns()
    times = function(count)
    return times, (thread_time_ns() - begin) / 1e3 / count


def compare(in_c: Callable[[int], list[float]], function: Callable[[], Any]) -> dict[str, float]:
    """Medians of both, and what Python adds: on the clock, and of the calling thread's processor time.

    The second figure is the steadier one on a machine that does other things too.
    """

    def in_python(count: int) -> list[float]:
        return microseconds(function, count)

    in_c(CALLS)
    in_python(CALLS)
    pairs = [(processor_time(in_c, CALLS), processor_time(in_python, CALLS)) for _ in range(ROUNDS)]
    return {
        "c": statistics.median(time for (times, _), _ in pairs for time in times),
        "python": statistics.median(time for _, (times, _) in pairs for time in times),
        "added": statistics.median(statistics.median(p) - statistics.median(c) for (c, _), (p, _) in pairs),
        "added_processor": statistics.median(p - c for (_, c), (_, p) in pairs),
    }


def measure() -> dict[str, dict[str, float]]:
    """All figures by name, in microseconds."""
    operands = CASE.make()
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    library.functions.gmmfrSimClearCache()
    with tempfile.TemporaryDirectory() as folder:
        baseline = Baseline(operands, Path(folder))
        call = {**operands.arrays, "library": library}
        out = np.empty((CASE.batch, CASE.n), np.float32)
        with aclnn_bindings.Plan(operands.problem, operands.arrays, library=library) as plan:
            assert plan.repeatable
            figures = {"Plan.execute, warm": compare(baseline.executes, plan.execute)}
        operator = aclnn_bindings.grouped_matmul_finalize_routing_v3
        figures["one-shot, NumPy operands"] = compare(baseline.calls, lambda: operator(**call, out=out))
        unchecked = compare(baseline.calls, lambda: operator(**call, out=out, validate="off"))
        figures["one-shot, validation off"] = unchecked
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    as_json = parser.parse_args().json
    figures = measure()
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    print("| call | in C, us | in Python, us | added, us | added processor time, us |")
    print("|---|---|---|---|---|")
    for name, row in figures.items():
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in row.values()) + " |")


if __name__ == "__main__":
    main()

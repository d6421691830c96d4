"""Mixed calls for a while: memory and time of a call stay as they are, and the checking device finds nothing.

``python tests/reliability/soak.py SECONDS`` prints what it measured; the exit code is 1 where memory grows,
calls get slower, or a result is wrong.  GMMFR_SIM_CHECK=1 should be set.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import aclnn_bindings
from aclnn_bindings import Plan
from aclnn_bindings import grouped_matmul_finalize_routing_v3 as operator
from aclnn_bindings._acl import ffi
from reference import golden
from reference.cases import Case
from reference.operands import Operands

#: Growth of resident memory from the first third to the last that is noise of the allocator: it gives each
#: thread that begins an arena of its own, which takes some ten seconds to be over.
GROWTH, GROWTH_AT_FIRST = 16 << 20, 96 << 20
#: The median call of the last third may take this much of the first third's: other work runs beside it.
SLOWER = 2.0

CASES = (
    Case("mx", "mxfp8", 24, 128, 64, 3, 8, options={"shared_rows": 4, "shared_offset": 2}),
    Case("mx4", "mxfp4", 16, 128, 64, 2, 8, options={"transpose_x2": True}),
    Case("w4a8", "w4a8", 24, 256, 128, 3, 8, platform="atlas_a2"),
    Case("offset", "w4a8", 16, 256, 128, 2, 8, platform="atlas_a3", options={"offset": True}),
    Case("large", "mxfp8", 256, 1024, 512, 4, 64),
)


class Subject:
    """One call with the result that it must give."""

    def __init__(self, case: Case) -> None:
        self.operands: Operands = case.make()
        self.library = aclnn_bindings.simulator(self.operands.problem.platform_row.default_soc)
        stage = golden(self.operands, magnitudes=True)
        assert stage.magnitude is not None
        self.expected = stage.out
        self.slack = 1e-5 * stage.magnitude + (0 if stage.rounding is None else stage.rounding)
        names = (
            "shared_input_weight",
            "shared_input_offset",
            "transpose_x2",
            "group_list_type",
            "tuning_config",
        )
        bytes_ = [name for name, array in self.operands.arrays.items() if array.dtype == np.uint8]
        self.dtypes = {name: self.operands.problem.spec(name).dtype for name in bytes_}
        self.attributes = {name: getattr(self.operands.attributes, name) for name in names}

    def check(self, result: Any) -> None:
        """Raise for a wrong result."""
        if not (np.abs(result - self.expected) <= self.slack).all():
            raise AssertionError(f"{self.operands.problem.platform}: wrong result")

    def function(self) -> None:
        """The one-shot function."""
        operands = self.operands
        options: dict[str, Any] = {"batch": operands.batch, "library": self.library, "dtypes": self.dtypes}
        self.check(operator(**operands.arrays, **self.attributes, **options))

    def plan(self) -> None:
        """A plan with an update."""
        with Plan(self.operands.problem, self.operands.arrays, library=self.library) as plan:
            plan.execute()
            plan.update(logit=self.operands.arrays["logit"])
            self.check(plan.run())

    def deterministic(self) -> None:
        """A plan of one run in deterministic mode."""
        with Plan(
            self.operands.problem,
            self.operands.arrays,
            library=self.library,
            deterministic=True,
            repeatable=False,
        ) as plan:
            self.check(plan.run())

    def refused(self) -> None:
        """A call that phase 1 refuses, and a failure of a wait."""
        with Plan(self.operands.problem, self.operands.arrays, library=self.library, validate="off") as plan:
            self.library.functions.gmmfrSimSetFaults(b"aclrtSynchronizeStream:1:507015")
            try:
                plan.execute()
            except aclnn_bindings.DeviceFaultError:
                pass
            else:
                raise AssertionError("a failure on order did not come")
            finally:
                self.library.functions.gmmfrSimSetFaults(b"")

    def from_threads(self) -> None:
        """The one-shot function from two new threads at once."""
        errors: list[BaseException] = []

        def work() -> None:
            try:
                self.function()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def live() -> dict[str, int]:
    """Live objects of the simulator after idle memory was given back."""
    library = aclnn_bindings.simulator()
    library.release_memory()
    cell = ffi.new("gmmfrSimStatistics *")
    library.check(library.functions.gmmfrSimGetStatistics(cell), "gmmfrSimGetStatistics")
    names = [name for name, _ in ffi.typeof("gmmfrSimStatistics").fields if name.startswith("live")]
    return {name: int(getattr(cell, name)) for name in names}


def soak(seconds: float, seed: int = 0) -> dict[str, Any]:
    """Run for ``seconds``; what was measured."""
    chosen = random.Random(seed)
    subjects = [Subject(case) for case in CASES]
    kinds: list[Callable[[Subject], None]] = [
        Subject.function,
        Subject.plan,
        Subject.deterministic,
        Subject.refused,
        Subject.from_threads,
    ]
    for kind in kinds:  # first uses: caches fill, threads start
        for subject in subjects:
            kind(subject)
    gc.collect()
    before = live()
    times: list[float] = []
    memory: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        subject, kind = chosen.choice(subjects), chosen.choice(kinds)
        begin = time.perf_counter()
        kind(subject)
        times.append(time.perf_counter() - begin)
        if len(times) % 20 == 0:
            memory.append(resident())
    gc.collect()
    third = max(1, len(times) // 3)
    return {
        "calls": len(times),
        "live_before": before,
        "live_after": live(),
        "resident_first": statistics.median(memory[: max(1, len(memory) // 3)]) if memory else 0,
        "resident_last": statistics.median(memory[-max(1, len(memory) // 3) :]) if memory else 0,
        "median_first": statistics.median(times[:third]),
        "median_last": statistics.median(times[-third:]),
        "message": aclnn_bindings.simulator().recent_message(),
    }


def complaints(measured: dict[str, Any], long: bool) -> list[str]:
    """What is not as it was; times only after a ``long`` soak."""
    said = []
    growth = GROWTH if long else GROWTH_AT_FIRST
    if measured["live_before"] != measured["live_after"]:
        said.append(f"live objects: {measured['live_before']} before, {measured['live_after']} after")
    if measured["resident_last"] - measured["resident_first"] > growth:
        said.append(f"resident memory grew from {measured['resident_first']} to {measured['resident_last']}")
    if long and measured["median_last"] > SLOWER * measured["median_first"]:
        said.append(
            f"calls got slower: {measured['median_first']:.4g} s, then {measured['median_last']:.4g} s"
        )
    if measured["message"]:
        said.append(f"a message is left: {measured['message']}")
    return said


def main() -> None:
    """The command."""
    measured = soak(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
    for name, value in measured.items():
        print(f"{name}: {value}")
    said = complaints(measured, long=True)
    print("\n".join(said) or "constant")
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()

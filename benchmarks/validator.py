"""What validation costs: beside the simulator's phase 1, with routing values, and as a command.

Run from the repository: ``python benchmarks/validator.py [--json]``.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path

from reference.problem import Attributes, Problem, TensorSpec
from reference.validator import validate

ROWS, BATCH, EXPERTS = 4096, 512, 8


def w4a8() -> Problem:
    """The documented shape on Atlas A2."""
    k, n, e = 2048, 7168, EXPERTS
    return Problem(
        "atlas_a2",
        {
            "x1": TensorSpec((ROWS, k), "int8"),
            "x2": TensorSpec((e, k, n // 8), "int32"),
            "scale": TensorSpec((e, 1, n), "int64"),
            "bias": TensorSpec((e, n), "float32"),
            "pertoken_scale": TensorSpec((ROWS,), "float32"),
            "shared_input": TensorSpec((BATCH // e, n), "bfloat16"),
            **_routing(n),
        },
    )


def mxfp8() -> Problem:
    """The same extents as MXFP8 with transposed weights on Ascend 950."""
    k, n, e = 2048, 7168, EXPERTS
    return Problem(
        "ascend950",
        {
            "x1": TensorSpec((ROWS, k), "float8_e4m3fn"),
            "x2": TensorSpec((e, n, k), "float8_e4m3fn"),
            "scale": TensorSpec((e, n, k // 64, 2), "float8_e8m0fnu"),
            "pertoken_scale": TensorSpec((ROWS, k // 64, 2), "float8_e8m0fnu"),
            **_routing(n),
        },
        Attributes(transpose_x2=True),
    )


def _routing(n: int) -> dict[str, TensorSpec]:
    return {
        "group_list": TensorSpec((EXPERTS,), "int64"),
        "logit": TensorSpec((ROWS,), "float32"),
        "row_index": TensorSpec((ROWS,), "int64"),
        "out": TensorSpec((BATCH, n), "float32"),
    }


def microseconds(function: Callable[[], object], number: int = 1000, repeats: int = 9) -> float:
    """Median time of one call, in microseconds."""
    return statistics.median(timeit.repeat(function, number=number, repeat=repeats)) / number * 1e6


def command_milliseconds(problem: Problem, repeats: int = 9) -> float:
    """Median time of ``gmmfr validate problem.json --json`` from process start, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.json"
        path.write_text(json.dumps(problem.to_json()), encoding="utf-8")
        command = [sys.executable, "-m", "gmmfr.cli", "validate", str(path), "--json"]

        def run() -> None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        run()
        return statistics.median(timeit.repeat(run, number=1, repeat=repeats)) * 1e3


def measure() -> dict[str, float]:
    """All figures by name."""
    from aclnn_bindings.phase_one import phase_one_status

    indices = random.Random(0).choices(range(BATCH), k=ROWS)
    values = {"group_list": [ROWS // EXPERTS] * EXPERTS, "row_index": indices}
    figures = {}
    for name, problem in (("W4A8", w4a8()), ("MXFP8", mxfp8())):
        assert validate(problem, values) == validate(problem) == (0, (), ())
        assert phase_one_status(problem) == 0
        figures[f"{name}: validate, us"] = microseconds(lambda p=problem: validate(p))
        figures[f"{name}: validate with {ROWS} row indices, us"] = microseconds(
            lambda p=problem: validate(p, values), number=200
        )
        figures[f"{name}: phase 1 of the simulator, us"] = microseconds(
            lambda p=problem: phase_one_status(p), number=200
        )
    figures["gmmfr validate --json from process start, ms"] = command_milliseconds(w4a8())
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
    for name, figure in figures.items():
        print(f"{figure:10.1f}  {name}")


if __name__ == "__main__":
    main()

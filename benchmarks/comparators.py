"""What other comparators say about the same pairs of results.

    python benchmarks/comparators.py

Polygraphy's columns need ``pip install polygraphy``; without it they say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference import Golden, compare, golden, golden_stages, make_case

Array = NDArray[Any]
#: What the result is, whether it is right, the result, the golden.
Pair = tuple[str, str, Array, Golden]


def pairs() -> Iterator[Pair]:
    """Results of named cases, right and wrong."""
    call = make_case("c11")
    reference, stages = golden(call, magnitudes=True), golden_stages(call)
    out = stages.shared.astype(np.float32)
    for i in np.random.default_rng(0).permutation(len(stages.logit)):
        out[stages.targets[i]] += stages.logit[i].astype(np.float32)
    yield "c11, rows added in another order", "right", out, reference

    call = make_case("c4")
    reference = golden(call, magnitudes=True)
    yield (
        "c4, the A2's own half-precision partials",
        "right",
        golden(call, model="fp16_partials").out,
        reference,
    )

    out = reference.out.astype(np.float32)
    row, column = np.unravel_index(np.argmin(np.abs(reference.out)), out.shape)
    out[row, column] += 5e-4
    yield "c4, the smallest element off by 5e-4", "wrong", out, reference

    call = make_case("c8")
    reference = golden(call, magnitudes=True)
    out = reference.out.astype(np.float32)
    place = np.unravel_index(np.argmax(reference.out), out.shape)
    out[place] = np.nextafter(out[place], np.float32(0))
    yield "c8, integers, one off in the last bit", "wrong", out, reference

    call = make_case("c2")
    small = change_logit(call, np.float32(1e-6))
    reference = golden(small, magnitudes=True)
    reversed_logit = change_logit(call, np.float32(1e-6), reverse=True)
    yield "c2 · 1e-6, logit in reverse order", "wrong", golden(reversed_logit).out, reference

    call = make_case("c10")
    nothing = np.full((call.batch, call.problem.n), np.nan)
    arrays = {**call.arrays, "logit": np.full_like(call.arrays["logit"], np.nan)}
    reference = golden(type(call)(call.problem, arrays), magnitudes=True)
    yield "c10, NaN everywhere on both sides", "no content", nothing, Golden(nothing, *sizes(reference))


def sizes(reference: Golden) -> tuple[Array | None, Array | None]:
    """Magnitudes and terms of a golden."""
    return reference.magnitude, reference.terms


def change_logit(call: Any, factor: np.float32, *, reverse: bool = False) -> Any:
    """The call with its logit times a factor."""
    logit = call.arrays["logit"] * factor
    return type(call)(call.problem, {**call.arrays, "logit": logit[::-1].copy() if reverse else logit})


def ours(out: Array, reference: Golden) -> str:
    """The verdict of this project."""
    return compare(out, reference.out, reference).verdict


def allclose(rtol: float, atol: float) -> Callable[[Array, Golden], str]:
    """``numpy.testing.assert_allclose`` with these tolerances."""

    def judge(out: Array, reference: Golden) -> str:
        try:
            np.testing.assert_allclose(out, reference.out, rtol=rtol, atol=atol)
        except AssertionError:
            return "FAIL"
        return "PASS"

    return judge


def polygraphy(tolerance: float) -> Callable[[Array, Golden], str]:
    """Polygraphy's element-wise comparison with rtol = atol = ``tolerance``."""

    def judge(out: Array, reference: Golden) -> str:
        try:
            from polygraphy.comparator import Comparator, CompareFunc, IterationResult, RunResults
            from polygraphy.logger import G_LOGGER
        except ImportError:
            return "not installed"
        results = RunResults(
            [
                ("out", [IterationResult({"out": out.astype(np.float32)}, runner_name="out")]),
                (
                    "golden",
                    [IterationResult({"out": reference.out.astype(np.float32)}, runner_name="golden")],
                ),
            ]
        )
        with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
            simple = CompareFunc.simple(rtol=tolerance, atol=tolerance)
            return "PASS" if bool(Comparator.compare_accuracy(results, compare_func=simple)) else "FAIL"

    return judge


JUDGES: dict[str, Callable[[Array, Golden], str]] = {
    "gmmfr": ours,
    "assert_allclose": allclose(1e-7, 0.0),
    "assert_allclose 1e-3": allclose(1e-3, 1e-3),
    "Polygraphy 1e-5": polygraphy(1e-5),
    "Polygraphy 1e-3": polygraphy(1e-3),
}


def main() -> None:
    """Print the table in Markdown."""
    print(f"| result | it is | {' | '.join(JUDGES)} |")
    print("|---|---|" + "---|" * len(JUDGES))
    for what, truth, out, reference in pairs():
        print(f"| {what} | {truth} | {' | '.join(judge(out, reference) for judge in JUDGES.values())} |")


if __name__ == "__main__":
    main()

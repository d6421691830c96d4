"""For tests of a kernel: compare its output with the golden, with a message that says where and why."""

from __future__ import annotations

from typing import Any

from gmmfr.loading import load_call
from reference.comparator import Comparison, Position, compare
from reference.diagnosis import diagnose
from reference.golden_operator import Golden, golden
from reference.judging import Criterion
from reference.location import locate
from reference.operands import Operands, host_array

__all__ = ["assert_matches_golden"]


def assert_matches_golden(
    out: Any,
    operands: Operands | str,
    *,
    criterion: Criterion = "bound",
    reference: Golden | None = None,
    explain: bool = True,
    err_msg: str = "",
) -> Comparison:
    """Raise ``AssertionError`` unless ``out`` (batch, n) agrees with the golden of ``operands``.

    ``out`` is a NumPy array or a CPU tensor; ``operands`` may be a case name or a bundle's path.
    ``criterion`` is ``bound`` or ``rtol`` (rtol = atol = 1e-3); ``reference`` the call's golden with
    magnitudes, where a test has it already; ``explain=False`` leaves the search for classic mistakes out.
    The message holds the count and share of mismatches, where they are, the worst elements with both values,
    and the mistakes that explain them.  Returns the comparison.
    """
    __tracebackhide__ = True
    call = load_call(operands)
    array = host_array("out", out)
    known = golden(call, magnitudes=True) if reference is None else reference
    comparison = compare(array, known.out, known, a_name="out", b_name="golden", criterion=criterion)
    if comparison.verdict == "PASS":
        return comparison
    lines = ["", "out does not match the golden", *([err_msg] if err_msg else []), ""]
    lines += _numbers(comparison)
    if array.shape == known.out.shape and comparison.mismatches:
        place = locate(array, known.out, known, criterion=criterion)
        lines += [f" {line}" for line in place.describe()[1:]]
        lines += ["Worst elements:", *_worst_lines(comparison.worst[:5])]
        if explain:
            lines += _why(call, array, known)
    raise AssertionError("\n".join(lines))


def _numbers(comparison: Comparison) -> list[str]:
    share = comparison.mismatches / max(1, comparison.count)
    lines = [
        f"Mismatched elements: {comparison.mismatches} / {comparison.count} ({share:.3%})",
        f"Criterion: {comparison.criterion}",
        f"Max absolute difference: {comparison.max_abs:.8g}",
        f"Max relative difference: {comparison.max_rel:.8g}",
        f"Max difference / allowed difference: {comparison.max_ratio:.6g}",
    ]
    if comparison.nonfinite:
        lines.append(f"NaN or infinite on either side: {comparison.nonfinite}")
    if comparison.reason is not None and not comparison.mismatches:
        lines.append(comparison.reason)
    elif comparison.unwritten:
        lines.append(f"Never written, or added to without being initialised: {comparison.unwritten}")
    elif comparison.reason is not None and not comparison.worst:
        lines.append(comparison.reason)
    return lines


def _worst_lines(worst: tuple[Position, ...]) -> list[str]:
    return [
        f" [{w.row}, {w.column}]: {w.a:.9g} (out), {w.b:.9g} (golden), {w.ratio:.4g} x allowed; "
        f"rows of x1 {list(w.rows)}, experts {list(w.experts)}"
        for w in worst
    ]


def _why(call: Operands, out: Any, reference: Golden) -> list[str]:
    diagnosis = diagnose(call, out, reference=reference)
    if not diagnosis.explanations:
        return [f"Why: none of {diagnosis.tried} variants of classic mistakes gives this result"]
    return ["Why:", *(f" {found}" for found in diagnosis.explanations)]

"""What the comparator must pass and must fail, with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reference import Golden, Operands, compare, golden, make_case
from reference.judging import C, Judge
from reference.sentinel import fill_with_sentinel, sentinel_filled, unwritten

UNIT = 2.0**-24


def made(
    out: Any, magnitude: float = 1.0, terms: int = 4, rounding: float | None = None, exact: bool = False
) -> Golden:
    """A golden with the same magnitude and number of terms everywhere."""
    values = np.array(out, np.float64, ndmin=2)
    sizes = np.full(values.shape, magnitude, np.float32)
    partials = None if rounding is None else np.full(values.shape, rounding, np.float32)
    return Golden(values, sizes, np.full(len(values), terms), partials, exact)


def verdict(a: Any, reference: Golden, **options: Any) -> str:
    return compare(np.array(a, ndmin=2), reference.out, reference, **options).verdict


def test_bound_by_hand() -> None:
    """C · √4 · 2^-24 · 10, and twice of it for two sides."""
    reference = made([[1.0, 2.0]], magnitude=10.0)
    rows = slice(0, 1)
    by_hand = C * 2 * UNIT * 10
    np.testing.assert_allclose(Judge(reference).bound(rows), by_hand, rtol=1e-6)
    np.testing.assert_allclose(Judge(reference, sides=2).bound(rows), 2 * by_hand, rtol=1e-6)


def test_half_precision_partials_widen_the_bound() -> None:
    reference = made([[1.0]], magnitude=1.0, rounding=0.5)
    np.testing.assert_allclose(Judge(reference).bound(slice(0, 1)), C * 2 * UNIT + 0.5, rtol=1e-6)


def test_small_result_of_large_terms_may_be_off_by_much() -> None:
    """Golden 1e-6, result 0.03, terms of 1e4 in sum: relative error 30000, and right."""
    assert verdict([[0.03]], made([[1e-6]], magnitude=1e5, terms=4)) == "PASS"


def test_large_result_of_few_terms_may_not() -> None:
    assert verdict([[103.0]], made([[100.0]], magnitude=100.0)) == "FAIL"


def test_one_element_in_a_million_off_by_half_fails() -> None:
    values = np.linspace(1, 2, 1 << 20).reshape(1024, 1024)
    wrong = values.astype(np.float32)
    wrong[700, 3] *= 1.5
    comparison = compare(wrong, values, made(values, magnitude=2.0))
    assert (comparison.verdict, comparison.mismatches) == ("FAIL", 1)
    assert (comparison.worst[0].row, comparison.worst[0].column) == (700, 3)
    assert comparison.match_ratio == 1 - 2.0**-20


def test_twice_the_bound_in_one_of_ten_million_fails() -> None:
    """And 0.9 of it passes."""
    values = np.full((1400, 7168), 3.0)
    reference = made(values, magnitude=1000.0, terms=7168)
    bound = float(Judge(reference).bound(slice(0, 1))[0, 0])
    for share, expected in ((2.0, "FAIL"), (0.9, "PASS")):
        wrong = values.copy()
        wrong[1234, 4321] += share * bound
        comparison = compare(wrong, reference.out, reference)
        assert comparison.verdict == expected
        assert comparison.max_ratio == pytest.approx(share, rel=1e-6)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (NAN, NAN, "PASS"),
        (NAN, 1.0, "FAIL"),
        (1.0, NAN, "FAIL"),
        (INF, INF, "PASS"),
        (INF, -INF, "FAIL"),
        (INF, 1.0, "FAIL"),
        (1.0, INF, "FAIL"),
        (NAN, INF, "FAIL"),
    ],
)
@pytest.mark.parametrize("criterion", ["bound", "rtol"])
def test_special_values(a: float, b: float, expected: str, criterion: str) -> None:
    comparison = compare(
        np.array([[a, 0.5]]),
        np.array([[b, 0.5]]),
        made([[b, 0.5]]),
        criterion=criterion,  # type: ignore[arg-type]
    )
    assert comparison.verdict == expected
    assert comparison.nonfinite == 1
    assert comparison.mismatches == (expected == "FAIL")


@pytest.mark.parametrize("magnitude", [1.0, INF, NAN])
def test_nan_of_the_golden_is_no_excuse(magnitude: float) -> None:
    """A NaN in the operands makes the golden and its magnitude NaN; a finite result is still wrong."""
    assert verdict([[1.0, 1.0]], made([[NAN, 1.0]], magnitude=magnitude)) == "FAIL"


def test_a_sum_beyond_float32_may_overflow_or_not() -> None:
    reference = replace(made([[1e38, 0.5]]), magnitude=np.full((1, 2), np.inf, np.float32))
    assert verdict([[INF, 0.5]], reference) == "PASS"
    assert verdict([[NAN, 0.5]], reference) == "PASS"


def test_nothing_finite_has_no_content() -> None:
    comparison = compare(np.full((2, 2), NAN), np.full((2, 2), NAN), made(np.full((2, 2), NAN)))
    assert comparison.verdict == "FAIL"
    assert "no content" in str(comparison.reason)


def test_rows_without_terms_are_no_content() -> None:
    """Row 1 is 0 whatever the operands hold; row 0 has all the terms, and only NaN and inf on both sides."""
    values = [[NAN, INF, NAN], [0.0, 0.0, 0.0]]
    reference = replace(made(values), terms=np.array([4, 0]))
    comparison = compare(np.array(values), reference.out, reference)
    assert comparison.verdict == "FAIL"
    assert comparison.reason == (
        "every element with terms (3 of 6) is NaN or infinite: the comparison has no content"
    )
    assert (comparison.nan, comparison.infinite) == ((2, 2), (1, 1))


def test_one_finite_element_with_terms_is_content() -> None:
    values = [[NAN, 2.0, NAN], [0.0, 0.0, 0.0]]
    reference = replace(made(values), terms=np.array([4, 0]))
    assert compare(np.array(values), reference.out, reference).verdict == "PASS"


def test_nan_and_infinite_elements_are_counted_by_side() -> None:
    """1e39 is infinite in float32."""
    reference = made([[NAN, 1.0, INF, 1.0]])
    comparison = compare(np.array([[NAN, NAN, 1e39, 1.0]]), reference.out, reference)
    assert (comparison.nan, comparison.infinite, comparison.nonfinite) == ((2, 1), (1, 1), 3)
    written = comparison.to_json()
    assert (list(written["nan"]), list(written["infinite"])) == ([2, 1], [1, 1])


def test_a_call_whose_logits_are_nan_does_not_pass() -> None:
    """c10 has a row of out without terms: 288 of its 360 elements are NaN, the other 72 are 0."""
    operands = make_case("c10")
    arrays = {**operands.arrays, "logit": np.full(operands.arrays["logit"].shape, NAN, np.float32)}
    reference = golden(Operands(operands.problem, arrays), magnitudes=True)
    comparison = compare(reference.out.astype(np.float32), reference.out, reference)
    assert (comparison.verdict, comparison.nan) == ("FAIL", (288, 288))
    assert "288 of 360" in str(comparison.reason)


def test_exact_data_match_bit_for_bit() -> None:
    reference = made([[3.0, 4.0]], magnitude=100.0, exact=True)
    assert verdict([[3.0, 4.0]], reference) == "PASS"
    assert verdict([[3.0, np.nextafter(np.float32(4), np.float32(5))]], reference) == "FAIL"


@pytest.mark.parametrize("name", ["w0", "w1", "m0", "c8"])
def test_integer_cases_are_exact(name: str) -> None:
    reference = golden(make_case(name), magnitudes=True)
    assert reference.exact
    out = reference.out.astype(np.float32)
    assert compare(out, reference.out, reference).verdict == "PASS"
    out[0, 5] = np.nextafter(out[0, 5], np.float32(np.inf))
    comparison = compare(out, reference.out, reference)
    assert (comparison.verdict, comparison.max_ratio) == ("FAIL", INF)


def test_where_nothing_rounds_values_must_be_equal() -> None:
    reference = made([[3.0, 4.0]], magnitude=100.0, exact=True)
    comparison = compare(np.array([[3.0, 5.0]]), reference.out, reference)
    assert (comparison.worst[0].bound, comparison.worst[0].distance) == (0.0, "must be equal")
    assert comparison.remedy == "no bound passes: what leaves no room for rounding must be equal"


def test_what_would_have_passed_is_said_of_a_bound() -> None:
    """|8 - 4| = 4 is 3.2 times 0.25 + 0.25 · 4 = 1.25; a NaN on one side passes with no bound."""
    reference = made([[4.0]])
    comparison = compare([[8.0]], reference.out, reference, criterion="rtol", rtol=0.25, atol=0.25)
    assert comparison.worst[0].distance == "3.2 × the bound 1.25"
    assert comparison.remedy == "a bound 3.2 times as wide would have passed"
    one_sided = compare([[NAN]], reference.out, reference)
    assert one_sided.remedy == "no bound passes"


@pytest.mark.parametrize("name", ["c2", "c4", "c10", "c12", "c14", "c16", "c18_w4a8", "c18_mxfp8"])
def test_quantised_data_are_not_exact(name: str) -> None:
    assert not golden(make_case(name), magnitudes=True).exact


def test_rtol_decides_when_asked() -> None:
    reference = made([[100.0]], magnitude=100.0)
    assert verdict([[100.05]], reference) == "FAIL"
    assert verdict([[100.05]], reference, criterion="rtol") == "PASS"
    assert verdict([[100.2]], reference, criterion="rtol") == "FAIL"
    with pytest.raises(ValueError, match="criterion: expected 'bound' or 'rtol', got 'cosine'"):
        verdict([[100.0]], reference, criterion="cosine")


def test_errors_of_both_sides_and_their_ratio() -> None:
    """Golden 1 and 2: a is off by 0.1 and 0, b by 0.01 and 0.04."""
    reference = made([[1.0, 2.0]])
    comparison = compare(np.array([[1.1, 2.0]]), np.array([[1.01, 2.04]]), reference)
    a, b, ratio = (*comparison.errors, comparison.error_ratio)
    assert a is not None
    assert b is not None
    assert ratio is not None
    assert (a.max_relative, a.mean_relative) == pytest.approx((0.1, 0.05))
    assert (b.max_relative, b.mean_relative) == pytest.approx((0.02, 0.015))
    assert a.rms == pytest.approx(np.sqrt(0.01 / 5))
    assert ratio.max_relative == pytest.approx(5.0)
    assert compare(np.array([[1.1, 2.0]]), reference.out, reference).error_ratio is None


def test_wrong_shape_and_type_fail_with_a_reason() -> None:
    reference = made([[1.0, 2.0]])
    assert verdict([[1.0]], reference) == "FAIL"
    comparison = compare(np.array([[1, 2]]), reference.out, reference, a_name="mine")
    assert comparison.reason == "mine dtype: expected float32, got int64"


def test_worst_element_says_what_went_into_its_row() -> None:
    """w0: rows 1 and 2 of x1, of experts 0 and 1, go to row 1 of out."""
    reference = golden(make_case("w0"), magnitudes=True)
    out = reference.out.astype(np.float32)
    out[1, 7] += 1
    worst = compare(out, reference.out, reference).worst[0].to_json()
    assert (worst["row"], worst["column"]) == (1, 7)
    assert (worst["rows"], worst["experts"]) == ([1, 2], [0, 1])
    assert (worst["a"], worst["b"]) == (-223.0, -224.0)
    assert (worst["a_bits"], worst["b_bits"]) == ("0xc35f0000", "0xc3600000")


def test_unwritten_elements_are_found() -> None:
    reference = golden(make_case("c10"), magnitudes=True)
    out = reference.out.astype(np.float32)
    fill_with_sentinel(out[1:2, 8:16])
    comparison = compare(out, reference.out, reference)
    assert (comparison.verdict, comparison.unwritten, comparison.mismatches) == ("FAIL", 8, 8)
    assert "8 were never written" in str(comparison.reason)


def test_sentinel_survives_an_addition_and_is_no_common_nan() -> None:
    filled = sentinel_filled((3,))
    assert unwritten(filled).all()
    assert np.isnan(filled).all()
    assert unwritten(filled + np.float32(1)).all()
    assert not unwritten(np.array([np.nan, -np.nan, np.inf - np.inf], np.float32)).any()
    with pytest.raises(ValueError, match="out dtype: expected float32, got float64"):
        fill_with_sentinel(np.zeros(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["c3", "c5", "c10", "c11", "c18_w4a8"])
def test_scatter_in_any_order_passes(name: str) -> None:
    """The rows' float32 contributions added in 20 random orders."""
    from reference import golden_stages

    call = make_case(name)
    reference, stages = golden(call, magnitudes=True), golden_stages(call)
    rows = stages.logit.astype(np.float32)
    for seed in range(20):
        out = stages.shared.astype(np.float32)
        for i in np.random.default_rng(seed).permutation(len(rows)):
            out[stages.targets[i]] += rows[i]
        assert compare(out, reference.out, reference).verdict == "PASS"


def test_large_rows_that_cancel_pass_in_any_order() -> None:
    """1e8, 1, -1e8, 1 added to one element: 0, 1 or 2 by the order, and all are right."""
    reference = made([[2.0]], magnitude=2e8 + 2, terms=4)
    for out in (0.0, 1.0, 2.0):
        assert verdict([[out]], reference) == "PASS"
    assert verdict([[200.0]], reference) == "FAIL"


@pytest.mark.parametrize("pair", [False, True])
def test_memory_beside_the_results_is_small(pair: bool) -> None:
    """Far less than three times the output."""
    import tracemalloc

    values = np.linspace(1, 2, 1000 * 4096).reshape(1000, 4096)
    reference = made(values, magnitude=100.0)
    a, b = values.astype(np.float32), values.astype(np.float32) if pair else reference.out
    tracemalloc.start()
    assert compare(a, b, reference).verdict == "PASS"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < a.nbytes


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (0, 0)])
def test_empty_outputs(shape: tuple[int, int]) -> None:
    from reference import locate

    reference = made(np.zeros(shape))
    out = np.zeros(shape, np.float32)
    assert compare(out, reference.out, reference).verdict == "PASS"
    assert locate(out, reference.out, reference).mismatches == 0


@pytest.mark.parametrize("kind", [">f4", "<f4", ">f8", "<f8"])
def test_results_of_either_byte_order_are_the_same_values(kind: str) -> None:
    reference = made([[1.0, 2.0]])
    right, wrong = np.array([[1.0, 2.0]], kind), np.array([[1.0, 2.5]], kind)
    assert compare(right, reference.out, reference).verdict == "PASS"
    assert compare(wrong, reference.out, reference).mismatches == 1
    assert compare(reference.out, wrong, reference).mismatches == 1
    left = sentinel_filled((1, 2)).astype(kind) if kind == ">f4" else sentinel_filled((1, 2))
    assert compare(left, reference.out, reference).unwritten == 2


def test_a_list_of_numbers_is_a_result() -> None:
    reference = made([[1.0, 2.0]])
    assert compare([[1.0, 2.0]], reference.out, reference).verdict == "PASS"
    assert compare([[1.0, 2.5]], reference.out, reference).mismatches == 1


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "a shape: expected (1, 2), got ()"),
        ([1.0, 2.0], "a shape: expected (1, 2), got (2,)"),
        ([[1, 2]], "a dtype: expected float32, got int64"),
        ([["1", "2"]], "a dtype: expected float32, got str32"),
    ],
)
def test_what_is_no_result_fails_by_name(result: Any, reason: str) -> None:
    comparison = compare(result, made([[1.0, 2.0]]).out, made([[1.0, 2.0]]))
    assert (comparison.verdict, comparison.reason) == ("FAIL", reason)


def test_rows_of_different_lengths_are_no_array() -> None:
    reference = made([[1.0, 2.0]])
    with pytest.raises(ValueError, match="mine: expected an array, got list"):
        compare([[1.0], [1.0, 2.0]], reference.out, reference, a_name="mine")

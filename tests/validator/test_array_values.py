# ruff: noqa: E501 (messages are tested by their whole text)
"""Values in arrays: scale words, E8M0 bytes, the W4A8 bias, shared input."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from reference.problem import ProblemError
from reference.rules import VALUE_RULES, routing
from reference.rules.bias import sum_weights
from reference.validator import validate

Array = np.ndarray[Any, Any]

# Documented k and n are not needed here; the small shapes leave two undocumented violations, which are cut.
K, N, E = 256, 128, 2


def said(
    calls: SimpleNamespace, values: dict[str, Any], check_bias: bool = False, **changes: Any
) -> list[str]:
    """The violations about values of a small W4A8 call."""
    report = validate(
        calls.w4a8(m=4, k=K, n=N, e=E, batch=2, shared=1, **changes), values, check_bias=check_bias
    )
    return [f"{v.level}: {v.message}" for v in report.violations if v.level != "undocumented"]


def words(factor: float) -> Array:
    """Scales as the operator takes them: float32 bits in the low half."""
    return np.full((E, 1, N), np.float32(factor).view(np.uint32), dtype=np.int64)


def test_exact_scales_say_nothing(calls: SimpleNamespace) -> None:
    assert said(calls, {"scale": words(0.25)}) == []


def test_bit_46_of_the_quantisation_vector_is_legal(calls: SimpleNamespace) -> None:
    assert said(calls, {"scale": words(0.25) | 1 << 46}) == []


def test_a_numeric_cast_of_scales_is_recognised(calls: SimpleNamespace) -> None:
    scale = np.array([0.1, 0.25, 1.0, 1.0]).astype(np.int64).repeat(N // 2).reshape(E, 1, N)
    assert said(calls, {"scale": scale}) == [
        "warning: scale values: expected float32 bits in the low half, got words of at most 1; looks like a cast, not a "
        "bit copy: as float32 all are 0 or subnormal; use pack_scale_int64() [scale-cast]"
    ]


def test_a_float64_view_of_scales_is_recognised(calls: SimpleNamespace) -> None:
    scale = np.full((E, 1, N), np.float64(np.float32(0.1))).view(np.int64)
    assert said(calls, {"scale": scale}) == [
        "warning: scale values: expected float32 bits in the low half, nothing in the high half but bit 46, got "
        "0x3fb99999a0000000 at 0; looks like a float64 view or int64 numbers: pack_scale_int64() puts float32 bits in the "
        "low half [scale-float64]"
    ]


def test_scale_bits_that_the_unit_does_not_read(calls: SimpleNamespace) -> None:
    assert said(calls, {"scale": words(0.1)}) == [
        "warning: scale values: expected the low 13 bits 0, got 256 of 256 have more bits; the unit reads sign, exponent "
        'and 10 mantissa bits: relative error up to 2^-10; pack_scale_int64(scale, rounding="nearest") halves it '
        "[scale-low-bits]"
    ]


def test_scales_that_are_no_factors(calls: SimpleNamespace) -> None:
    scale = words(1.0)
    scale[1, 0, 3] = np.float32(np.nan).view(np.uint32)
    scale[1, 0, 4] = np.float32(-2.0).view(np.uint32)
    assert said(calls, {"scale": scale}) == [
        "warning: scale values: expected finite factors of 0 or more, got nan at 131 (2 of 256); NaN or inf spreads over "
        "the expert's column; a negative factor turns the sign of its column: keep the sign in the weights [scale-decoded]"
    ]


def test_a_negative_scale_is_not_called_nan(calls: SimpleNamespace) -> None:
    scale = words(1.0)
    scale[0, 0, 7] = np.float32(-0.5).view(np.uint32)
    assert said(calls, {"scale": scale}) == [
        "warning: scale values: expected finite factors of 0 or more, got -0.5 at 7 (1 of 256); a negative factor turns "
        "the sign of its column: keep the sign in the weights [scale-decoded]"
    ]


def pack(weights: Array) -> Array:
    """INT4 values (e, k, n) as words (e, k, n/8), value j of a word in bits 4j."""
    nibbles = (weights.astype(np.int64) & 15).reshape(*weights.shape[:-1], -1, 8)
    return (nibbles << np.arange(0, 32, 4)).sum(axis=-1).astype(np.uint32).view(np.int32)


def w1() -> dict[str, Array]:
    """Columns that differ: expert 0 is 1, 3, 1, 3, ... along n, expert 1 is -2, 5, -2, 5, ..."""
    weights = np.empty((E, K, N), dtype=np.int8)
    weights[0], weights[1] = np.tile([1, 3], N // 2), np.tile([-2, 5], N // 2)
    scale = np.concatenate([words(0.5)[:1], words(0.25)[1:]])
    # 8 * 256 * w * scale, by hand: 1024, 3072 and -1024, 2560
    bias = np.stack([np.tile([1024, 3072], N // 2), np.tile([-1024, 2560], N // 2)]).astype(np.float32)
    return {"x2": pack(weights), "scale": scale, "bias": bias}


def test_packing_of_the_tests_is_the_operators() -> None:
    assert int(pack(np.array([[[1, -2, 3, -4, 5, -6, 7, -8]]])).view(np.uint32)[0, 0, 0]) == 0x87A5C3E1


def test_sum_weights_unpacks_low_nibble_first() -> None:
    assert sum_weights(pack(np.array([[[1, -2, 3, -4, 5, -6, 7, -8]] * 3]))).tolist() == [
        [3, -6, 9, -12, 15, -18, 21, -24]
    ]


def test_the_right_bias_passes_the_check(calls: SimpleNamespace) -> None:
    assert said(calls, w1(), check_bias=True) == []


@pytest.mark.parametrize(
    ("wrong", "got", "hint"),
    [
        (lambda v: v["bias"] / 8, "128 for 1024 at (0, 0), 256 of 256 differ", "the bias differs by the factor 0.125; 0.125 means that the factor 8 was forgotten"),
        (lambda v: v["bias"] * 8, "8192 for 1024 at (0, 0), 256 of 256 differ", "the bias differs by the factor 8.000; 0.125 means that the factor 8 was forgotten"),
        (lambda v: v["bias"] * [[2], [4]], "2048 for 1024 at (0, 0), 256 of 256 differ", "the bias is 8*sum_k(w): the scale is missing"),
        (lambda v: v["bias"][:, ::-1], "3072 for 1024 at (0, 0), 256 of 256 differ", "no single factor explains it: other weights, other scale or another order of experts"),
    ],
    ids=["factor 8 forgotten", "factor 8 twice", "scale forgotten", "columns exchanged"],
)  # fmt: skip
def test_a_wrong_bias_is_named(calls: SimpleNamespace, wrong: Any, got: str, hint: str) -> None:
    values = w1()
    values["bias"] = np.asarray(wrong(values), dtype=np.float32)
    assert said(calls, values, check_bias=True) == [
        f"warning: bias values: expected 8*sum_k(w*scale), got {got}; {hint} [bias-differs]"
    ]


def test_the_bias_is_recomputed_on_request_only(calls: SimpleNamespace) -> None:
    values = w1()
    values["bias"] = values["bias"] / 8
    assert said(calls, values) == []


def test_a_zero_bias_is_seen_without_reading_the_weights(calls: SimpleNamespace) -> None:
    values = {"bias": np.zeros((E, N), np.float32)}
    assert said(calls, values) == [
        "warning: bias values: expected 8*sum_k(w*scale), got 0 everywhere; W4A8 needs 8*sum_k(w*scale) here, or every "
        "result is off by it: make_bias() computes it [bias-zero]"
    ]


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_weight_0_does_not_hide_a_shared_input_that_is_not_finite(
    calls: SimpleNamespace, value: float
) -> None:
    shared = np.zeros((1, N), ml_dtypes.bfloat16)
    shared[0, 5] = value
    assert said(calls, {"shared_input": shared}) == []
    assert said(calls, {"shared_input": shared}, shared_input_weight=0.0) == [
        "warning: shared_input values: expected finite values with weight 0, got 1 of 128 are inf or NaN; 0 times inf or "
        "NaN is NaN: pass null instead of a buffer that is not meant to count [shared-input-finite]"
    ]


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (-np.inf, "-inf")])
def test_a_logit_that_is_not_finite_is_a_warning(calls: SimpleNamespace, value: float, shown: str) -> None:
    logit = np.array([0.5, value, 1.0, value], np.float32)
    assert said(calls, {"logit": np.ones(4, np.float32)}) == []
    assert said(calls, {"logit": logit}) == [
        f"warning: logit values: expected finite values, got {shown} at 1 (2 of 4); the whole row becomes NaN or inf, and "
        "with it the row of out that it is added into [logit-finite]"
    ]


def test_a_logit_behind_the_processed_rows_is_never_read(calls: SimpleNamespace) -> None:
    values = {"logit": np.array([1, 1, 1, np.nan], np.float32), "group_list": [2, 1]}
    assert [line.split("[")[1] for line in said(calls, values)] == ["unassigned-rows]"]


def e8m0(shape: tuple[int, ...], byte: int = 127) -> Array:
    return np.full(shape, byte, np.uint8).view(ml_dtypes.float8_e8m0fnu)


def said_of_mx(calls: SimpleNamespace, values: dict[str, Any], **changes: Any) -> list[str]:
    problem = calls.mx(**{"m": 4, "k": 96, "n": 3, "batch": 2, **changes})
    return [f"{v.level}: {v.message}" for v in validate(problem, values).violations]


@pytest.mark.parametrize("transposed", [False, True])
def test_nan_in_a_real_block_and_in_padding_is_a_warning(calls: SimpleNamespace, transposed: bool) -> None:
    shape = (2, 3, 2, 2) if transposed else (2, 2, 3, 2)  # k = 96: block 2 holds values, block 3 none
    real, padding = e8m0(shape), e8m0(shape)
    real[0, 1, 1, 0] = padding[0, 1, 1, 1] = np.nan
    assert said_of_mx(calls, {"scale": e8m0(shape)}, transposed=transposed) == []
    assert said_of_mx(calls, {"scale": real}, transposed=transposed) == [
        "warning: scale values: expected bytes below 255, got byte 255 (NaN) in 1 of 18; every product of the block is NaN; "
        "real factors lie near 127 (1.0) [e8m0-nan]"
    ]
    assert said_of_mx(calls, {"scale": padding}, transposed=transposed) == [
        "warning: scale values: expected finite factors behind k, got byte 255 (NaN) in 1 padding slots; 0 times NaN is "
        "NaN where hardware multiplies the padding: write 127 (1.0) there [e8m0-nan-padding]"
    ]


def test_scale_bytes_are_found_in_a_transposed_view(calls: SimpleNamespace) -> None:
    """k = 64, n = 3: view (e, 1, 3, 2) of a (e, 3, 1, 2) tensor; its NaN is in the second, real, block."""
    memory = e8m0((2, 3, 1, 2))
    memory[1, 2, 0, 1] = np.nan
    views = {"x2": {"strides": (192, 1, 64)}, "scale": {"strides": (6, 2, 2, 1)}}
    found = said_of_mx(calls, {"scale": memory.swapaxes(1, 2)}, k=64, n=3, **views)
    assert [line for line in found if "e8m0" in line] == [
        "warning: scale values: expected bytes below 255, got byte 255 (NaN) in 1 of 12; every product of the block is NaN; "
        "real factors lie near 127 (1.0) [e8m0-nan]"
    ]


def test_experts_and_rows_that_are_not_read_may_hold_nan(calls: SimpleNamespace) -> None:
    scale, pertoken = e8m0((2, 2, 3, 2)), e8m0((4, 2, 2))
    scale[1] = pertoken[3] = np.nan
    values = {"scale": scale, "pertoken_scale": pertoken}
    assert {line.split("[")[1] for line in said_of_mx(calls, values)} == {"e8m0-nan]", "e8m0-nan-padding]"}
    group_list = np.array([3, 0], dtype=np.int64)
    assert [line.split("[")[1] for line in said_of_mx(calls, {**values, "group_list": group_list})] == [
        "unassigned-rows]"
    ]


def test_random_bytes_are_recognised(calls: SimpleNamespace) -> None:
    scale = np.array([0, 254] * 12, np.uint8).reshape(2, 2, 3, 2).view(ml_dtypes.float8_e8m0fnu)
    assert said_of_mx(calls, {"scale": scale}) == [
        "warning: scale values: expected factors within 2^128 of each other, got bytes from 0 to 254; looks like random "
        "bytes: products overflow or vanish; real factors lie near 127 (1.0) [e8m0-spread]"
    ]


def test_arrays_of_another_size_are_no_call(calls: SimpleNamespace) -> None:
    with pytest.raises(ProblemError, match="values scale: 4 given, the argument holds 24"):
        said_of_mx(calls, {"scale": e8m0((4,))})


def test_values_that_are_no_mapping_are_refused_with_what_is_expected(calls: SimpleNamespace) -> None:
    for wrong, kind in (([1], "list"), (3, "int"), ([], "list")):
        with pytest.raises(
            TypeError, match=f"values: expected a mapping of arguments to their data, got {kind}"
        ):
            validate(calls.w4a8(), wrong)  # type: ignore[arg-type]


def test_a_list_for_an_argument_that_needs_an_array_is_refused(calls: SimpleNamespace) -> None:
    with pytest.raises(ProblemError, match="values bias: expected a NumPy array or a torch tensor, got list"):
        validate(calls.w4a8(), {"bias": [0.0]})


def test_every_rule_on_arrays_is_met_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    others = {rule.id for rule in routing.RULES}
    assert [rule.id for rule in VALUE_RULES if rule.id not in others and f"[{rule.id}]" not in text] == []

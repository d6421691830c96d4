"""What people ran into, as they ran into it: the first thing said about each call, and its status."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reference.problem import Problem, TensorSpec
from reference.validator import Report, validate


def w0(calls: SimpleNamespace, **changes: object) -> Problem:
    """The small W4A8 call: m 4, k 256, n 128, two experts, two out rows, no shared input."""
    return calls.w4a8(**{"m": 4, "k": 256, "n": 128, "e": 2, "batch": 2, "shared": 0, **changes})


def first(report: Report) -> str:
    return report.violations[0].message


def test_w0_is_accepted_and_says_which_rules_it_leaves(calls: SimpleNamespace) -> None:
    report = validate(w0(calls))
    assert (report.status, report.ok, report.passes(strict=True)) == (0, True, False)
    assert {violation.rule: violation.level for violation in report.violations} == {
        "documented-k": "undocumented",
        "documented-n": "undocumented",
        "release-shared-input": "warning",
    }


@pytest.mark.parametrize(
    ("length", "says"), [(4, "slice group_list to this rank's experts"), (1, "x2 has 2 experts")]
)
def test_group_list_of_all_experts_beside_local_weights(
    calls: SimpleNamespace, length: int, says: str
) -> None:
    report = validate(w0(calls, group_list=(length,)))
    assert report.status == 161002
    assert f"group_list shape: expected (2,), got ({length},); " in first(report)
    assert says in first(report)


def test_shared_input_may_be_the_whole_batch_at_offset_0(calls: SimpleNamespace) -> None:
    for rows, offset, status in (
        (1, 0, 0),
        (1, 1, 0),
        (1, 2, 161002),
        (1, -1, 161002),
        (2, 0, 0),
        (3, 0, 161002),
    ):
        assert validate(w0(calls, shared=rows, shared_input_offset=offset)).status == status


@pytest.mark.parametrize("shape", [(2,), (128,)])
def test_shared_input_as_the_page_draws_it(calls: SimpleNamespace, shape: tuple[int, ...]) -> None:
    report = validate(w0(calls, shared_input=TensorSpec(shape, "bfloat16")))
    assert report.status == 161002
    assert "shared_input is (batch/dp, n); an older documentation page shows (e)" in first(report)


def test_out_with_more_rows_than_x1_is_refused_on_a2_but_not_for_an_empty_rank_on_950(
    calls: SimpleNamespace,
) -> None:
    assert "out shape: expected at most m = 4 rows, got 5 rows" in first(validate(w0(calls, batch=5)))
    assert validate(calls.mx(m=0, batch=24)).status == 0


def test_n_counted_in_words(calls: SimpleNamespace) -> None:
    assert validate(w0(calls)).status == 0
    assert "= INT4 e 2, k 256, n 128; scale has n 16: did you forget *8?" in first(
        validate(w0(calls, scale=(2, 1, 16)))
    )


@pytest.mark.parametrize("groups", [2, 8])
def test_per_group_scales(calls: SimpleNamespace, groups: int) -> None:
    message = first(validate(w0(calls, scale=(2, groups, 128))))
    assert f"scale axis 1 is {groups}, this operator takes 1 (per channel)" in message


def test_bias_null_on_w4a8_is_explained(calls: SimpleNamespace) -> None:
    report = validate(w0(calls, bias=None))
    assert report.status == 161001
    assert "not the model's bias but 8*sum_k(w*scale), (e, n); make_bias() computes it" in first(report)


def test_antiquant_says_must_be_null_and_not_pointer_is_null(calls: SimpleNamespace) -> None:
    specs = {"antiquant_scale": TensorSpec((2, 1, 128), "float32"), "offset": TensorSpec((2, 128), "float32")}
    report = validate(w0(calls, **specs))
    assert report.status == 161001
    assert first(report).startswith("antiquant_scale: expected null, got float32 ND (2, 1, 128)")
    assert report.violations[1].rule == "offset-rank"


@pytest.mark.parametrize("k", [192, 256, 1536, 2112])
def test_values_between_page_and_checks_name_both(calls: SimpleNamespace, k: int) -> None:
    report = validate(calls.w4a8(k=k))
    assert report.ok
    says = f"x1 shape: expected k = 2048, got k = {k}; outside the documented value, accepted by op_api"
    assert first(report).startswith(says)


@pytest.mark.parametrize("k", [64, 128, 352, 720])
def test_values_that_neither_takes_are_refused(calls: SimpleNamespace, k: int) -> None:
    assert validate(calls.w4a8(k=k)).status == 161002


def test_mixed_fp8_is_legal_and_fp8_with_fp4_is_not(calls: SimpleNamespace) -> None:
    assert validate(calls.mx(x1="float8_e5m2")).violations == ()
    mixed = validate(calls.mx(transposed=True, x2="float4_e2m1fn"))
    assert not mixed.ok
    assert "mxa8w4-path" in {violation.rule for violation in mixed.violations}


def test_formats_of_the_other_platform_are_named(calls: SimpleNamespace) -> None:
    mx_on_a3 = Problem("atlas_a3", calls.mx().arguments)
    assert "MXFP8 and MXFP4 need Ascend 950, this call is for Atlas A3" in first(validate(mx_on_a3))
    w4a8_on_950 = Problem("atlas_350", calls.w4a8().arguments)
    assert "int8 with INT4 weights (W4A8) is for Atlas A2/A3" in first(validate(w4a8_on_950))


@pytest.mark.parametrize(
    ("sizes", "status"),
    [({"k": 192, "n": 7168}, 0), ({"k": 18432, "n": 72}, 0), ({"m": 1, "batch": 1}, 0), ({"m": 131072}, 0)],
)
def test_extreme_but_legal_shapes(calls: SimpleNamespace, sizes: dict[str, int], status: int) -> None:
    report = validate(calls.w4a8(**{"shared": 1, **sizes}))
    assert (report.status, report.ok) == (status, True)


@pytest.mark.parametrize(
    ("tuning", "status"),
    [(None, 0), ((), 0), ((0,), 0), ((2,), 0), ((2, 0), 0), ((5,), 161002), ((-1,), 161002)],
)
def test_tuning_config(calls: SimpleNamespace, tuning: tuple[int, ...] | None, status: int) -> None:
    assert validate(w0(calls, tuning_config=tuning)).status == status


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_out_is_float32_only(calls: SimpleNamespace, dtype: str) -> None:
    report = validate(w0(calls, out=dtype, dtype=27))
    assert report.status == 161002
    assert {"out-dtype", "dtype-attribute"} <= {violation.rule for violation in report.violations}


def test_empty_calls(calls: SimpleNamespace) -> None:
    assert validate(calls.mx(m=0, batch=24, shared=8)).status == 0
    assert validate(calls.mx(n=0)).status == 0
    assert validate(calls.mx(k=0)).status == 161002
    assert validate(calls.mx(e=0)).status == 561103
    assert [validate(calls.w4a8(**{axis: 0})).status for axis in "mkne"] == [161002] * 4


def test_the_weight_is_shown_with_dtype_format_storage_and_extents(calls: SimpleNamespace) -> None:
    weight = TensorSpec((2, 256, 16), "int32", "FRACTAL_NZ", storage_shape=(2, 2, 8, 16, 8))
    assert "x2 is int32 FRACTAL_NZ (2, 256, 16) storage (2, 2, 8, 16, 8) = INT4 e 2, k 256, n 128" in first(
        validate(w0(calls, x2=weight))
    )


def test_fp4_is_shown_in_values_and_in_bytes(calls: SimpleNamespace) -> None:
    assert "x1 is float4_e2m1fn ND (8, 3) in (8, 2) bytes" in first(
        validate(calls.mx(elements="float4_e2m1fn", k=3))
    )


def test_descriptors_as_torch_npu_makes_them(calls: SimpleNamespace) -> None:
    """NCL for three axes, NCHW for four, flat storage, a transposed weight told by strides alone."""
    view = {"format": "NCL", "strides": (8192, 1, 128), "storage_shape": (16384,)}
    scale = {"format": "NCHW", "strides": (256, 2, 4, 1), "storage_shape": (512,)}
    report = validate(
        calls.mx(x2=view, scale=scale, pertoken_scale={"format": "NCL", "storage_shape": (32,)})
    )
    assert report == (0, (), ())
    packed = {"format": "NCL", "storage_shape": (2 * 2048 * 896,)}
    assert validate(calls.w4a8(x2=packed, scale={"format": "NCL", "storage_shape": (2 * 7168,)})) == (
        0,
        (),
        (),
    )

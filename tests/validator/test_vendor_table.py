"""28 rows of the vendor's own parameter checks: what phase 1 returns for each."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from reference.problem import Problem, TensorSpec
from reference.validator import validate

Make = Callable[[SimpleNamespace], Problem]

NZ_STORAGE = (4, 224, 128, 16, 32)


def a2(calls: SimpleNamespace, **changes: object) -> Problem:
    """The table's base row for Atlas A2: an offset, half of the rows without an expert."""
    base = {"offset": TensorSpec((4, 1, 7168), "float32"), "tuning_config": (0,)}
    return calls.w4a8(m=192, e=4, batch=24, shared=8, **{**base, **changes})


def a5(calls: SimpleNamespace, elements: str = "float8_e5m2", **changes: object) -> Problem:
    """The table's base row for Ascend 950."""
    sizes = {"m": 192, "k": 2048, "n": 7168, "e": 4, "batch": 24, "shared": 8}
    return calls.mx(elements=elements, **{**sizes, **changes})


def int8_nz(calls: SimpleNamespace, **changes: object) -> Problem:
    x2 = TensorSpec((4, 2048, 7168), "int8", "FRACTAL_NZ")
    scales = {"scale": TensorSpec((4, 1, 7168), "int64"), "pertoken_scale": TensorSpec((192,), "float32")}
    return a5(calls, "int8", x2=x2, **scales, **changes)


X2_INT8 = {"x2": {"dtype": "int8", "storage_shape": NZ_STORAGE}, "scale": (4, 8, 7168)}

TABLE: dict[str, tuple[Make, int]] = {
    "offset accepted": (lambda c: a2(c, tuning_config=(10,)), 0),
    "bias missing": (lambda c: a2(c, bias=None, tuning_config=None), 161001),
    "dtype 1": (lambda c: a2(c, dtype=1, offset=TensorSpec((4, 1, 7169), "float32")), 161002),
    "transpose x1": (
        lambda c: a2(c, transpose_x1=True, x2={"storage_shape": NZ_STORAGE}, scale=(4, 8, 7168)),
        161002,
    ),
    "x2 of rank 1": (lambda c: a2(c, transpose_x1=True, x2=(4,), scale=(4, 8, 7168)), 161002),
    "offset of rank 2": (lambda c: a2(c, offset=TensorSpec((4, 7168), "float32")), 161002),
    "offset int32": (lambda c: a2(c, offset=TensorSpec((4, 1, 7168), "int32")), 161002),
    "bias of rank 3": (lambda c: a2(c, bias=(4, 1, 7168)), 161002),
    "bias of 5 experts": (lambda c: a2(c, bias=(5, 7168)), 161002),
    "offset NZ": (lambda c: a2(c, offset=TensorSpec((4, 1, 7168), "float32", "FRACTAL_NZ")), 161002),
    "x2 int8": (lambda c: a2(c, **X2_INT8), 161002),
    "negative tuning and x2 int8": (lambda c: a2(c, **X2_INT8, tuning_config=(-5,)), 161002),
    "MXFP8 E5M2 accepted": (a5, 0),
    "MXFP8 transposed weight accepted": (lambda c: a5(c, transposed=True), 0),
    "MXFP8 E4M3 accepted": (lambda c: a5(c, "float8_e4m3fn"), 0),
    "dtype 2 on A2": (
        lambda c: a2(c, dtype=2, offset=None, tuning_config=None, logit="bfloat16", out="bfloat16"),
        161002,
    ),
    "dtype 2, int8 NZ on 950": (lambda c: int8_nz(c, dtype=2, logit="bfloat16", out="bfloat16"), 161002),
    "MXFP4 k 2": (lambda c: a5(c, "float4_e2m1fn", k=2), 161002),
    "MXFP4 odd n": (lambda c: a5(c, "float4_e2m1fn", n=7169), 161002),
    "k differs": (lambda c: a5(c, x2=(4, 2047, 7168)), 161002),
    "int8 with int64 scale on 950": (int8_nz, 161002),
    "FP4 with FP8": (lambda c: a5(c, x1="float4_e2m1fn"), 161002),
    "no shared input accepted": (lambda c: a5(c, shared=0), 0),
    "m 0 accepted": (lambda c: a5(c, m=0), 0),
    "k 0": (lambda c: a5(c, k=0), 161002),
    "shared offset -1": (lambda c: a5(c, shared_input_offset=-1), 161002),
    "group list type 2": (lambda c: a5(c, group_list_type=2), 161002),
    "transpose x1 on 950": (lambda c: a5(c, transpose_x1=True), 161002),
}


@pytest.mark.parametrize("row", TABLE)
def test_status_is_the_vendors(calls: SimpleNamespace, row: str) -> None:
    make, status = TABLE[row]
    report = validate(make(calls))
    assert report.status == status
    assert report.ok is (status == 0)


def test_the_table_is_whole() -> None:
    assert len(TABLE) == 28

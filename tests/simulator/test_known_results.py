"""Results known by hand, through bundles and the command line, on the golden and on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gmmfr
from reference import Operands, make_case, write_bundle
from reference.safetensors_file import read_output

Gmmfr = Callable[..., Any]
BACKENDS = ("golden", "simulator")


def bias(first: float, second: float) -> np.ndarray[Any, Any]:
    return np.repeat(np.float32([[first], [second]]), 128, axis=1)


#: (what differs from w0, out[0], out[1]); every column is equal.
W0 = {
    "base": ({}, -64, -224),
    "running totals": ({"group_list": np.array([2, 4]), "group_list_type": 0}, -64, -224),
    "shared at 1": ({"shared": 1}, -64, -219),
    "shared at 0": ({"shared": 0}, -59, -224),
    "bias zero": ({"bias": bias(0, 0)}, -320, 288),
    "bias without the factor 8": ({"bias": bias(128, -128)}, -288, 224),
    "bias without the scale": ({"bias": bias(2048, -4096)}, -320, -2272),
    "counts read as totals": ({"group_list_type": 0}, 64, 64),
    "logit reversed": ({"logit": np.float32([0.25, 0.75, 0.25, 0.5])}, -224, 96),
    "all rows to token 0": ({"row_index": np.zeros(4, np.int64)}, -288, 0),
    "all rows on expert 0": ({"group_list": np.array([4, 0])}, 192, 352),
    "all rows on expert 1": ({"group_list": np.array([0, 4])}, -192, -352),
    "two tail rows": ({"group_list": np.array([1, 1])}, 64, -64),
    "no rows": ({"group_list": np.array([0, 0])}, 0, 0),
}


def w0_call(shared: int | None = None, **change: Any) -> Operands:
    call = {**make_case("w0").arrays, **change}
    if shared is not None:
        call["shared_input"] = np.full((1, 128), 10, ml_dtypes.bfloat16)
        call |= {"shared_input_weight": 0.5, "shared_input_offset": shared}
    return Operands.from_arrays(platform="atlas_a2", batch=2, **call)


def result(gmmfr: Gmmfr, folder: Path, operands: Operands, backend: str) -> np.ndarray[Any, Any]:
    """Write a bundle, run it from the command line, read the result."""
    bundle, out = folder / "call.safetensors", folder / "out.safetensors"
    write_bundle(bundle, operands)
    outcome = gmmfr("run", bundle, "--backend", backend, "--out", out, "--json")
    assert outcome.code == 0, outcome.out + outcome.err
    return np.asarray(read_output(out))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", W0)
def test_w0(gmmfr: Gmmfr, tmp_path: Path, name: str, backend: str) -> None:
    change, first, second = W0[name]
    out = result(gmmfr, tmp_path, w0_call(**change), backend)
    np.testing.assert_array_equal(out, np.repeat(np.float32([[first], [second]]), 128, axis=1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_w1_columns_differ(gmmfr: Gmmfr, tmp_path: Path, backend: str) -> None:
    out = result(gmmfr, tmp_path, make_case("w1"), backend)
    np.testing.assert_array_equal(out, np.tile(np.float32([[-64, 512], [-224, 912]]), (1, 64)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_w1_with_zero_offset_is_the_same(gmmfr: Gmmfr, tmp_path: Path, backend: str) -> None:
    call = {**make_case("w1").arrays, "offset": np.zeros((2, 1, 128), np.float32)}
    out = result(gmmfr, tmp_path, Operands.from_arrays(platform="atlas_a3", batch=2, **call), backend)
    np.testing.assert_array_equal(out, np.tile(np.float32([[-64, 512], [-224, 912]]), (1, 64)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_w0_with_offset_one_adds_the_row_sums(gmmfr: Gmmfr, tmp_path: Path, backend: str) -> None:
    """Row i sums to 256·(i+1): out[0] gains 256·(0.5·1 + 0.25·4), out[1] gains 256·(0.25·2 + 0.75·3)."""
    call = w0_call(offset=np.ones((2, 1, 128), np.float32))
    out = result(gmmfr, tmp_path, call, backend)
    np.testing.assert_array_equal(out[:, 0], np.float32([-64 + 384, -224 + 704]))


def m0_call(x: tuple[int, int], w: tuple[int, int], transpose: bool, element: str, **change: Any) -> Operands:
    ones = {"float8_e4m3fn": 0x38, "float8_e5m2": 0x3C, "float4_e2m1fn": 0x22}[element]
    packed = 2 if element == "float4_e2m1fn" else 1
    weights = (1, 4, 64 // packed) if transpose else (1, 64, 4 // packed)
    scale = np.broadcast_to(np.array(w, np.uint8), (1, 4, 1, 2) if transpose else (1, 1, 4, 2)).copy()
    call: dict[str, Any] = {
        "x1": np.full((1, 64 // packed), ones, np.uint8),
        "x2": np.full(weights, ones, np.uint8),
        "scale": scale,
        "pertoken_scale": np.array([[x]], np.uint8),
        "group_list": np.array([1]),
        "row_index": np.array([0]),
        "logit": np.ones(1, np.float32),
        **change,
    }
    scales = {"scale": "float8_e8m0fnu", "pertoken_scale": "float8_e8m0fnu"}
    dtypes = {"x1": element, "x2": element, **scales}
    return Operands.from_arrays(platform="ascend950", batch=1, transpose_x2=transpose, dtypes=dtypes, **call)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("element", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "expected"),
    [
        ((127, 127), (127, 127), 64),
        ((127, 128), (127, 127), 96),
        ((127, 127), (129, 127), 160),
        ((128, 127), (127, 129), 192),
        ((128, 127), (129, 127), 288),
    ],
)
def test_m0(
    gmmfr: Gmmfr,
    tmp_path: Path,
    x: tuple[int, int],
    w: tuple[int, int],
    expected: float,
    transpose: bool,
    element: str,
    backend: str,
) -> None:
    assert (result(gmmfr, tmp_path, m0_call(x, w, transpose, element), backend) == expected).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_bias_comes_before_logit_and_shared_input_after(gmmfr: Gmmfr, tmp_path: Path, backend: str) -> None:
    """(64 + 8) · 0.5 + 10 · 0.25 = 38.5."""
    call = m0_call(
        (127, 127),
        (127, 127),
        False,
        "float8_e4m3fn",
        bias=np.full((1, 4), 8, ml_dtypes.bfloat16),
        logit=np.float32([0.5]),
        shared_input=np.full((1, 4), 10, ml_dtypes.bfloat16),
        shared_input_weight=0.25,
    )
    assert (result(gmmfr, tmp_path, call, backend) == 38.5).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_smallest_and_largest_scales(gmmfr: Gmmfr, tmp_path: Path, backend: str) -> None:
    """Byte 0 is 2^-127, not zero: 32 · 2^-127 · 2^127 + 32 · 2^-127."""
    call = m0_call((0, 0), (254, 127), False, "float8_e4m3fn")
    assert (result(gmmfr, tmp_path, call, backend) == np.float32(32)).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_nan_scale_in_a_real_slot_is_nan(tmp_path: Path, backend: str) -> None:
    from gmmfr.backends import find_backend

    call = m0_call((127, 255), (127, 127), False, "float8_e4m3fn")
    assert np.isnan(find_backend(backend, call.problem).run(call).out).all()


def test_one_nan_among_the_scales_is_computed_and_only_its_elements_are_nan() -> None:
    operands = make_case("c10")
    expert = int(np.flatnonzero(operands.arrays["group_list"])[0])
    scale = operands.arrays["scale"].copy()
    scale.view(np.uint8)[expert, 0, 3, 0] = 255
    arrays = {**operands.arrays, "scale": scale}
    broken = Operands.from_arrays(platform="ascend950", batch=operands.batch, **arrays)
    report = gmmfr.ab(broken, "simulator")
    assert report.verdict == "PASS"
    assert "e8m0-nan" in [violation.rule for violation in report.violations]
    out = report.backends["simulator"].out
    assert {int(column) for column in np.argwhere(np.isnan(out))[:, 1]} == {3}

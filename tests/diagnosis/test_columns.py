"""Large outputs are diagnosed on some of their columns, and the name is confirmed on all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference import Operands, diagnose, golden, make_case
from reference.cases import Case
from reference.diagnosis.call import change, reduce_columns
from reference.diagnosis.engine import choose_columns


def wide_call(path: str, *, transposed: bool, n: int = 200) -> Operands:
    """A call with more columns than are looked at first."""
    options: dict[str, Any] = {"counts": (3, 0, 4), "transpose_x2": transposed, "bias": path != "w4a8"}
    platform, k = ("atlas_a2", 192) if path == "w4a8" else ("ascend950", 96)
    return Case("wide", path, 8, k, n, 3, 4, "", platform, options).make(1)


def strided(call: Operands) -> Operands:
    """The same call with x2 and scale as transposed views, flag down."""
    arrays = {name: array for name, array in call.arrays.items() if name not in ("x2", "scale")}
    flags = {key: getattr(call.attributes, key) for key in call.attributes.__dataclass_fields__}
    kinds = {name: call.problem.spec(name).dtype for name in ("x1", "x2")}
    turned = {name: call.arrays[name].swapaxes(1, 2) for name in ("x2", "scale")}
    return Operands.from_arrays(
        platform="ascend950",
        batch=call.batch,
        dtypes=kinds,
        **arrays,
        **turned,
        **{**flags, "transpose_x2": False},
    )


CALLS = {
    "w4a8": lambda: wide_call("w4a8", transposed=False),
    "mxfp8": lambda: wide_call("mxfp8", transposed=False),
    "mxfp8 transposed": lambda: wide_call("mxfp8", transposed=True),
    "mxfp4": lambda: wide_call("mxfp4", transposed=False),
    "mxfp4 transposed": lambda: wide_call("mxfp4", transposed=True),
    "mxfp4, n 66": lambda: wide_call("mxfp4", transposed=False, n=66),
    "mxfp8 strided": lambda: strided(wide_call("mxfp8", transposed=True)),
    "mxfp4 strided": lambda: strided(wide_call("mxfp4", transposed=True)),
}


@pytest.mark.parametrize("name", CALLS)
def test_reduced_call_gives_the_same_columns(name: str) -> None:
    call = CALLS[name]()
    columns = choose_columns(np.zeros(call.problem.n, np.int64))
    assert 8 < len(columns) < call.problem.n
    np.testing.assert_array_equal(golden(reduce_columns(call, columns)).out, golden(call).out[:, columns])


@pytest.mark.parametrize("name", CALLS)
def test_mistake_in_a_wide_call_is_named(name: str) -> None:
    """Weights of the next expert, in the layout of the call."""
    call = CALLS[name]()
    weight = call.arrays["x2"]
    order = [1, 2, 0]
    rolled = weight.swapaxes(1, 2)[order].swapaxes(1, 2) if "strided" in name else weight[order]
    out = golden(change(call, {"x2": rolled}), "float32").out
    names = [(found.name, found.share) for found in diagnose(call, out).explanations]
    assert ("weights-of-other-expert", 1.0) in names


@pytest.mark.parametrize("name", CALLS)
def test_mistake_in_some_columns_is_named_for_these(name: str) -> None:
    """Half of the columns right, half with logit left out."""
    call = CALLS[name]()
    out = golden(call, "float32").out
    plain = golden(change(call, {"logit": np.ones_like(call.arrays["logit"])}), "float32").out
    half = call.problem.n // 2
    out[:, half:] = plain[:, half:]
    diagnosis = diagnose(call, out)
    assert diagnosis.verdict == "FAIL"
    (found,) = diagnosis.explanations
    assert (found.name, found.detail, found.everywhere) == ("logit-left-out", "not applied", False)
    assert "only these" in str(found)


@pytest.mark.parametrize("name", CALLS)
def test_two_mistakes_in_two_parts_are_not_named(name: str) -> None:
    """Half of the columns with logit left out, half three times the right result."""
    call = CALLS[name]()
    out = golden(change(call, {"logit": np.ones_like(call.arrays["logit"])}), "float32").out
    out[:, call.problem.n // 2 :] = 3 * golden(call, "float32").out[:, call.problem.n // 2 :]
    diagnosis = diagnose(call, out)
    assert diagnosis.verdict == "FAIL"
    assert not diagnosis.explanations


def test_columns_looked_at_are_whole_groups_and_hold_the_worst() -> None:
    wrong = np.zeros(7168, np.int64)
    wrong[5003] = 9
    columns = choose_columns(wrong)
    assert 5003 in columns
    assert {0, 7167} <= set(columns.tolist())
    assert len(columns) % 8 == 0
    assert (np.diff(columns) > 0).all()


def test_partials_beyond_half_precision_are_named() -> None:
    """w0 with scales 256 times as large: partials of -229376 and +163840, -inf and +inf in half precision,
    meet in every token: NaN, where the golden is finite."""
    call = make_case("w0")
    scale = np.repeat(np.float32([[[128]], [[64]]]), 128, axis=2).view(np.uint32).astype(np.int64)
    large = change(call, {"scale": scale, "bias": call.arrays["bias"] * 256})
    assert golden(large).out[:, 0].tolist() == [-64 * 256, -224 * 256]
    diagnosis = diagnose(large, np.full((2, 128), np.nan, np.float32))
    assert diagnosis.comparison.nonfinite == 256
    assert "half-partials" in [found.name for found in diagnosis.explanations]


def test_wrong_shape_and_empty_outputs_have_no_diagnosis() -> None:
    diagnosis = diagnose(make_case("w0"), np.zeros((3, 128), np.float32))
    assert (diagnosis.verdict, diagnosis.location, diagnosis.explanations) == ("FAIL", None, ())


def test_make_case_is_not_changed_by_a_diagnosis() -> None:
    call = make_case("c15")
    before = {name: array.tobytes() for name, array in call.arrays.items()}
    diagnose(call, np.ones((call.batch, call.problem.n), np.float32))
    assert {name: array.tobytes() for name, array in call.arrays.items()} == before

"""Every classic mistake, made by a kernel that shares no code with the golden, is caught and named."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from reference import Golden, Operands, compare, diagnose, golden, make_case

Kernel = Callable[..., Any]


@cache
def case_and_golden(name: str) -> tuple[Operands, Golden]:
    """A case, and its golden with magnitudes."""
    call = make_case(name)
    return call, golden(call, magnitudes=True)


def test_the_plain_kernel_passes(plain_kernel: Kernel, small_case: str) -> None:
    call, reference = case_and_golden(small_case)
    comparison = compare(plain_kernel(call), reference.out, reference)
    assert comparison.verdict == "PASS", comparison.worst


def test_every_mistake_is_caught_and_named(
    plain_kernel: Kernel, mistake: str, title: str, named_case: str
) -> None:
    """On these cases whatever a mistake changes must fail."""
    call, reference = case_and_golden(named_case)
    out = plain_kernel(call, mistake)
    if out is not None and not np.array_equal(out, plain_kernel(call), equal_nan=True):
        check_name(call, reference, out, title)


@pytest.mark.long
def test_every_mistake_is_caught_and_named_everywhere(
    plain_kernel: Kernel, mistake: str, title: str, small_case: str
) -> None:
    """On the others a mistake may change less than rounding does: a small bias in large sums."""
    call, reference = case_and_golden(small_case)
    out = plain_kernel(call, mistake)
    if out is not None and compare(out, plain_kernel(call), reference, sides=1).verdict == "FAIL":
        check_name(call, reference, out, title)


def check_name(call: Operands, reference: Golden, out: Any, title: str) -> None:
    diagnosis = diagnose(call, out, reference=reference)
    assert diagnosis.verdict == "FAIL"
    assert title in [explanation.name for explanation in diagnosis.explanations]


@pytest.mark.parametrize(
    ("path", "least"), [(("c2", "c4", "c5", "c18_w4a8"), 36), (("c10", "c11", "c12", "c16", "c18_mxfp8"), 38)]
)
def test_few_mistakes_have_nothing_to_change(
    plain_kernel: Kernel, all_mistakes: dict[str, str], path: tuple[str, ...], least: int
) -> None:
    """The cases of a path show at least this many of the 47 mistakes: the tests above are not empty."""
    shown = set()
    for name in path:
        call, _ = case_and_golden(name)
        clean = plain_kernel(call)
        for mistake in all_mistakes:
            out = plain_kernel(call, mistake)
            if out is not None and not np.array_equal(out, clean, equal_nan=True):
                shown.add(mistake)
    assert len(shown) >= least, sorted(set(all_mistakes) - shown)


def all_ones(call: Operands) -> Operands:
    """The call with every value 1, routing and shapes as they are: how samples like to test."""
    arrays = {name: np.ones_like(array) for name, array in call.arrays.items()}
    arrays |= {name: call.arrays[name] for name in ("group_list", "row_index")}
    if call.problem.platform == "ascend950":
        one = np.float32(1)
        for name in ("x1", "x2"):
            arrays[name] = np.full(call.arrays[name].shape, one.astype(call.arrays[name].dtype))
        for name in ("scale", "pertoken_scale"):
            arrays[name] = np.full(call.arrays[name].shape, 127, np.uint8).view(call.arrays[name].dtype)
    else:
        arrays["x2"] = np.full_like(call.arrays["x2"], 0x11111111)
        arrays["scale"] = np.full_like(call.arrays["scale"], 0x3F800000)
        arrays["bias"] = np.full_like(call.arrays["bias"], 8 * call.problem.k)
    return type(call)(call.problem, arrays)


@pytest.mark.parametrize(("name", "of_ones", "of_case"), [("c18_w4a8", 17, 34), ("c18_mxfp8", 14, 28)])
def test_ones_hide_half_of_the_mistakes(
    plain_kernel: Kernel, all_mistakes: dict[str, str], name: str, of_ones: int, of_case: int
) -> None:
    """The numbers of docs/comparison.md."""
    call = make_case(name)
    caught = []
    for data in (all_ones(call), call):
        reference = golden(data, magnitudes=True)
        assert compare(plain_kernel(data), reference.out, reference).verdict == "PASS"
        outs = [plain_kernel(data, mistake) for mistake in all_mistakes]
        caught.append(
            sum(o is not None and compare(o, reference.out, reference).verdict == "FAIL" for o in outs)
        )
    assert caught == [of_ones, of_case]

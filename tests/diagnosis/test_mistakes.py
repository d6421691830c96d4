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
    check(plain_kernel, mistake, title, named_case)


@pytest.mark.long
def test_every_mistake_is_caught_and_named_everywhere(
    plain_kernel: Kernel, mistake: str, title: str, small_case: str
) -> None:
    check(plain_kernel, mistake, title, small_case)


def check(plain_kernel: Kernel, mistake: str, title: str, name: str) -> None:
    """What a mistake changes must fail, and ``diagnose`` must name it."""
    call, reference = case_and_golden(name)
    out = plain_kernel(call, mistake)
    if out is None or np.array_equal(out, plain_kernel(call), equal_nan=True):
        return  # nothing to catch: the mistake does not change this call
    diagnosis = diagnose(call, out, reference=reference)
    assert diagnosis.verdict == "FAIL"
    assert title in [explanation.name for explanation in diagnosis.explanations]

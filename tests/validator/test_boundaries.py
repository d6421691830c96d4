"""The last value that is accepted and the first that is not, for every limit with a number."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from reference.problem import Problem, TensorSpec
from reference.validator import validate

Make = Callable[[SimpleNamespace, int], Problem]


def nz(calls: SimpleNamespace, n: int) -> Problem:
    storage = (2, -(-n // 64), 128, 16, 8)
    return calls.w4a8(n=n, x2=TensorSpec((2, 2048, n // 8), "int32", "FRACTAL_NZ", storage_shape=storage))


# name: (builder, accepted values, refused values, the rule and status that refuse)
LIMITS: dict[str, tuple[Make, tuple[int, ...], tuple[int, ...], str, int]] = {
    "W4A8 k": (
        lambda c, k: c.w4a8(k=k),
        (192, 256, 2048, 2112, 18432),
        (64, 128, 352, 720),
        "k-alignment",
        161002,
    ),
    "W4A8 n": (lambda c, n: c.w4a8(n=n), (72, 128, 7168), (8, 64), "n-alignment", 161002),
    "W4A8 n in NZ": (nz, (128, 7168), (64, 72, 136), "n-alignment", 161002),
    "W4A8 out rows": (lambda c, b: c.w4a8(m=8, batch=b), (2, 8), (9,), "out-rows", 161002),
    "MX out rows": (lambda c, b: c.mx(m=8, batch=b), (2, 8), (9,), "out-rows", 561103),
    "W4A8 shared end": (
        lambda c, o: c.w4a8(batch=4, shared=2, shared_input_offset=o),
        (0, 2),
        (3, 4),
        "shared-range",
        161002,
    ),
    "MX shared end": (
        lambda c, o: c.mx(batch=4, shared=2, shared_input_offset=o),
        (0, 2),
        (3, 4),
        "shared-range",
        161002,
    ),
    "MX shared offset alone": (
        lambda c, o: c.mx(batch=4, shared=0, shared_input_offset=o),
        (0, 4),
        (5,),
        "shared-offset-range",
        161002,
    ),
    "W4A8 shared rows": (lambda c, r: c.w4a8(batch=4, shared=r), (1, 4), (5,), "shared-rows", 161002),
    "tuning": (lambda c, t: c.w4a8(m=8, tuning_config=(t,)), (0, 7, 8), (-1, 9), "tuning-range", 161002),
    "MX experts": (lambda c, e: c.mx(e=e), (1, 1024), (1025,), "expert-limit", 161002),
    "MXFP8 k": (lambda c, k: c.mx(k=k), (1, 2, 3, 32, 65), (0,), "k-positive", 161002),
    "MXFP4 k": (
        lambda c, k: c.mx(elements="float4_e2m1fn", k=k),
        (4, 66, 176),
        (2, 3, 2049),
        "fp4-k",
        161002,
    ),
    "MXFP4 n": (lambda c, n: c.mx(elements="float4_e2m1fn", n=n), (2, 66), (1, 7169), "fp4-n", 161002),
    "group list type": (lambda c, t: c.mx(group_list_type=t), (0, 1), (-1, 2), "group-list-type", 161002),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_accepted_up_to_the_limit(calls: SimpleNamespace, limit: str) -> None:
    make, accepted, _, _, _ = LIMITS[limit]
    assert {value: validate(make(calls, value)).status for value in accepted} == dict.fromkeys(accepted, 0)


@pytest.mark.parametrize("limit", LIMITS)
def test_refused_beyond_it(calls: SimpleNamespace, limit: str) -> None:
    make, _, refused, rule, status = LIMITS[limit]
    for value in refused:
        report = validate(make(calls, value))
        found = [
            (violation.rule, violation.status)
            for violation in report.violations
            if violation.level == "rejected"
        ]
        assert (value, report.status, found) == (value, status, [(rule, status)])


# name: (builder, values without the violation, values with it, its rule)
HAZARDS: dict[str, tuple[Make, tuple[int, ...], tuple[int, ...], str]] = {
    "k on chip": (lambda c, k: c.w4a8(k=k), (18432,), (18496,), "k-limit"),
    "experts by counts": (lambda c, e: c.w4a8(e=e), (8191,), (8192,), "expert-scratch"),
    "scratch": (lambda c, e: c.w4a8(e=e, k=18432), (2449,), (2450,), "expert-scratch"),
    "m * k": (lambda c, m: c.w4a8(m=m), (2**21 - 1,), (2**21,), "offsets-32-bit"),
    "batch * n": (lambda c, b: c.mx(m=2**26, batch=b), (2**26 - 1,), (2**26,), "offsets-32-bit"),
    "wrap": (
        lambda c, o: c.w4a8(shared=2, shared_input_offset=o),
        (2,),
        (2**63 - 2, 2**63 - 1),
        "shared-range-wrap",
    ),
    "documented m": (lambda c, m: c.w4a8(m=m), (131072,), (131073,), "documented-m"),
    "documented e": (lambda c, e: c.w4a8(e=e), (256,), (257,), "documented-e"),
    "documented k": (lambda c, k: c.w4a8(k=k), (2048,), (1984, 2112), "documented-k"),
    "documented n": (lambda c, n: c.w4a8(n=n), (7168,), (7160, 7176), "documented-n"),
    "batch / e": (lambda c, r: c.w4a8(batch=4, e=2, shared=r), (1, 2), (3, 4), "documented-shared-rows"),
}


@pytest.mark.parametrize("limit", HAZARDS)
def test_accepted_limits_beyond_phase_one(calls: SimpleNamespace, limit: str) -> None:
    make, clean, dirty, rule = HAZARDS[limit]
    for value in (*clean, *dirty):
        report = validate(make(calls, value))
        found = [violation for violation in report.violations if violation.rule == rule]
        assert (value, report.status, bool(found)) == (value, 0, value in dirty)

"""Calls to be broken: builders of problems without a single violation."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from reference.problem import Attributes, Problem, TensorSpec

F32, BF16, I64, E8M0 = "float32", "bfloat16", "int64", "float8_e8m0fnu"


def build(platform: str, specs: dict[str, TensorSpec | None], changes: dict[str, Any]) -> Problem:
    """A problem from ``specs``; changes are None, a spec, a shape, or fields of the spec, or attributes."""
    attributes: dict[str, Any] = {}
    for name, change in changes.items():
        if name in Attributes.__dataclass_fields__:
            attributes[name] = change
        elif change is None or isinstance(change, TensorSpec):
            specs[name] = change
        elif isinstance(change, tuple):
            specs[name] = replace(specs.get(name) or TensorSpec((), F32), shape=change)
        elif isinstance(change, str):
            specs[name] = replace(specs.get(name) or TensorSpec((), F32), dtype=change)
        else:
            specs[name] = replace(specs.get(name) or TensorSpec((), F32), **change)
    return Problem(platform, specs, Attributes(**attributes))


def w4a8(
    m: int = 8, k: int = 2048, n: int = 7168, e: int = 2, batch: int = 4, shared: int = 2, **changes: Any
) -> Problem:
    """A documented W4A8 call on Atlas A2, or on the platform given."""
    platform = changes.pop("platform", "atlas_a2")
    specs = {
        "x1": TensorSpec((m, k), "int8"),
        "x2": TensorSpec((e, k, n // 8), "int32"),
        "scale": TensorSpec((e, 1, n), I64),
        "bias": TensorSpec((e, n), F32),
        "pertoken_scale": TensorSpec((m,), F32),
        **_common(m, n, e, batch, shared),
    }
    return build(platform, specs, changes)


def mx(
    m: int = 8,
    k: int = 128,
    n: int = 64,
    e: int = 2,
    batch: int = 4,
    shared: int = 2,
    elements: str = "float8_e4m3fn",
    transposed: bool = False,
    **changes: Any,
) -> Problem:
    """A full-MX call on Ascend 950."""
    groups = -(-k // 64)
    specs = {
        "x1": TensorSpec((m, k), elements),
        "x2": TensorSpec((e, n, k) if transposed else (e, k, n), elements),
        "scale": TensorSpec((e, n, groups, 2) if transposed else (e, groups, n, 2), E8M0),
        "bias": TensorSpec((e, n), BF16),
        "pertoken_scale": TensorSpec((m, groups, 2), E8M0),
        **_common(m, n, e, batch, shared),
    }
    return build("ascend950", specs, {"transpose_x2": transposed, **changes})


def sizes(changes: dict[str, Any]) -> dict[str, int]:
    """Take the extents out of ``changes``."""
    return {name: changes.pop(name) for name in ("batch", "shared") if name in changes}


def mxa8w4(m: int = 8, k: int = 128, n: int = 64, e: int = 2, **changes: Any) -> Problem:
    """FP8 with FP4 weights as its checker wants them."""
    storage = (e, -(-k // 32), -(-n // 16), 16, 32)
    weight = TensorSpec((e, n, k), "float4_e2m1fn", "FRACTAL_NZ", storage_shape=storage)
    problem = mx(m, k, n, e, **{"transposed": True, "x2": weight, **sizes(changes)})
    return build("ascend950", dict(problem.arguments), {"transpose_x2": True, **changes})


def pertoken(m: int = 8, k: int = 128, n: int = 64, e: int = 2, **changes: Any) -> Problem:
    """FP8 per token as the 950 checker wants it."""
    storage = (e, -(-n // 32), -(-k // 16), 16, 32)
    weight = TensorSpec((e, k, n), "float8_e4m3fn", "FRACTAL_NZ", storage_shape=storage)
    arguments = {"x2": weight, "scale": TensorSpec((e, 1, n), F32), "pertoken_scale": TensorSpec((m,), F32)}
    problem = mx(m, k, n, e, **{**arguments, **sizes(changes)})
    return build("ascend950", dict(problem.arguments), changes)


def _common(m: int, n: int, e: int, batch: int, shared: int) -> dict[str, TensorSpec | None]:
    return {
        "group_list": TensorSpec((e,), I64),
        "shared_input": TensorSpec((shared, n), BF16) if shared else None,
        "logit": TensorSpec((m,), F32),
        "row_index": TensorSpec((m,), I64),
        "out": TensorSpec((batch, n), F32),
    }


@pytest.fixture(scope="session")
def calls() -> SimpleNamespace:
    """The builders: ``calls.w4a8(k=192)``, ``calls.mx(x1="int8")``, ``calls.mx(bias=None)``."""
    return SimpleNamespace(w4a8=w4a8, mx=mx, mxa8w4=mxa8w4, pertoken=pertoken, spec=TensorSpec)

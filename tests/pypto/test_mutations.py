"""The comparator tells a kernel that reads the wrong data from a right one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pypto_impl import run
from reference.comparator import compare
from reference.golden_operator import golden
from reference.operands import Operands

pytestmark = pytest.mark.usefixtures("interpreter")
Maker = Callable[..., Operands]
COUNTS = [6, 3, 0, 7]


def next_expert(name: str) -> Callable[[Operands], Any]:
    """Every expert reads ``name`` of the next one."""
    return lambda operands: np.roll(operands.arrays[name], 1, axis=0)


def exchange_slots(name: str) -> Callable[[Operands], Any]:
    """The two scales of each pair change places."""
    return lambda operands: np.ascontiguousarray(operands.arrays[name][..., ::-1])


def shift_groups(operands: Operands) -> Any:
    """The first expert takes one row of the second."""
    moved = operands.group_list.copy()
    moved[:2] += [1, -1]
    return moved


def swap_nibbles(operands: Operands) -> Any:
    """Even and odd columns of INT4 words change places."""
    words = operands.x2.view(np.uint32)
    return (((words & 0x0F0F0F0F) << 4) | ((words >> 4) & 0x0F0F0F0F)).view(np.int32)


EVERY: dict[str, tuple[str, Callable[[Operands], Any]]] = {
    "weights of the next expert": ("x2", next_expert("x2")),
    "scales of the next expert": ("scale", next_expert("scale")),
    "logit left out": ("logit", lambda operands: np.ones_like(operands.logit)),
    "row_index reversed": ("row_index", lambda operands: operands.row_index[::-1].copy()),
    "a group shifted by one": ("group_list", shift_groups),
    "bias of the next expert": ("bias", next_expert("bias")),
}
MX: dict[str, tuple[str, Callable[[Operands], Any]]] = {
    "slots of the weight scale exchanged": ("scale", exchange_slots("scale")),
    "slots of the token scale exchanged": ("pertoken_scale", exchange_slots("pertoken_scale")),
}
W4A8: dict[str, tuple[str, Callable[[Operands], Any]]] = {"nibbles exchanged": ("x2", swap_nibbles)}


def verdict(operands: Operands, computed_from: Operands) -> str:
    """The comparison of a kernel run on ``computed_from`` with the golden of ``operands``."""
    exact = golden(operands, magnitudes=True)
    out = run(computed_from, on="interpreter").out
    return compare(out, exact.out, exact).verdict


def check(operands: Operands, mutations: dict[str, tuple[str, Callable[[Operands], Any]]]) -> None:
    """PASS as it is, FAIL with each mutation."""
    assert verdict(operands, operands) == "PASS"
    for what, (name, mutate) in mutations.items():
        mutated = Operands(operands.problem, {**operands.arrays, name: mutate(operands)})
        assert verdict(operands, mutated) == "FAIL", what


@pytest.mark.parametrize("element", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
@pytest.mark.parametrize("layout", ["plain", "flag"])
def test_mx_mutations_fail(make_mx: Maker, element: str, layout: str) -> None:
    check(make_mx(COUNTS, k=128, batch=5, bias=True, element=element, layout=layout), {**EVERY, **MX})


def test_w4a8_mutations_fail(make_w4a8: Maker) -> None:
    check(make_w4a8(COUNTS, batch=5), {**EVERY, **W4A8})

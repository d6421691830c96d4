"""The results of classic mistakes on w0 and w1, worked out by hand, are recognised by value."""

from __future__ import annotations

import numpy as np
import pytest

from reference import diagnose, golden, make_case

#: Mistake, out[0] and out[1] of w0 (every column), name and a word of its detail.
W0 = [
    ("bias at zero", -320, 288, "bias-left-out", ""),
    ("bias without its factor 8", -288, 224, "bias-factor", "without its factor 8"),
    ("bias without the scale", -320, -2272, "bias-without-scale", "not multiplied"),
    ("counts read as totals", 64, 64, "counts-as-totals", ""),
    ("logit reversed", -224, 96, "logit-order", "reversed"),
    ("last write wins", -128, -288, "last-write-wins", "overwrites"),
    ("all rows to token 0", -288, 0, "row-index-left-out", "row 0"),
]
#: Mistake, out[0, :2] and out[1, :2] of w1, name and a word of its detail.
W1 = [
    ("nibbles swapped, bias right", (-1408, 1856), (-2288, 2976), "nibbles-swapped", "of x2"),
    ("nibbles swapped in bias too", (512, -64), (912, -224), "nibbles-swapped", "bias too"),
]


@pytest.mark.parametrize(("what", "first", "second", "name", "detail"), W0, ids=[row[0] for row in W0])
def test_w0(what: str, first: float, second: float, name: str, detail: str) -> None:
    out = np.repeat(np.float32([[first], [second]]), 128, axis=1)
    found = {e.name: e for e in diagnose(make_case("w0"), out).explanations}
    assert name in found, what
    assert detail in found[name].detail
    assert found[name].share == 1.0


@pytest.mark.parametrize(("what", "first", "second", "name", "detail"), W1, ids=[row[0] for row in W1])
def test_w1(what: str, first: tuple[int, int], second: tuple[int, int], name: str, detail: str) -> None:
    out = np.tile(np.float32([first, second]), 64)
    found = {e.name: e for e in diagnose(make_case("w1"), out).explanations}
    assert name in found, what
    assert detail in found[name].detail


def test_constant_weights_cannot_show_a_nibble_swap() -> None:
    """w0's weights are equal in every column: what swapped nibbles give is the right result."""
    call = make_case("w0")
    assert diagnose(call, golden(call).out.astype(np.float32)).verdict == "PASS"


@pytest.mark.parametrize(("byte", "expected"), [("x", 96), ("w", 160)])
def test_m0_slots(byte: str, expected: int) -> None:
    """Slots of one side that differ, exchanged: 1 + 2 or 4 + 1 blocks of 32 either way, so not seen."""
    from reference.diagnosis.call import change

    call = make_case("m0")
    argument, slots = ("pertoken_scale", (127, 128)) if byte == "x" else ("scale", (129, 127))
    array = call.arrays[argument]
    codes = np.broadcast_to(np.array(slots, np.uint8), array.shape).copy().view(array.dtype)
    changed = change(call, {argument: codes})
    assert (golden(changed).out == expected).all()
    assert diagnose(changed, np.full((1, 64), expected, np.float32)).verdict == "PASS"


def test_m0_slots_of_w_exchanged() -> None:
    """x 128, 127 and w 127, 129: 64 + 128 = 192; with w's slots exchanged 256 + 32 = 288."""
    from reference.diagnosis.call import change

    call = make_case("m0")
    arrays = {}
    for argument, slots in (("pertoken_scale", (128, 127)), ("scale", (127, 129))):
        array = call.arrays[argument]
        arrays[argument] = np.broadcast_to(np.array(slots, np.uint8), array.shape).copy().view(array.dtype)
    changed = change(call, arrays)
    assert (golden(changed).out == 192).all()
    found = diagnose(changed, np.full((1, 64), 288, np.float32)).explanations
    assert "scale-slots" in [explanation.name for explanation in found]


def test_tail_rows_of_w0() -> None:
    """group_list 1, 1: 64 and -64.  Rows 2 and 3 as expert 1's too: 64 - 128 and -64 - 288."""
    from reference.diagnosis.call import change

    call = change(make_case("w0"), {"group_list": np.array([1, 1])})
    assert golden(call).out[:, 0].tolist() == [64, -64]
    found = diagnose(call, np.repeat(np.float32([[-64], [-352]]), 128, axis=1)).explanations
    assert "tail-rows" in [explanation.name for explanation in found]

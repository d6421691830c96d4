"""Host side of the kernels: groups, padding, nibbles, scales, planes. Plain NumPy, no PyPTO."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pypto_impl import chunks
from pypto_impl.call import KernelCall, KernelSpec
from pypto_impl.groups import group_counts, read_groups
from pypto_impl.kernel_run import prepare
from pypto_impl.pack_mx import element_bytes
from pypto_impl.pack_w4a8 import decode_scale, join_planes, split_planes, stack_planes, unpack_int4
from reference.operands import Operands

Maker = Callable[..., Operands]


def argument(call: KernelCall, name: str) -> Any:
    """The array of one argument."""
    return next(entry.array for entry in call.arguments if entry.name == name)


def test_totals_become_counts_with_the_first_one_kept() -> None:
    assert group_counts(np.array([10, 25, 30]), 0).tolist() == [10, 15, 5]
    assert group_counts(np.array([10, 15, 5]), 1).tolist() == [10, 15, 5]


def test_counts_and_starts_are_int32() -> None:
    counts, starts = read_groups(np.array([2, 0, 3]), 1, np.array([0, 1, 0, 1, 0, 99]), m=6, batch=2)
    assert (counts.dtype, starts.dtype) == (np.int32, np.int32)
    assert (counts.tolist(), starts.tolist()) == ([2, 0, 3], [0, 2, 2])


@pytest.mark.parametrize(
    ("group_list", "kind", "rows", "message"),
    [
        (
            [2, -1, 3],
            1,
            [0] * 6,
            "group_list: is negative at index 1 (-1 rows for that expert); expected counts of at least 0",
        ),
        (
            [3, 2],
            0,
            [0] * 6,
            "group_list: decreases at index 1 (-1 rows for that expert); expected counts of at least 0",
        ),
        (
            [4, 6],
            1,
            [0] * 6,
            "group_list: 10 rows in total, but x1 has m = 6; "
            "are these running totals? Then pass group_list_type 0",
        ),
        ([4, 7], 0, [0] * 6, "group_list: the last total is 7, but x1 has m = 6"),
        (
            [2, 2],
            1,
            [0, -1, 2, 0, 9, 9],
            "row_index: 2 of the 4 used entries lie outside 0..1: [1] = -1, [2] = 2; "
            "there is no marker for dropped rows, remove them and lower the counts",
        ),
        ([2], 2, [0] * 6, "group_list_type: expected 0 (running totals) or 1 (counts), got 2"),
    ],
    ids=["negative", "decreasing", "counts beyond m", "totals beyond m", "rows outside", "type"],
)
def test_impossible_routing_is_refused(
    group_list: list[int], kind: int, rows: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read_groups(np.array(group_list), kind, np.array(rows), m=6, batch=2)


def test_k_is_padded_with_zeros_and_its_slot_with_one(make_mx: Maker) -> None:
    call = prepare(make_mx([2, 1], k=96, n=32, padding=255))
    assert call.spec.k == 128
    assert argument(call, "x1").shape == (3, 128)
    assert not argument(call, "x1")[:, 96:].any()
    assert argument(call, "x2").shape == (2 * 128, 32)
    assert not argument(call, "x2").reshape(2, 128, 32)[:, 96:].any()
    scale = argument(call, "scale").reshape(2, 2, 32, 2)
    assert set(scale[:, 1, :, 1].reshape(-1)) == {127}
    assert 255 not in scale
    assert set(argument(call, "pertoken_scale")[:, 1, 1]) == {127}


def test_a_partial_block_keeps_its_scale(make_mx: Maker) -> None:
    """k = 176 has six blocks, the last one half full: no slot is padding."""
    operands = make_mx([2], k=176)
    call = prepare(operands)
    np.testing.assert_array_equal(argument(call, "pertoken_scale"), operands.pertoken_scale.view(np.uint8))


def test_the_callers_arrays_are_not_written(make_mx: Maker) -> None:
    operands = make_mx([2, 1], k=96, padding=255)
    before = {name: array.tobytes() for name, array in operands.arrays.items()}
    prepare(operands)
    assert before == {name: array.tobytes() for name, array in operands.arrays.items()}


@pytest.mark.parametrize("element", ["float8_e4m3fn", "float4_e2m1fn"])
def test_a_weight_transposed_by_strides_equals_one_by_flag(make_mx: Maker, element: str) -> None:
    flag, strides = (
        prepare(make_mx([2, 1], layout=layout, element=element)) for layout in ("flag", "strides")
    )
    assert strides.spec == flag.spec
    assert flag.spec.transpose_x2
    for name in ("x2", "scale"):
        np.testing.assert_array_equal(argument(strides, name), argument(flag, name))


def test_fp4_has_the_even_element_in_the_low_nibble() -> None:
    assert element_bytes(np.array([[0x21, 0xF3]], np.uint8), packed=True).tolist() == [[1, 2, 3, 15]]


def test_int4_has_element_zero_in_the_low_bits() -> None:
    words = np.array([[0x87A5C3E1]], np.uint32).view(np.int32)
    assert unpack_int4(words).tolist() == [[1, -2, 3, -4, 5, -6, 7, -8]]


def test_scale_is_the_low_word_cut_to_ten_mantissa_bits() -> None:
    words = np.array([0x3DCCCCCD, 0x3E800000, (1 << 46) | 0x3F800000, -1 << 32 | 0x40000000], np.int64)
    assert decode_scale(words.reshape(1, 1, 4)).view(np.uint32).tolist() == [
        [0x3DCCC000, 0x3E800000, 0x3F800000, 0x40000000]
    ]


def test_planes_take_every_fourth_column() -> None:
    rows = np.arange(16).reshape(2, 8)
    assert split_planes(rows)[0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert stack_planes(rows).tolist() == [
        [0, 4],
        [8, 12],
        [1, 5],
        [9, 13],
        [2, 6],
        [10, 14],
        [3, 7],
        [11, 15],
    ]
    np.testing.assert_array_equal(join_planes(stack_planes(rows), 2), rows)


def test_planes_number_the_rows_of_out(make_w4a8: Maker) -> None:
    call = prepare(make_w4a8([2], batch=4, rows=[1, 3], shared=1, shared_input_offset=2), unpack="kernel")
    assert argument(call, "row_index").tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
    assert argument(call, "shared_rows").tolist() == [2, 6, 10, 14]
    assert argument(call, "out").shape == (16, 18)


def test_a_spec_survives_json(make_mx: Maker) -> None:
    spec = prepare(make_mx([2, 1])).spec
    assert KernelSpec.from_json(spec.to_json()) == spec


def test_routing_and_attributes_are_not_compiled_in(path: Any) -> None:
    """Counts, m, shared rows, weight and offset may all change under one spec; tiles follow m alone."""
    first = prepare(path([2, 2], m=20, batch=5, shared=2)).spec
    other = path(
        [9, 4], m=24, batch=5, shared=3, shared_input_offset=1, shared_input_weight=2.0, group_list_type=0
    )
    assert prepare(other).spec == first


def test_a_large_call_is_cut_by_its_shape_alone(make_mx: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BUDGET", 60_000)
    runs = [
        chunks.experts_per_run(prepare(make_mx(counts, m=24))) for counts in ([6] * 4, [24, 0, 0, 0], [0] * 4)
    ]
    assert runs == [2, 2, 2]


def test_runs_share_one_spec_and_hold_their_own_rows(make_mx: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BUDGET", 0)
    operands = make_mx([3, 0, 5], batch=4, shared=2, bias=True)
    first, last = chunks.split_call(prepare(operands))
    assert first.spec == last.spec
    assert first.spec.e == 1
    np.testing.assert_array_equal(argument(last, "x1"), operands.x1[3:8].view(np.uint8))
    np.testing.assert_array_equal(argument(last, "row_index"), operands.row_index[3:8])
    assert (argument(last, "counts").tolist(), argument(last, "starts").tolist()) == ([5], [0])
    assert argument(first, "shared_input").shape == (2, 32)
    assert not argument(last, "shared_input").any()

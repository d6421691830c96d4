"""Routing: one stable order, conversions, expert parallelism, dropped tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import (
    RoutedRows,
    compact,
    from_topk,
    local_experts,
    local_group_list,
    routing,
    to_count,
    to_cumsum,
    to_replicas,
)


def test_two_tokens_on_two_experts() -> None:
    rows = from_topk([[0, 1], [0, 1]], [[0.5, 0.25], [0.25, 0.75]], 2)
    assert rows.row_index.tolist() == [0, 1, 0, 1]
    assert rows.logit.tolist() == [0.5, 0.25, 0.25, 0.75]
    assert rows.group_list.tolist() == [2, 2]
    assert rows.gather.tolist() == [0, 2, 1, 3]
    assert rows.logit.dtype == np.float32
    assert rows.row_index.dtype == rows.group_list.dtype == np.int64


def test_cumsum_form_of_the_group_list() -> None:
    rows = from_topk([[2, 1], [2, 0], [2, 1]], np.ones((3, 2)), 4, group_list_type=0)
    assert rows.group_list.tolist() == [1, 3, 6, 6]
    assert rows.counts.tolist() == [1, 2, 3, 0]
    assert rows.arguments()["group_list_type"] == 0


def test_order_within_an_expert_is_that_of_the_tokens() -> None:
    ids = np.zeros((50, 1), np.int32)
    assert from_topk(ids, np.ones((50, 1)), 3).row_index.tolist() == list(range(50))


@given(seed=st.integers(0, 1000), batch=st.integers(0, 9), topk=st.integers(1, 4), experts=st.integers(1, 7))
def test_every_slot_becomes_exactly_one_row_of_its_expert(
    seed: int, batch: int, topk: int, experts: int
) -> None:
    rng = np.random.default_rng(seed)
    ids, weights = rng.integers(0, experts, (batch, topk)), rng.random((batch, topk))
    rows = from_topk(ids, weights, experts)
    assert sorted(rows.gather.tolist()) == list(range(batch * topk))
    expert = np.repeat(np.arange(experts), rows.counts)
    assert np.array_equal(ids.reshape(-1)[rows.gather], expert)
    assert np.array_equal(weights.reshape(-1)[rows.gather].astype(np.float32), rows.logit)
    assert np.array_equal(rows.gather // topk, rows.row_index)


def test_ids_out_of_range_are_refused_with_the_position() -> None:
    with pytest.raises(ValueError, match=r"ids\[1, 0\]: expected an expert in 0 … 3, got 4"):
        from_topk([[0, 1], [4, 2]], np.ones((2, 2)), 4)
    with pytest.raises(ValueError, match=r"ids\[0, 1\]: .* got -1; pass drop=-1 if it marks a dropped slot"):
        from_topk([[0, -1]], np.ones((1, 2)), 4)


def test_ids_and_weights_must_agree() -> None:
    with pytest.raises(ValueError, match=r"weights shape: expected \(2, 2\) like ids, got \(2, 1\)"):
        from_topk([[0, 1], [1, 0]], [[1.0], [1.0]], 2)
    with pytest.raises(ValueError, match=r"ids shape: expected \(batch, topk\), got \(3,\)"):
        from_topk([0, 1, 0], [1.0, 1.0, 1.0], 2)
    with pytest.raises(ValueError, match="ids: expected integers, got float64"):
        from_topk([[0.0, 1.0]], [[1.0, 1.0]], 2)


def test_dropped_slots_get_no_row() -> None:
    rows = from_topk([[0, -1], [1, 0]], [[0.5, 9.0], [0.25, 0.75]], 2, drop=-1)
    assert rows.counts.tolist() == [2, 1]
    assert rows.row_index.tolist() == [0, 1, 1]
    assert rows.logit.tolist() == [0.5, 0.75, 0.25]
    assert rows.gather.tolist() == [0, 3, 2]


def test_counts_and_totals_convert_by_hand() -> None:
    assert to_count([10, 25, 30]).tolist() == [10, 15, 5]  # not [15, 15, 5]: the first entry stays
    assert to_cumsum([10, 15, 5]).tolist() == [10, 25, 30]
    assert to_count([]).tolist() == []


@given(st.lists(st.integers(0, 2**40), max_size=40))
def test_counts_and_totals_round_trip(counts: list[int]) -> None:
    assert to_count(to_cumsum(counts)).tolist() == counts


def test_decreasing_totals_and_negative_counts_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"cumsum decreases at index 1: 3 then 2; are these counts already\?"
    ):
        to_count([3, 2])
    with pytest.raises(ValueError, match="cumsum decreases at index 0: 0 then -1"):
        to_count([-1, 2])
    with pytest.raises(ValueError, match=r"counts\[1\]: expected none negative, got -4"):
        to_cumsum([1, -4])
    with pytest.raises(ValueError, match="counts: expected integers, got float64"):
        to_cumsum([1.0, 2.0])
    with pytest.raises(ValueError, match=r"group_list_type: expected 1 \(counts\) or 0 \(cumsum\), got 2"):
        from_topk([[0]], [[1.0]], 1, group_list_type=2)


def test_one_rank_gets_the_counts_of_its_own_experts() -> None:
    counts = [2, 2, 0, 0]
    assert local_group_list(counts, 0, 2).tolist() == [2, 2]
    assert local_group_list(counts, 1, 2).tolist() == [0, 0]
    assert local_group_list([1, 2, 3, 4], 1, 2, group_list_type=0).tolist() == [3, 7]


def test_uneven_ranks_128_experts_over_6() -> None:
    lengths = [len(local_group_list(np.arange(128), rank, 6)) for rank in range(6)]
    assert lengths == [22, 22, 21, 21, 21, 21]
    joined = np.concatenate([local_group_list(np.arange(128), rank, 6) for rank in range(6)])
    assert joined.tolist() == list(range(128))


@pytest.mark.parametrize(
    ("experts", "size", "largest"), [(256, 8, 32), (256, 16, 16), (896, 64, 14), (160, 16, 10), (288, 8, 36)]
)
def test_even_ranks(experts: int, size: int, largest: int) -> None:
    assert [s.stop - s.start for s in (local_experts(experts, r, size) for r in range(size))] == [
        largest
    ] * size


def test_ranks_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="ep_rank: expected 0 … 7 for ep_size 8, got 8"):
        local_group_list([1] * 16, 8, 8)


def test_rows_of_one_rank_keep_their_tokens() -> None:
    rows = from_topk([[0, 3], [1, 2], [3, 0]], np.arange(6).reshape(3, 2), 4)
    second = rows.local(1, 2)
    assert second.counts.tolist() == [1, 2]
    assert second.row_index.tolist() == [1, 0, 2]
    assert second.logit.tolist() == [3, 1, 4]
    assert second.gather.tolist() == [3, 1, 4]


def test_replicas_share_the_slots_of_their_expert_in_turn() -> None:
    ids = [[0, 1], [0, 2], [0, 1], [0, 2], [0, 1]]
    placement = [0, 1, 2, 0, 1]  # experts 0 and 1 have a second copy on the second rank
    physical = to_replicas(ids, placement)
    assert physical.tolist() == [[0, 1], [3, 2], [0, 4], [3, 2], [0, 1]]
    assert np.bincount(physical.reshape(-1)).tolist() == [3, 2, 2, 2, 1]
    assert np.array_equal(np.array(placement)[physical], ids)


def test_replicas_keep_dropped_slots_and_name_a_missing_expert() -> None:
    assert to_replicas([[0, -1]], [1, 0]).tolist() == [[1, -1]]
    with pytest.raises(ValueError, match="ids: expert 2 has no copy in placement"):
        to_replicas([[0, 2]], [1, 0])
    with pytest.raises(ValueError, match="ids: expert 1 has no copy in placement"):
        to_replicas([[0, 1]], [0, 2])


def test_compact_removes_dropped_rows_and_lowers_counts() -> None:
    rows = routing.from_arguments([2, 2], [0, -1, 1, 0], [0.5, 0.25, 0.75, 0.25])
    kept = compact(rows)
    assert kept.counts.tolist() == [1, 2]
    assert kept.row_index.tolist() == [0, 1, 0]
    assert kept.logit.tolist() == [0.5, 0.75, 0.25]
    assert routing.kept_rows(rows).tolist() == [0, 2, 3]


def test_compact_keeps_the_cumsum_form_and_leaves_the_tail_out() -> None:
    rows = routing.from_arguments([1, 3], [-1, 0, 1, -1, 5], np.ones(5), group_list_type=0)
    kept = compact(rows)
    assert kept.group_list.tolist() == [0, 2]
    assert kept.row_index.tolist() == [0, 1]


def test_padding_fills_a_buffer_of_constant_size() -> None:
    rows = from_topk([[1], [0]], [[0.5], [0.25]], 2).padded(5)
    assert (rows.m, rows.total) == (5, 2)
    assert rows.row_index.tolist() == [1, 0, 0, 0, 0]
    assert rows.logit.tolist() == [0.25, 0.5, 0, 0, 0]
    with pytest.raises(ValueError, match="m: expected at least the 5 rows that there are, got 4"):
        rows.padded(4)


def test_rows_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one entry per row each, got 2, 3 and 2"):
        routing.from_arguments([2], [0, 1], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="counts: 3 rows in all, row_index has only 2"):
        RoutedRows(np.array([3]), np.zeros(2, np.int64), np.zeros(2, np.float32), np.arange(2))

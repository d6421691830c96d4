"""The routing patterns that real calls show, on the three paths: every kernel takes them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reference.operands import Operands

pytestmark = pytest.mark.usefixtures("interpreter")
Maker = Callable[..., Operands]

#: Counts per expert, by what they stand for.
PATTERNS: dict[str, list[int]] = {
    "balanced": [4, 4, 4, 4],
    "one heavy expert first": [29, 1, 1, 1],
    "one heavy expert last": [1, 1, 1, 29],
    "all on the first": [16, 0, 0, 0],
    "all on a middle one": [0, 16, 0, 0],
    "all on the last": [0, 0, 0, 16],
    "zipf": [17, 8, 5, 2],
    "tile edges": [1, 15, 16, 17],
    "more tile edges": [31, 32, 33, 0],
    "many tiles": [127, 0, 128, 129],
}


@pytest.mark.parametrize("counts", PATTERNS.values(), ids=PATTERNS.keys())
def test_group_sizes(path: Any, expect: Callable[..., Any], counts: list[int]) -> None:
    operands = path(counts, batch=7, m=sum(counts) + 3)
    expect(operands).assert_close(path.run(operands).out)


def test_rows_beyond_the_groups_are_never_read(path: Any, expect: Callable[..., Any]) -> None:
    """Their logits and scales are NaN and their row indices far outside: half of the rows are such a tail."""
    operands = path([5, 0, 11, 0], m=32, batch=6, shared=2)
    expect(operands).assert_close(path.run(operands).out)


def test_all_counts_zero_leave_the_initial_value(path: Any) -> None:
    operands = path([0, 0, 0], m=8, batch=5, shared=2, shared_input_offset=3)
    result = path.run(operands)
    assert result.launched
    expected = np.zeros((5, operands.problem.n), np.float32)
    expected[3:] = operands.shared_input.astype(np.float32) * np.float32(0.5)
    np.testing.assert_array_equal(result.out, expected)


def test_every_row_adds_into_one_token(path: Any, expect: Callable[..., Any]) -> None:
    operands = path([6, 5, 5], batch=4, rows=[2] * 16)
    result = path.run(operands)
    expect(operands).assert_close(result.out)
    assert not result.out[[0, 1, 3]].any()


def test_a_token_occurs_any_number_of_times(path: Any, expect: Callable[..., Any]) -> None:
    operands = path([3, 4, 2], batch=6, rows=[0, 0, 5, 0, 3, 3, 3, 5, 0])
    result = path.run(operands)
    expect(operands).assert_close(result.out)
    assert not result.out[[1, 2, 4]].any()


def test_a_token_twice_within_one_expert(path: Any, expect: Callable[..., Any]) -> None:
    operands = path([4, 4], batch=3, rows=[1, 1, 0, 1, 2, 2, 2, 2])
    expect(operands).assert_close(path.run(operands).out)


def test_both_group_list_types_mean_the_same(path: Any) -> None:
    counts = path([3, 0, 5, 1], m=12, batch=4, integers=True)
    totals = path([3, 0, 5, 1], m=12, batch=4, integers=True, group_list_type=0)
    assert totals.group_list.tolist() == [3, 3, 8, 9]
    np.testing.assert_array_equal(path.run(counts).out, path.run(totals).out)


@pytest.mark.parametrize("experts", [1, 3, 9, 14, 22])
def test_any_number_of_experts(path: Any, expect: Callable[..., Any], experts: int) -> None:
    operands = path([expert % 3 for expert in range(experts)], m=24, batch=5)
    expect(operands).assert_close(path.run(operands).out)


@pytest.mark.parametrize(("m", "batch"), [(1, 1), (2, 1), (9, 3), (20, 17)])
def test_small_calls(path: Any, expect: Callable[..., Any], m: int, batch: int) -> None:
    operands = path([m // 2, m - m // 2], batch=batch)
    expect(operands).assert_close(path.run(operands).out)


def test_out_is_overwritten(path: Any) -> None:
    operands = path([4, 4], batch=3, shared=3, integers=True)
    first, second = path.run(operands), path.run(operands)
    np.testing.assert_array_equal(first.out, second.out)


def test_integers_are_exact_and_repeatable(path: Any, expect: Callable[..., Any]) -> None:
    operands = path([9, 0, 17, 6], batch=5, shared=2, shared_input_offset=1, integers=True)
    expected = expect(operands)
    for _ in range(5):
        expected.assert_equal(path.run(operands).out)


def test_cancelling_terms_into_one_token_stay_exact(path: Any, expect: Callable[..., Any]) -> None:
    """Four experts add into token 0; integers up to 2^24 must not lose a bit in whatever order they come."""
    operands = path([1, 1, 1, 1], batch=1, rows=[0, 0, 0, 0], integers=True)
    expect(operands).assert_equal(path.run(operands).out)


def test_one_compile_and_one_trace_serve_every_routing(path: Any, expect: Callable[..., Any]) -> None:
    before = path.run(path([8, 8, 8, 8], batch=5, shared=2))
    routings = [([32, 0, 0, 0], 32), ([0, 1, 2, 3], 32), ([0, 0, 0, 0], 32), ([5, 6, 7, 8], 45)]
    for seed, (counts, m) in enumerate(routings):
        operands = path(counts, m=m, batch=5, shared=2 + seed % 2, shared_input_offset=seed % 3, seed=seed)
        result = path.run(operands, tiles=before.tiles)
        expect(operands).assert_close(result.out)
        assert result.statistics["compiles"] == before.statistics["compiles"]
        assert result.statistics["traces"] == before.statistics["traces"]
    assert result.statistics["runs"] == before.statistics["runs"] + len(routings)

"""Owned handles: destroyed once, never used after, and never lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import aclnn_bindings
from aclnn_bindings.handles import Executor, IntArray
from aclnn_bindings.memory import DEFAULT_LIMIT, GRANULE, DeviceMemory
from aclnn_bindings.streams import Stream

Live = Callable[[], dict[str, int]]


@pytest.fixture
def library() -> aclnn_bindings.Library:
    return aclnn_bindings.simulator()


def test_closing_twice_destroys_once(library: aclnn_bindings.Library, live: Live) -> None:
    before = live()
    with library.runtime.bind() as context:
        memory = DeviceMemory(context, 100)
        assert live()["liveAllocations"] == before["liveAllocations"] + 1
        memory.close()
        memory.close()
    assert live() == before


def test_use_after_close_raises(library: aclnn_bindings.Library) -> None:
    with library.runtime.bind() as context:
        memory = DeviceMemory(context, 100)
        memory.close()
        assert memory.closed
        with pytest.raises(aclnn_bindings.ClosedHandleError, match="device memory of 100 bytes is closed"):
            _ = memory.pointer


def test_every_kind_is_a_context_manager(library: aclnn_bindings.Library, live: Live) -> None:
    before = live()
    with (
        library.runtime.bind() as context,
        DeviceMemory(context, 64),
        Stream(context),
        IntArray(context, (1, 2, 3)),
        IntArray(context, ()),
        Executor(context),
    ):
        during = live()
        assert during["liveAllocations"] == before["liveAllocations"] + 1
        assert during["liveStreams"] == before["liveStreams"] + 1
        assert during["liveIntArrays"] == before["liveIntArrays"] + 2
    assert live() == before


def test_a_forgotten_handle_is_destroyed_with_a_warning(library: aclnn_bindings.Library, live: Live) -> None:
    before = live()
    with library.runtime.bind() as context, pytest.warns(ResourceWarning, match="int array was never closed"):
        IntArray(context, (1,))
    assert live() == before


def test_a_handle_given_away_is_not_destroyed_here(library: aclnn_bindings.Library, live: Live) -> None:
    before = live()
    with library.runtime.bind() as context:
        array = IntArray(context, (4,))
        pointer = array.take()
        array.close()
        assert live()["liveIntArrays"] == before["liveIntArrays"] + 1
        library.check(library.functions.aclDestroyIntArray(pointer), "aclDestroyIntArray")
        with pytest.raises(aclnn_bindings.ClosedHandleError):
            array.take()
    assert live() == before


def test_a_failed_allocation_leaves_nothing_and_says_what_is_free(
    library: aclnn_bindings.Library, live: Live
) -> None:
    before = live()
    said = r"the device has \d+ of \d+ bytes free"
    with (
        library.runtime.bind() as context,
        pytest.raises(aclnn_bindings.OutOfDeviceMemoryError, match=said),
    ):
        context.memory.acquire(1 << 50)
    assert live() == before


def test_the_pool_hands_the_same_block_out_again(library: aclnn_bindings.Library) -> None:
    with library.runtime.bind() as context:
        first = context.memory.acquire(GRANULE * 7)
        context.memory.release(first)
        second = context.memory.acquire(GRANULE * 7 - 3)
        assert second is first
        before = context.memory.stats()
        context.memory.release(second)
        after = context.memory.stats()
    assert before.in_use - after.in_use == GRANULE * 7 == after.idle - before.idle


def test_blocks_above_the_limit_go_straight_back(library: aclnn_bindings.Library, live: Live) -> None:
    library.release_memory()
    before = live()
    with library.runtime.bind() as context:
        block = context.memory.acquire(DEFAULT_LIMIT + GRANULE)
        context.memory.release(block)
        assert block.closed
        assert context.memory.stats().idle == 0
    assert live() == before


def test_memory_is_kept_apart_by_device(library: aclnn_bindings.Library) -> None:
    with library.runtime.bind(0) as first, library.runtime.bind(1) as second:
        assert first.memory is not second.memory
        assert (first.device, second.device) == (0, 1)

"""Order: two streams without an event, the host before the device, and rows added in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import Plan
from aclnn_bindings._acl import ffi, lib
from reference import golden
from reference.cases import Case

NOTHING_ORDERS = "nothing orders the two (record an event and wait for it, or synchronise)"
KERNEL = "of aclnnGroupedMatmulFinalizeRoutingV3 (call …)"


def write_out_from_another_stream(call: Any) -> int:
    call.other = call.new_stream()
    return int(call.f.aclrtMemsetAsync(call.memory["out"], 512, 0, 512, call.other))


def read_out_from_another_stream(call: Any) -> int:
    """A copy on the device whose source is out."""
    call.other = call.new_stream()
    kind = lib.ACL_MEMCPY_DEVICE_TO_DEVICE
    return int(call.f.aclrtMemcpyAsync(call.allocate(512), 512, call.memory["out"], 512, kind, call.other))


def copy_out_at_once(call: Any) -> int:
    host, kind = ffi.new("char[]", 512), lib.ACL_MEMCPY_DEVICE_TO_HOST
    return int(call.f.aclrtMemcpy(host, 512, call.memory["out"], 512, kind))


def overwrite_an_input_at_once(call: Any) -> int:
    host, kind = ffi.new("char[]", 32), lib.ACL_MEMCPY_HOST_TO_DEVICE
    return int(call.f.aclrtMemcpy(call.memory["logit"], 32, host, 32, kind))


MISTAKES = {
    "out written from two streams": (
        write_out_from_another_stream,
        f"EZ1001: aclrtMemsetAsync: devPtr: writing 512 bytes at 0x… may happen while out "
        f"{KERNEL} writes them: "
        f"{NOTHING_ORDERS}",
    ),
    "out read from another stream": (
        read_out_from_another_stream,
        f"EZ1001: aclrtMemcpyAsync: src: reading 512 bytes at 0x… may happen while out {KERNEL} writes them: "
        f"{NOTHING_ORDERS}",
    ),
    "out copied to the host without a wait": (
        copy_out_at_once,
        f"EZ1001: aclrtMemcpy: src: reading 512 bytes at 0x… may happen while out {KERNEL} writes them: "
        f"{NOTHING_ORDERS}",
    ),
    "input overwritten under a queued kernel": (
        overwrite_an_input_at_once,
        f"EZ1001: aclrtMemcpy: dst: writing 32 bytes at 0x… may happen while logit {KERNEL} reads them: "
        f"{NOTHING_ORDERS}",
    ),
}


def end(call: Any) -> None:
    """Wait for everything and destroy the other stream."""
    assert call.synchronize() == 0
    if hasattr(call, "other"):
        assert call.f.aclrtSynchronizeStream(call.other) == 0
        assert call.f.aclrtDestroyStream(call.other) == 0


@pytest.mark.parametrize("name", MISTAKES)
def test_unordered_access_is_found(
    name: str, raw: Callable[..., Any], documented: Callable[[str], bool]
) -> None:
    make, text = MISTAKES[name]
    call = raw()
    assert call.launch() == 0
    assert (make(call), call.message()) == (107000, text)
    assert documented(f"| {name} | 107000 | {text} |")
    end(call)


@pytest.mark.parametrize("name", MISTAKES)
def test_without_checks_the_process_goes_on(
    name: str, raw: Callable[..., Any], checks: Callable[[bool], None]
) -> None:
    checks(False)
    call = raw()
    assert call.launch() == 0
    assert MISTAKES[name][0](call) == 0
    end(call)


@pytest.mark.parametrize("name", MISTAKES)
def test_the_same_after_a_wait_is_no_finding(name: str, raw: Callable[..., Any]) -> None:
    call = raw()
    assert call.run() == 0
    assert MISTAKES[name][0](call) == 0
    end(call)


def test_an_event_orders_two_streams(raw: Callable[..., Any]) -> None:
    call = raw()
    event = ffi.new("aclrtEvent *")
    assert call.f.aclrtCreateEvent(event) == 0
    assert call.launch() == 0
    call.other = call.new_stream()
    assert call.f.aclrtRecordEvent(event[0], call.stream) == 0
    assert call.f.aclrtStreamWaitEvent(call.other, event[0]) == 0
    assert call.f.aclrtMemsetAsync(call.memory["out"], 512, 0, 512, call.other) == 0
    end(call)
    assert call.f.aclrtDestroyEvent(event[0]) == 0


def test_kernels_of_two_streams_may_read_the_same_weights(raw: Callable[..., Any]) -> None:
    first, second = raw(), raw()
    assert second.free(second.memory["x2"]) == 0
    second.memory["x2"] = first.memory["x2"]
    second.describe("x2")
    assert first.launch() == second.launch() == 0
    assert first.synchronize() == second.synchronize() == 0


@pytest.mark.parametrize("shared", [False, True])
def test_outputs_in_the_gaps_of_each_other_are_no_finding(raw: Callable[..., Any], shared: bool) -> None:
    """The left and the right half of one buffer's columns as two outputs, on two streams; and twice the
    left one, where both have gaps and the device cannot tell."""
    first, second = raw(), raw()
    wide = first.allocate(4 * 64 * 4)
    right = ffi.cast("char *", wide) + (0 if shared else 32 * 4)
    first.describe("out", wide, strides=(64, 1), storage=(256 - 32,))
    second.describe("out", right, strides=(64, 1), storage=(256 - 32,))
    assert first.launch() == second.launch() == 0
    assert first.synchronize() == second.synchronize() == 0


def test_a_buffer_that_covers_a_view_with_gaps_is_a_finding(raw: Callable[..., Any]) -> None:
    call = raw()
    wide = call.allocate(4 * 64 * 4)
    call.describe("out", wide, strides=(64, 1), storage=(256 - 32,))
    assert call.launch() == 0
    call.other = call.new_stream()
    assert call.f.aclrtMemsetAsync(wide, 1024, 0, 1024, call.other) == 107000
    assert call.message().endswith(NOTHING_ORDERS)
    end(call)


FAMILIES = {
    "mx": Case("order", "mxfp8", 64, 64, 32, 2, 2),
    "w4a8": Case("order", "w4a8", 64, 256, 128, 2, 2, platform="atlas_a2"),
}


def result(family: str, seed: int, deterministic: bool | None = None) -> Any:
    """Out of one call with rows added in the order of ``seed``."""
    operands = FAMILIES[family].make()
    library = aclnn_bindings.simulator(operands.problem.platform_row.default_soc)
    library.functions.gmmfrSimSetShuffle(seed)
    try:
        with Plan(operands.problem, operands.arrays, library=library, deterministic=deterministic) as plan:
            out = plan.run()
    finally:
        library.functions.gmmfrSimSetShuffle(0)
    stage = golden(operands, magnitudes=True)
    assert stage.magnitude is not None
    slack = 1e-5 * stage.magnitude + (0 if stage.rounding is None else stage.rounding)
    assert bool((np.abs(out - stage.out) <= slack).all())
    return out


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_added_in_the_order_of_a_seed(family: str) -> None:
    results = [result(family, seed) for seed in (0, 1, 2, 1)]
    assert results[1].tobytes() == results[3].tobytes()
    assert len({one.tobytes() for one in results}) == 3, (
        "32 rows of floats in another order round differently"
    )


def test_deterministic_mode_ignores_the_seed_on_atlas_a2() -> None:
    assert len({result("w4a8", seed, deterministic=True).tobytes() for seed in (0, 1, 2)}) == 1


def test_on_ascend_950_there_is_no_deterministic_order() -> None:
    assert len({result("mx", seed, deterministic=True).tobytes() for seed in (0, 1, 2)}) > 1


@pytest.mark.parametrize("family", ["mx", "w4a8"])
def test_only_the_documented_input_is_written(family: str, raw: Callable[..., Any]) -> None:
    """x1 on Atlas A2/A3, whose kernel splits it in place; nothing on Ascend 950."""
    call = raw(family)
    before = {name: call.read(name) for name in call.memory if name != "out"}
    assert call.run() == 0
    changed = {name for name, image in before.items() if call.read(name) != image}
    assert changed == ({"x1"} if family == "w4a8" else set())

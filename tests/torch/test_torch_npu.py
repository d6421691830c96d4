"""The unmodified torch_npu wheel drives the simulator."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs_torch_npu

A2, A3, A950 = "Ascend910B2", "Ascend910_9391", "Ascend950PR_9579"
#: MXFP8 (tail rows and a shared input, transposed weights, running totals) and MXFP4 (plain, transposed).
MX_CASES = ("m0", "c10", "c11", "c12", "c14", "c15", "c16", "c18_mxfp8")
W4A8_CASES = ("w0", "c2", "c4", "c5", "c18_w4a8")
Simulated = Callable[..., Any]


@pytest.mark.parametrize("soc", [A950, A2])
def test_a_script_sees_a_device(simulated: Simulated, soc: str) -> None:
    seen = simulated("runtime.py", soc=soc)
    assert (seen["available"], seen["devices"], seen["name"]) == (True, 2, soc)
    for way in ("round trip", "strided", "slice", "broadcast", "pinned", "second device", "side stream"):
        assert seen[way] is True, way
    assert seen["fp8"] == [True, True]
    assert seen["zeros"] == [0.0] * 5


@pytest.mark.parametrize("soc", [A950, A2])
def test_events_are_reached_and_timed(simulated: Simulated, soc: str) -> None:
    seen = simulated("runtime.py", soc=soc)
    assert seen["event reached"] is True
    assert seen["elapsed"] >= 0


@pytest.mark.parametrize("task_queue", [0, 1, 2])
@pytest.mark.parametrize(("soc", "cases"), [(A950, MX_CASES), (A2, W4A8_CASES)])
def test_torch_npus_operator_agrees_with_the_golden(
    simulated: Simulated, soc: str, cases: tuple[str, ...], task_queue: int
) -> None:
    found = simulated("vendor_calls.py", *cases, soc=soc, task_queue=task_queue)
    assert [(row["case"], row["verdict"]) for row in found] == [(name, "PASS") for name in cases]


@pytest.mark.parametrize("task_queue", [0, 1, 2])
@pytest.mark.parametrize(("soc", "cases"), [(A950, MX_CASES), (A2, W4A8_CASES)])
def test_torch_npu_and_the_binding_give_the_same_bits(
    simulated: Simulated, soc: str, cases: tuple[str, ...], task_queue: int
) -> None:
    found = simulated("vendor_calls.py", *cases, soc=soc, task_queue=task_queue)
    for row in found:
        assert row["different"] == [], row["case"]
        assert row["devices"] == ["npu:0"], row["case"]


def test_fp4_in_torchs_own_dtype_and_as_bytes(simulated: Simulated) -> None:
    assert simulated("native_fp4.py", soc=A950) == [["PASS", "PASS"]] * 8  # torch_npu, and our operator


@pytest.mark.parametrize("cases", [("m0", "c15"), ("c15", "m0")])  # MXFP8 and MXFP4
def test_the_first_call_of_a_process_does_not_decide_about_fp4(
    simulated: Simulated, cases: tuple[str, str]
) -> None:
    found = simulated("vendor_calls.py", *cases, soc=A950)
    assert [(row["columns"], row["verdict"], row["different"]) for row in found] == [(64, "PASS", [])] * 2


def test_torch_npu_runs_on_atlas_a3(simulated: Simulated) -> None:
    (row,) = simulated("vendor_calls.py", "c3", soc=A3)
    assert (row["verdict"], row["different"]) == ("PASS", [])


def test_on_atlas_a2_the_kernel_destroys_x1_so_a_second_call_is_wrong(simulated: Simulated) -> None:
    for row in simulated("vendor_calls.py", *W4A8_CASES, soc=A2):
        assert row["second call equal"] is False, row["case"]
        assert row["second verdict"] == "FAIL", row["case"]


def test_our_operator_leaves_x1_as_it_was(simulated: Simulated) -> None:
    for row in simulated("vendor_calls.py", *W4A8_CASES, soc=A2):
        assert row["x1 unchanged by ours"] is True, row["case"]


def test_on_ascend_950_a_second_call_is_the_same(simulated: Simulated) -> None:
    for row in simulated("vendor_calls.py", *MX_CASES, soc=A950):
        assert row["second call equal"] is True, row["case"]


@pytest.mark.parametrize(("soc", "task_queue"), [(A950, 1), (A2, 2)])
def test_streams_and_events_order_work(simulated: Simulated, soc: str, task_queue: int) -> None:
    found = simulated("order.py", soc=soc, task_queue=task_queue)
    assert found["wrong"] == 0  # of 60 copies behind an event of another stream
    assert found["early"] > 0  # launches that returned before their event was reached


@pytest.mark.parametrize("task_queue", [0, 1])
def test_a_read_that_no_event_orders_is_found(run_simulated: Callable[..., Any], task_queue: int) -> None:
    for order in ("wait", "none"):
        outcome = run_simulated("race.py", order, soc=A950, task_queue=task_queue, check=True)
        found = "nothing orders the two (record an event and wait for it, or synchronise)" in outcome.stderr
        assert (outcome.returncode == 0, found) == ((True, False) if order == "wait" else (False, True))


@pytest.mark.parametrize(("soc", "task_queue"), [(A950, 1), (A2, 2)])
def test_the_binding_runs_behind_what_torch_npu_has_queued(
    simulated: Simulated, soc: str, task_queue: int
) -> None:
    found = simulated("order.py", soc=soc, task_queue=task_queue)
    assert found["distinct"] == 3  # the inputs of the rounds give different results
    assert found["late"] == 0


@pytest.mark.parametrize(("soc", "case"), [(A950, "c11"), (A2, "c18_w4a8")])
def test_parts_of_larger_tensors(simulated: Simulated, soc: str, case: str) -> None:
    found = simulated("layouts.py", case, soc=soc)
    assert {layout: row["binding"] for layout, row in found.items()} == dict.fromkeys(found, "PASS")
    assert {layout: row["plan"] for layout, row in found.items()} == dict.fromkeys(found, "PASS")
    # Phase 1 relabels INT32 weights to INT4, after which their offset counts 4-bit elements: torch_npu, which
    # passes the offset, reads other experts than it was asked to.
    wrong = {"experts"} if soc == A2 else set()
    assert {layout for layout, row in found.items() if row["torch_npu"] != "PASS"} == wrong


@pytest.mark.parametrize(("soc", "case", "calls"), [(A950, "c18_mxfp8", 1000), (A2, "c18_w4a8", 1000)])
def test_a_thousand_calls_leave_nothing_behind(simulated: Simulated, soc: str, case: str, calls: int) -> None:
    found = simulated("endurance.py", case, str(calls), soc=soc, task_queue=0, check=False)
    for client, row in found.items():
        before, after = row["before"], row["after"]
        assert row["wrong"] == 0, client
        assert after["kernels"] - before["kernels"] == calls, client
        assert after["live"] == before["live"], client
        assert after["resident"] - before["resident"] < 1 << 20, client


def test_a_thousand_queued_calls_leave_nothing_behind(simulated: Simulated) -> None:
    found = simulated("endurance.py", "c18_mxfp8", "1000", soc=A950, task_queue=1, check=False)
    for client, row in found.items():
        assert row["after"]["live"] == row["before"]["live"], client
        # torch_npu touches its ring of 8192 queue entries for the first time: about 1 KiB a call
        assert row["after"]["resident"] - row["before"]["resident"] < 4 << 20, client


@pytest.mark.parametrize(
    ("soc", "said"),
    [
        (A950, "aclnnAdd or aclnnAddGetWorkspaceSize not found"),
        (A2, "aclopCompileAndExecute: operator Add is not simulated"),
    ],
)
def test_an_operator_that_is_not_simulated_is_named(
    run_simulated: Callable[..., Any], soc: str, said: str
) -> None:
    program = "import torch, torch_npu; x = torch.ones(4).npu(); (x + x).cpu()"
    outcome = run_simulated(program, soc=soc, task_queue=0)
    assert outcome.returncode != 0
    assert said in outcome.stderr


def test_a_conversion_on_the_device_is_refused_with_both_types(run_simulated: Callable[..., Any]) -> None:
    program = (
        "import torch, torch_npu; x = torch.ones(4).npu(); x.copy_(torch.ones(4, dtype=torch.int32).npu())"
    )
    outcome = run_simulated(program, soc=A950, task_queue=0)
    assert outcome.returncode != 0
    assert "aclnnInplaceCopyGetWorkspaceSize: from INT32 to FLOAT is not simulated" in outcome.stderr


def test_what_phase_1_refuses_is_said_by_torch_npu(run_simulated: Callable[..., Any]) -> None:
    outcome = run_simulated("refused.py", "group_list", soc=A950, task_queue=0)
    assert outcome.returncode != 0
    assert "call aclnnGroupedMatmulFinalizeRoutingV3 failed, error code is 161002" in outcome.stderr
    assert "groupList dtype: expected INT64, got INT32" in outcome.stderr


def test_a_fault_of_the_kernel_comes_up_when_torch_npu_waits(run_simulated: Callable[..., Any]) -> None:
    outcome = run_simulated("refused.py", "row_index", soc=A950, task_queue=1)
    assert outcome.returncode != 0
    assert "error code is 507035" in outcome.stderr
    assert "rowIndex[0] = 103: expected 0 to 3 (out has 4 rows)" in outcome.stderr


def test_the_wheels_files_are_as_they_were_published() -> None:
    distribution = metadata.distribution("torch_npu")
    listing = distribution.read_text("RECORD")
    assert listing is not None
    checked = 0
    for name, digest, _ in csv.reader(listing.splitlines()):
        if digest and not name.endswith(".pyc"):
            content = Path(str(distribution.locate_file(name))).read_bytes()
            kind, _, expected = digest.partition("=")
            found = base64.urlsafe_b64encode(hashlib.new(kind, content).digest()).rstrip(b"=").decode()
            assert found == expected, name
            checked += 1
    assert checked > 1000

"""A call that fails is saved with its operands and its error, and the error stays what it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
import gmmfr as package
from reference import make_case, read_bundle, write_bundle
from reference.safetensors_file import read_tensors

Gmmfr = Callable[..., Any]
PHASE_ONE = "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize"
SCRIPT = """
import aclnn_bindings
from reference import make_case

call = make_case("w0")
call.arrays["row_index"][1] = 5
with aclnn_bindings.Plan(
    call.problem, call.arrays, library=aclnn_bindings.simulator("Ascend910B2"), validate="off"
) as plan:
    plan.run()
"""


@pytest.fixture
def fail_phase_one() -> Iterator[Callable[[int], None]]:
    """Lets the simulator's next phase 1 return a status."""
    library = aclnn_bindings.simulator("Ascend910B2")

    def order(status: int) -> None:
        faults = f"{PHASE_ONE}:1:{status}".encode()
        library.check(library.functions.gmmfrSimSetFaults(faults), "gmmfrSimSetFaults")

    yield order
    library.functions.gmmfrSimSetFaults(b"")


def run_plan(call: Any, step: str) -> None:
    """Run a call as it is by one of the ways that a plan has."""
    library = aclnn_bindings.simulator("Ascend910B2")
    with aclnn_bindings.Plan(call.problem, call.arrays, library=library, validate="off") as plan:
        if step == "run":
            plan.run()
        elif step == "execute":
            plan.execute()
        else:
            plan.launch()
            getattr(plan, step)()


@pytest.mark.parametrize("step", ["run", "execute", "synchronize", "result"])
def test_a_fault_of_the_device_is_saved_with_the_operands_and_raised(step: str, tmp_path: Path) -> None:
    call = make_case("w0")
    call.arrays["row_index"][1] = 5
    with (
        package.record(tmp_path / "calls") as recording,
        pytest.raises(aclnn_bindings.DeviceFaultError) as caught,
    ):
        run_plan(call, step)
    (path,) = recording.paths
    assert recording.failed == {path: f"DeviceFaultError: {caught.value}"}
    assert recording.skipped == []
    saved = read_bundle(path)
    assert saved.problem == call.problem
    assert np.array_equal(saved.arrays["row_index"], call.arrays["row_index"])
    tensors, metadata = read_tensors(path)
    assert [name for name in tensors if name.startswith("out")] == []
    assert json.loads(metadata["gmmfr"])["recorded"]["error"] == recording.failed[path]


def test_a_call_of_the_function_that_phase_one_refuses_is_saved(
    fail_phase_one: Callable[[int], None], tmp_path: Path
) -> None:
    call = make_case("w0")
    fail_phase_one(561002)
    with (
        package.record(tmp_path / "call.safetensors") as recording,
        pytest.raises(aclnn_bindings.RejectedError),
    ):
        aclnn_bindings.grouped_matmul_finalize_routing_v3(
            **call.arrays, batch=call.batch, library=aclnn_bindings.simulator("Ascend910B2")
        )
    assert list(recording.failed) == recording.paths == [tmp_path / "call.safetensors"]
    assert np.array_equal(read_bundle(recording.paths[0]).arrays["x1"], call.arrays["x1"])


def test_a_backend_that_fails_is_saved_once(fail_phase_one: Callable[[int], None], tmp_path: Path) -> None:
    fail_phase_one(561002)
    with package.record(tmp_path / "calls") as recording:
        result = package.run("w0", backend="simulator")
    assert len(recording.paths) == 1
    assert recording.failed == {recording.paths[0]: result.cause}


def test_what_cannot_be_saved_does_not_hide_the_error(tmp_path: Path) -> None:
    taken = tmp_path / "folder" / "call.safetensors"
    call = make_case("w0")
    call.arrays["row_index"][1] = 5
    with package.record(taken) as recording, pytest.raises(aclnn_bindings.DeviceFaultError):
        run_plan(call, "run")
    assert recording.paths == []
    assert "its operands could not be saved" in recording.skipped[0]


def test_a_program_that_fails_ends_in_one_line_and_its_call_is_saved(gmmfr: Gmmfr, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    outcome = gmmfr("record", script, "-o", tmp_path / "calls", "--json")
    assert outcome.code == 1
    bundle = str(tmp_path / "calls" / "call-0001.safetensors")
    assert outcome.json["bundles"] == [bundle]
    assert outcome.json["failed"][0]["bundle"] == bundle
    assert "DeviceFaultError" in outcome.json["failed"][0]["error"]
    assert f"gmmfr record: {script}, line 10: DeviceFaultError: " in outcome.err
    assert "Traceback" not in outcome.err
    replayed = gmmfr("replay", bundle)
    assert replayed.code == 2
    assert "the call failed on simulator: DeviceFaultError" in replayed.err
    assert "row-index-range" in gmmfr("validate", bundle, "--json").out


def test_a_case_that_fails_is_saved(gmmfr: Gmmfr, tmp_path: Path) -> None:
    kernel, path = tmp_path / "kernel.py", tmp_path / "call.safetensors"
    kernel.write_text("def kernel(o): raise RuntimeError('tile 3')\n")
    outcome = gmmfr("record", "w0", "-b", f"{kernel}:kernel", "-o", path)
    assert outcome.code == 1
    assert outcome.out == f"{path}: the operands of a call that failed: RuntimeError: tile 3\n"


def test_a_case_is_not_recorded_to_a_name_of_another_kind(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "w0.txt"
    outcome = gmmfr("record", "w0", "-b", "simulator", "-o", path)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{path}: expected a name that ends in .safetensors, or a directory" in outcome.err
    assert not path.exists()


def test_json_says_why_a_case_is_not_recorded(gmmfr: Gmmfr, tmp_path: Path) -> None:
    outcome = gmmfr("record", "w0", "-b", "aclnn", "-o", tmp_path / "call.safetensors", "--json")
    assert outcome.code == 3
    assert outcome.json["bundles"] == []
    assert outcome.json["skipped"][0].startswith("aclnn: ")
    bad, path = make_case("w0"), tmp_path / "bad.safetensors"
    bad.arrays["row_index"][1] = 5
    write_bundle(path, bad)
    outcome = gmmfr("record", path, "-b", "simulator", "-o", tmp_path / "call.safetensors", "--json")
    assert outcome.code == 1
    assert "row_index" in outcome.json["skipped"][0]

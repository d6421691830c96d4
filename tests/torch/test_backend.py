"""torch_npu as a backend of run and ab, and the command that gives any program the simulated device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmfr as package
from gmmfr import torch_npu_backend
from gmmfr.simulated_device import simulated_environment
from gmmfr.torch_call import inexpressible
from reference import Attributes, Problem, golden, make_case
from reference.problem import TensorSpec

A2, A950 = "Ascend910B2", "Ascend950PR_9579"


def test_without_torch_npu_the_backend_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = torch_npu_backend.util.find_spec
    monkeypatch.setattr(
        torch_npu_backend.util, "find_spec", lambda name: None if name == "torch_npu" else found(name) or True
    )
    result = package.run("m0", backend="torch_npu")
    assert not result.ran
    assert result.reason == ("torch_npu is not installed: pip install torch==2.13.0 torch_npu==2.13.0 pyyaml")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"attributes": Attributes(transpose_x1=True)}, "torch_npu's operator has no transpose_x1"),
        ({"attributes": Attributes(dtype=1)}, "torch_npu's operator gives float32 only, not dtype 1"),
        ({"out": TensorSpec((0, 64), "float32")}, "reads output_bs 0 as m rows"),
        ({"antiquant_scale": TensorSpec((1,), "float32")}, "torch_npu's operator has no antiquant_scale"),
    ],
)
def test_what_torch_npu_cannot_say_is_not_run(change: dict[str, Any], reason: str) -> None:
    problem = make_case("m0").problem
    attributes = change.pop("attributes", problem.attributes)
    changed = Problem(problem.platform, {**problem.arguments, **change}, attributes)
    assert reason in str(inexpressible(changed))


def test_everything_else_can_be_said() -> None:
    assert inexpressible(make_case("c5").problem) is None


@pytest.mark.needs_torch_npu
@pytest.mark.parametrize(("case", "soc"), [("c18_w4a8", A2), ("c16", A950)])
def test_run_says_that_it_was_the_simulator(case: str, soc: str) -> None:
    result = package.run(case, backend="torch_npu")
    assert result.device == f"simulator ({soc}) via torch_npu 2.13.0"
    assert result.seconds is not None
    assert result.seconds > 0
    assert np.array_equal(result.out, package.run(case, backend="simulator").out)


@pytest.mark.needs_torch_npu
def test_a_call_without_rows_is_the_initial_value_with_a_note() -> None:
    result = package.run("c17", backend="torch_npu")
    assert np.array_equal(result.out, golden(make_case("c17")).out)
    assert "writes nothing" in result.notes[0]


@pytest.mark.needs_torch_npu
def test_a_failure_shows_what_torch_npu_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GMMFR_SIM_FAULT", "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize:1:561000")
    result = package.run("m0", backend="torch_npu")
    assert result.failed
    assert "torch_npu 2.13.0 ended with 1" in str(result.reason)
    assert "error code is 561000" in str(result.reason)
    assert "failure on order" in str(result.reason)
    assert "still alive" not in str(result.reason)  # what torch_npu leaves behind then is another matter


@pytest.mark.needs_torch_npu
def test_ab_of_torch_npu_and_pypto(gmmfr: Callable[..., Any]) -> None:
    pytest.importorskip("pypto")
    outcome = gmmfr("ab", "m0", "-a", "torch_npu", "-b", "pypto", "--json")
    assert outcome.code == 0
    report = outcome.json
    assert report["verdict"] == "PASS"
    pairs = [(c["a"], c["b"], c["verdict"]) for c in report["comparisons"]]
    assert pairs == [
        ("torch_npu", "golden", "PASS"),
        ("pypto", "golden", "PASS"),
        ("torch_npu", "pypto", "PASS"),
    ]


def test_a_program_finds_the_simulator_first_and_no_toolkit() -> None:
    base = {
        "LD_LIBRARY_PATH": "/opt/a:/opt/b",
        "ASCEND_HOME_PATH": "/opt/cann",
        "ASCEND_OPP_PATH": "/opt/cann/opp",
    }
    changed = simulated_environment(A2, {**base, "ASCEND_CUSTOM_OPP_PATH": "/opt/x", "HOME": "/home/me"})
    folder, *rest = changed["LD_LIBRARY_PATH"].split(":")
    assert Path(folder, "libascendcl.so").exists()
    assert rest == ["/opt/a", "/opt/b"]
    assert changed["GMMFR_SIM_SOC"] == A2
    assert changed["HOME"] == "/home/me"
    assert not {"ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH"} & set(changed)


def test_simulate_runs_a_program_and_gives_its_exit_code(start: Callable[..., Any]) -> None:
    program = (
        "import ctypes, sys; acl = ctypes.CDLL('libascendcl.so'); "
        "acl.aclrtGetSocName.restype = ctypes.c_char_p; print(acl.aclrtGetSocName().decode()); sys.exit(7)"
    )
    outcome = start(
        sys.executable,
        "-m",
        "gmmfr.cli",
        "simulate",
        "--soc",
        "atlas_a2",
        "--",
        sys.executable,
        "-c",
        program,
    )
    assert (outcome.returncode, outcome.stdout) == (7, f"{A2}\n")


@pytest.mark.needs_torch_npu
def test_simulate_shows_torch_npu_a_device(start: Callable[..., Any]) -> None:
    program = "import torch; print(torch.npu.is_available(), torch.npu.get_device_name(0))"
    outcome = start(sys.executable, "-m", "gmmfr.cli", "simulate", "--", sys.executable, "-c", program)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines()[-1] == f"True {A950}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--soc", "Ascend310", "--", "true"), "--soc: 'Ascend310' is unknown"),
        (("--", "no-such-program"), "no-such-program: No such file or directory"),
    ],
)
def test_simulate_says_what_is_wrong(
    gmmfr: Callable[..., Any], arguments: tuple[str, ...], message: str
) -> None:
    outcome = gmmfr("simulate", *arguments)
    assert outcome.code == 2
    assert message in outcome.err

"""What the tests of torch and torch_npu share: programs on the simulated device, each in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from gmmfr.simulated_device import simulated_environment

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 600

Outcome = subprocess.CompletedProcess[str]


def pytest_configure(config: pytest.Config) -> None:
    for name in ("torch", "torch_npu"):
        config.addinivalue_line("markers", f"needs_{name}: needs the package {name}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests say by a marker what they need; torch_npu brings torch."""
    for name in ("torch", "torch_npu"):
        if item.get_closest_marker(f"needs_{name}") is not None and util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="session")
def start() -> Callable[..., Outcome]:
    """Run a command with the source tree importable."""

    def run(*command: object, environment: dict[str, str] | None = None) -> Outcome:
        variables = dict(os.environ if environment is None else environment)
        path = os.pathsep.join(filter(None, [str(ROOT), variables.get("PYTHONPATH")]))
        return subprocess.run(
            [str(part) for part in command],
            env={**variables, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )

    return run


@pytest.fixture(scope="session")
def run_simulated(start: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Run Python on the simulated device: one of ``programs/``, or code."""

    def run(
        program: str, *arguments: str, soc: str, task_queue: int = 1, check: bool = False, first: str = ""
    ) -> Outcome:
        variables = {**simulated_environment(soc), "TASK_QUEUE_ENABLE": str(task_queue)}
        variables["GMMFR_SIM_CHECK"] = str(int(check))
        if first:
            variables["LD_LIBRARY_PATH"] = f"{first}:{variables['LD_LIBRARY_PATH']}"
        what = [PROGRAMS / program] if program.endswith(".py") else ["-c", program]
        return start(sys.executable, *what, *arguments, environment=variables)

    return run


@pytest.fixture(scope="session")
def simulated(run_simulated: Callable[..., Outcome]) -> Callable[..., Any]:
    """The JSON document that one of ``programs/`` prints on its last line.  Equal runs happen once.

    The device checks what the program does: memory, alignment, order between streams.
    """
    done: dict[str, Any] = {}

    def run(program: str, *arguments: str, soc: str, task_queue: int = 1, check: bool = True) -> Any:
        key = json.dumps([program, arguments, soc, task_queue, check])
        if key not in done:
            outcome = run_simulated(program, *arguments, soc=soc, task_queue=task_queue, check=check)
            assert outcome.returncode == 0, f"{program} ended with {outcome.returncode}:\n{outcome.stderr}"
            done[key] = json.loads(outcome.stdout.splitlines()[-1])
        return done[key]

    return run

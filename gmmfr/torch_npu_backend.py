"""torch_npu's own operator as a backend: in a process of its own, on the NPU, else on the simulator.

torch_npu takes over the process that imports it (it starts the runtime and ends it at exit), and a process
that has found the libraries once cannot be pointed at others.  So each run has a fresh interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

from gmmfr.result import Result
from gmmfr.simulated_device import missing, simulated_environment
from gmmfr.torch_call import inexpressible
from reference.problem import Problem

if TYPE_CHECKING:
    from reference.operands import Operands

_LAST_LINES = 12
_NOTHING_WRITTEN = "the operator writes nothing with M = 0 or N = 0; the result is its initial value"


def refusal(problem: Problem) -> str | None:
    """Why torch_npu cannot run ``problem`` here; None where it can."""
    for package in ("torch", "torch_npu"):
        if util.find_spec(package) is None:
            return f"{package} is not installed: pip install torch==2.13.0 torch_npu==2.13.0 pyyaml"
    reason = inexpressible(problem)
    if reason is not None:
        return reason
    soc = device_soc()
    if soc is None:
        return missing()
    if not problem.platform_row.has_soc(soc):
        return f"the device here is {soc}; the call is for {problem.platform_row.title}"
    return None


def device_soc() -> str | None:
    """SoC of the NPU that the vendor's library answers for; None where none does."""
    from aclnn_bindings import BindingError, find_library

    try:
        library = find_library()
        return library.soc if library.provider == "vendor" and library.device_count else None
    except BindingError:
        return None


def run(operands: Operands) -> Result:
    """Compute ``operands`` with torch_npu; ``seconds`` from the call to the synchronised stream."""
    from reference.bundle import write_bundle
    from reference.safetensors_file import read_tensors

    with tempfile.TemporaryDirectory(prefix="gmmfr-") as folder:
        call, out = Path(folder, "call.safetensors"), Path(folder, "out.safetensors")
        write_bundle(call, operands)
        _work(call, out, _environment(operands.problem))
        tensors, facts = read_tensors(out)
        result = tensors["out"][1].copy()
    device, seconds = facts["device"], float(facts["seconds"])
    problem = operands.problem
    if problem.platform_row.family == "950" and 0 in (problem.m, problem.n):
        return _initial(operands, device, seconds)
    return Result("torch_npu", result, device, seconds)


def _environment(problem: Problem) -> dict[str, str]:
    variables = dict(os.environ)
    if device_soc() is None:
        variables = simulated_environment(problem.platform_row.default_soc)
    variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # the worker imports torch_npu itself
    root = str(Path(__file__).resolve().parent.parent)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [root, variables.get("PYTHONPATH")]))
    return variables


def _work(call: Path, out: Path, variables: dict[str, str]) -> None:
    command = [sys.executable, "-m", "gmmfr.torch_npu_worker", str(call), str(out)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode or not out.exists():
        said = _last_words(out, done)
        raise RuntimeError(f"torch_npu {metadata.version('torch_npu')} ended with {done.returncode}: {said}")


def _last_words(out: Path, done: subprocess.CompletedProcess[str]) -> str:
    """The error that the worker caught, else the end of what a process printed that came to no such point."""
    from gmmfr.torch_npu_worker import error_file

    caught = error_file(out)
    said = (
        caught.read_text(encoding="utf-8") if caught.exists() else done.stderr.strip() or done.stdout.strip()
    )
    return "\n".join(said.strip().splitlines()[-_LAST_LINES:]) or "it said nothing"


def _initial(operands: Operands, device: str, seconds: float) -> Result:
    from aclnn_bindings.operator import InitialValueWarning, initial_value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InitialValueWarning)
        out = initial_value(operands.problem, operands.shared_input)
    return Result("torch_npu", out, device, seconds, notes=(_NOTHING_WRITTEN,))

"""The backends behind one interface, by name.

A backend says why it cannot run a call here (``refusal``), or runs it (``run``).  Nothing falls back:
``auto`` is resolved to a name before anything runs, and the name is reported.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

import numpy as np

from gmmfr.backend import Backend, Progress
from gmmfr.cli_support import UsageFailure
from gmmfr.installed import cann_version
from gmmfr.own_kernel import OwnKernel
from gmmfr.result import Result
from reference.operands import Operands
from reference.problem import Problem

if TYPE_CHECKING:
    from aclnn_bindings import Library


class GoldenBackend(Backend):
    """The NumPy golden."""

    name = "golden"
    summary = "NumPy golden"

    def __init__(self, precision: str = "float64") -> None:
        self._precision = precision

    def refusal(self, problem: Problem) -> str | None:
        return None

    def run(self, operands: Operands, progress: Progress | None = None) -> Result:
        from reference.golden_operator import golden

        begin = time.perf_counter()
        out = golden(operands, self._precision, progress=progress).out  # type: ignore[arg-type]
        seconds = time.perf_counter() - begin
        return Result(self.name, out, f"numpy {self._precision}", seconds)


class SimulatorBackend(Backend):
    """The binding on the CPU simulator of the vendor's ABI."""

    name = "simulator"
    summary = "the binding on the CPU simulator of the vendor's ABI"

    def refusal(self, problem: Problem) -> str | None:
        from aclnn_bindings import BindingError, simulator

        try:
            simulator(problem.platform_row.default_soc)
        except BindingError as error:
            return str(error)
        return None

    def run(self, operands: Operands, progress: Progress | None = None) -> Result:
        from aclnn_bindings import simulator

        soc = operands.problem.platform_row.default_soc
        return run_library(self.name, simulator(soc), f"simulator ({soc})", operands)


class AclnnBackend(Backend):
    """The vendor's library on an NPU."""

    name = "aclnn"
    summary = "the vendor's library on an NPU"

    def refusal(self, problem: Problem) -> str | None:
        from aclnn_bindings import BindingError, LibraryNotFoundError, find_library

        try:
            library = find_library()
            if library.provider == "simulator":
                return f"the library on the search path is the simulator ({library.path}), no vendor library"
            if library.device_count == 0:
                return f"{library.path}: no device answers"
            soc = library.soc
        except LibraryNotFoundError as error:
            return f"{str(error).splitlines()[0].rstrip(':')}; gmmfr doctor lists where it was looked for"
        except BindingError as error:
            return str(error)
        if not problem.platform_row.has_soc(soc):
            return f"the device here is {soc}; the call is for {problem.platform_row.title}"
        return None

    def run(self, operands: Operands, progress: Progress | None = None) -> Result:
        from aclnn_bindings import find_library

        library = find_library()
        with library.runtime.bind() as context:
            device = context.device
        label = f"npu:{device} ({library.soc}, CANN {cann_version() or 'of unknown version'})"
        return run_library(self.name, library, label, operands)


def run_library(name: str, library: Library, device: str, operands: Operands) -> Result:
    """Run both phases on ``library``: the operands loaded, then timed from phase 1 to synchronise.

    The vendor's library reads NPU tensors where they are; its kernel may not overwrite the caller's x1.
    """
    from aclnn_bindings import Plan
    from aclnn_bindings.operator import InitialValueWarning, initial_value
    from reference.sentinel import sentinel_filled

    problem, sources = operands.problem, dict(operands.arrays)
    in_place = library.provider == "vendor" and bool(operands.devices)
    if in_place:
        problem, sources = operands.on_device()
    keeps_x1 = sources.get("x1") is not operands.x1
    with Plan(
        problem, sources, library=library, validate="off", consume_x1=not keeps_x1, repeatable=False
    ) as plan:
        if not in_place:  # there the output is a new tensor of torch's
            # What is never written shows in the comparison.
            plan.preset(sentinel_filled(problem.spec("out").shape))
        plan.execute()
        seconds = plan.seconds
        if not plan.writes_nothing:
            out = plan.result()
            host = out if isinstance(out, np.ndarray) else out.cpu().numpy()
            return Result(name, host, device, seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InitialValueWarning)
        out = initial_value(operands.problem, operands.shared_input)
    note = "the operator writes nothing with M = 0 or N = 0; the result is its initial value"
    return Result(name, out, device, seconds, notes=(note,))


class PyptoBackend(Backend):
    """Our PyPTO kernels: on an NPU, else in PyPTO's interpreter."""

    name = "pypto"
    summary = "the PyPTO kernels, on an NPU or in PyPTO's interpreter"

    def refusal(self, problem: Problem) -> str | None:
        import pypto_impl

        return pypto_impl.availability(problem.platform) or pypto_impl.refusal(problem)

    def run(self, operands: Operands, progress: Progress | None = None) -> Result:
        import pypto_impl

        result = pypto_impl.run(operands)
        notes = () if result.launched else ("no row to compute: the result is the initial value",)
        return Result(self.name, result.out, result.device, result.seconds, notes=notes)


class TorchNpuBackend(Backend):
    """torch_npu's operator in its own process: on an NPU, else on the simulator."""

    name = "torch_npu"
    summary = "torch_npu's operator, on an NPU or on the CPU simulator of its libraries"

    def refusal(self, problem: Problem) -> str | None:
        from gmmfr import torch_npu_backend

        return torch_npu_backend.refusal(problem)

    def run(self, operands: Operands, progress: Progress | None = None) -> Result:
        from gmmfr import torch_npu_backend

        return torch_npu_backend.run(operands)


BACKENDS: dict[str, type[Backend]] = {
    "golden": GoldenBackend,
    "aclnn": AclnnBackend,
    "simulator": SimulatorBackend,
    "pypto": PyptoBackend,
    "torch_npu": TorchNpuBackend,
}


def find_backend(name: str, problem: Problem, precision: str = "float64") -> Backend:
    """The backend called ``name``; ``auto`` is ``aclnn`` where a device answers, else ``simulator``."""
    if precision not in ("float64", "float32"):
        raise UsageFailure(f"precision: expected 'float64' or 'float32', got {precision!r}")
    if not isinstance(name, str):
        kind = type(name).__name__
        raise UsageFailure(f"backend: expected a name or path/to/file.py:function, got {kind}")
    if name == "auto":
        return SimulatorBackend() if AclnnBackend().refusal(problem) else AclnnBackend()
    if name == "golden":
        return GoldenBackend(precision)
    if name in BACKENDS:
        return BACKENDS[name]()
    if ":" in name:
        return OwnKernel(name)
    raise UsageFailure(
        f"backend {name!r} is unknown; known: auto, {', '.join(BACKENDS)}, path/to/file.py:function"
    )

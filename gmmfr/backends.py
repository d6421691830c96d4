"""The backends behind one interface, by name.

A backend says why it cannot run a call here (``refusal``), or runs it (``run``).  Nothing falls back:
``auto`` is resolved to a name before anything runs, and the name is reported.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmfr.cli_support import UsageFailure
from gmmfr.result import Result
from reference.operands import Operands
from reference.problem import Problem
from reference.torch_tensors import array_of, is_tensor

if TYPE_CHECKING:
    from aclnn_bindings import Library

Progress = Callable[[int, int], None]


class Backend(ABC):
    """One way to compute the operator."""

    name: str
    summary: str

    @property
    def identity(self) -> str:
        """What two names of one backend have in common."""
        return self.name

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Why this backend cannot run ``problem`` on this machine; None when it can."""

    @abstractmethod
    def run(self, operands: Operands, progress: Progress | None = None) -> Result:
        """Compute ``operands``; only called when :meth:`refusal` has nothing to say."""


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

    problem, sources = operands.problem, dict(operands.arrays)
    if library.provider == "vendor" and operands.devices:
        problem, sources = operands.on_device()
    keeps_x1 = sources.get("x1") is not operands.x1
    with Plan(
        problem, sources, library=library, validate="off", consume_x1=not keeps_x1, repeatable=False
    ) as plan:
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


def cann_version() -> str | None:
    """The version of the toolkit that ASCEND_HOME_PATH names; None where none says."""
    home = os.environ.get("ASCEND_HOME_PATH")
    files = sorted(Path(home).glob("*/ascend_toolkit_install.info")) if home else []
    for file in files:
        found = re.search(r"^version=(\S+)", file.read_text(errors="replace"), re.MULTILINE)
        if found:
            return found[1]
    return None


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
        return Result(self.name, result.out, result.device, result.seconds)


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


class OwnKernel(Backend):
    """A user's kernel: ``path/to/file.py:function`` gets the operands and returns ``out``."""

    def __init__(self, name: str) -> None:
        self.name = name
        path, _, function = name.rpartition(":")
        self._path, self._function = Path(path), function
        self.summary = f"{function} of {path}"
        if not self._path.is_file():
            raise UsageFailure(f"backend {name}: file {self._path} does not exist")

    @property
    def identity(self) -> str:
        return f"{self._path.resolve()}:{self._function}"

    def refusal(self, problem: Problem) -> str | None:
        return None

    def run(self, operands: Operands, progress: Progress | None = None) -> Result:
        protected = Operands(operands.problem, {n: _read_only(a) for n, a in operands.arrays.items()})
        try:
            kernel = self._load()
            begin = time.perf_counter()
            returned = kernel(protected)
        except SystemExit as error:  # a kernel cannot end the check, least of all as a success
            raise RuntimeError(
                f"the kernel called sys.exit({error.code!r}); expected it to return out"
            ) from error
        out = array_of("out", returned.cpu()) if is_tensor(returned) else np.asarray(returned)
        seconds = time.perf_counter() - begin
        if out.dtype == object:
            raise TypeError(
                f"the kernel returned {type(returned).__name__}; expected out, a float32 array of shape "
                f"{operands.problem.spec('out').shape}"
            )
        return Result(self.name, out, f"own kernel ({self._path.name}:{self._function})", seconds)

    def _load(self) -> Callable[[Operands], Any]:
        spec = importlib.util.spec_from_file_location(f"gmmfr_own_kernel_{self._path.stem}", self._path)
        if spec is None or spec.loader is None:
            raise UsageFailure(f"backend {self.name}: {self._path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)
        kernel = getattr(module, self._function, None)
        if not callable(kernel):
            raise UsageFailure(f"backend {self.name}: {self._path} has no function {self._function!r}")
        return kernel  # type: ignore[no-any-return]


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that a kernel cannot write to: the next backend gets the same operands."""
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view


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

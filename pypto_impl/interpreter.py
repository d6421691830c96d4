"""PyPTO's interpreter in this process: start it for one architecture, compile kernels, compute with them.

Runs in the child process (:mod:`pypto_impl.worker`) only, since PyPTO holds one architecture per process
and a failed pass spends it. Every kernel is compiled once to EXECUTE_GRAPH, so that tiles and buffers are
known to be legal, and traced once to TENSOR_GRAPH, which the interpreter then runs on any number of
arguments.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from pypto_impl.cache import digest, installation_folder, publish
from pypto_impl.call import Array, KernelArgument, KernelCall, KernelSpec
from pypto_impl.overlay import DAV_3510, make_overlay
from pypto_impl.toolchain import calculator_library, extension_library

REQUIRED = "0.2.0"
THREADS = 8  # at most
#: torch types of the arguments whose NumPy carrier is another one.
TORCH_VIEWS = {
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float8_e8m0fnu": "float8_e8m0fnu",
    "bfloat16": "bfloat16",
}

Report = Callable[[str], None]


class InterpreterError(RuntimeError):
    """PyPTO refused or failed; the process should not be used again."""


@dataclass
class Counters:
    """What this process did so far."""

    compiles: int = 0
    traces: int = 0
    runs: int = 0
    products: int = 0


@dataclass(frozen=True)
class Computed:
    """``out`` as the kernel left it, and the seconds of the computation alone."""

    out: Array
    seconds: float


def installed_package() -> Path:
    """The folder of the installed ``pypto`` package, found without importing it."""
    found = importlib.util.find_spec("pypto")
    if found is None or found.origin is None:
        raise InterpreterError("pypto is not installed")
    return Path(found.origin).resolve().parent


class Interpreter:
    """PyPTO on the CPU, as ``family`` (DAV_2201 or DAV_3510)."""

    def __init__(self, family: str, report: Report) -> None:
        self.counters = Counters()
        self.family = family
        self._compiled: set[KernelSpec] = set()
        self._traced: KernelSpec | None = None
        self._traced_kernel: Any = None  # owns the graph that is interpreted
        self._verified_kernel: Any = None
        self._start(installed_package(), report)

    def _start(self, package: Path, report: Report) -> None:
        version = metadata.version("pypto")
        if version != REQUIRED:
            raise InterpreterError(f"pypto {version} is installed; the interpreter needs pypto=={REQUIRED}")
        folder = installation_folder(version, package)
        if self.family == "DAV_3510":
            overlay = publish(
                folder / f"overlay-{digest(repr(DAV_3510))}", lambda target: make_overlay(package, target)
            )
            sys.path.insert(0, str(overlay))
        self._torch: Any = importlib.import_module("torch")
        self._torch.set_num_threads(min(THREADS, len(os.sched_getaffinity(0))))
        calculator_path = calculator_library(package, folder, self._torch, report)
        report("loading PyPTO")
        # The order matters: the extension's symbols must be visible before PyPTO binds its own.
        self._extension = ctypes.CDLL(str(extension_library(package, folder)), mode=ctypes.RTLD_GLOBAL)
        self._pypto: Any = importlib.import_module("pypto")
        self._core: Any = importlib.import_module("pypto.pypto_impl")
        self._entry: Any = importlib.import_module("pypto.frontend.parser.entry")
        self._attach(ctypes.CDLL(str(calculator_path), mode=ctypes.RTLD_GLOBAL))
        arch = str(self._pypto.platform.npuarch).rpartition(".")[2]
        if arch != self.family:
            raise InterpreterError(f"PyPTO simulates {arch}, expected {self.family}")

    def _attach(self, calculator: ctypes.CDLL) -> None:
        """Hand the calculator to PyPTO and to the extension, and take data from the host's memory."""
        importlib.import_module("pypto._utils").BuildOnlineManager().calculator_loaded = True
        calculator.GetCalcOps.restype = ctypes.c_void_p
        self._extension.interpret_graph.restype = ctypes.c_char_p
        self._extension.product_count.restype = ctypes.c_int64
        self._extension.read_argument.argtypes = [ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
        library = Path(self._pypto.__file__).parent / "lib" / "libtile_fwk_interface.so"
        if self._extension.attach(str(library).encode(), ctypes.c_void_p(calculator.GetCalcOps())):
            raise InterpreterError(f"the extension could not attach to {library}")
        # The stock function copies from a device; arguments are set by _set_arguments instead.
        self._entry.JitCallableWrapper._setup_verify_data = staticmethod(lambda tensors: None)

    def run(self, call: KernelCall, report: Report) -> Computed:
        """Compile ``call.spec`` if it is new, and compute. Raises :class:`InterpreterError`."""
        tensors = [self._tensor(argument) for argument in call.arguments]
        self.compile(call.spec, tensors, report)
        if self._traced != call.spec:
            report("tracing")
            self._traced_kernel = self._build(call.spec, "TENSOR_GRAPH", verify=False)
            self._traced_kernel(*tensors)
            self._verified_kernel = self._build(call.spec, "TENSOR_GRAPH", verify=True)
            self._traced = call.spec
            self.counters.traces += 1
        report("interpreting")
        return self._interpret(call, tensors)

    def compile(self, spec: KernelSpec, tensors: list[Any], report: Report) -> None:
        """Compile to EXECUTE_GRAPH: raises where tiles or buffers are not legal on the architecture."""
        if spec in self._compiled:
            return
        report("compiling")
        self._build(spec, "EXECUTE_GRAPH", verify=False)(*tensors)
        self._compiled.add(spec)
        self._traced = None
        self.counters.compiles += 1

    def estimate(self, call: KernelCall, report: Report) -> None:
        """Compile all the way and run PyPTO's cost model, which prints its summary on standard output."""
        tensors = [self._tensor(argument) for argument in call.arguments]
        options = {"runtime_options": {"run_mode": self._pypto.RunMode.SIM}}
        report("running the cost model")
        self._traced = None  # another kernel takes the place of the traced one
        kernel_module(call.spec).build(self._pypto, call.spec, options)(*tensors)

    def _build(self, spec: KernelSpec, stage: str, *, verify: bool) -> Any:
        options = {
            "runtime_options": {"run_mode": self._pypto.RunMode.SIM},
            "host_options": {"compile_stage": getattr(self._pypto.CompStage, stage)},
            "verify_options": {
                "enable_pass_verify": verify,
                "pass_verify_save_tensor": False,
                "pass_verify_pass_filter": [],
            },
        }
        return kernel_module(spec).build(self._pypto, spec, options)

    def _tensor(self, argument: KernelArgument) -> Any:
        tensor = self._torch.from_numpy(argument.array)
        view = TORCH_VIEWS.get(argument.dtype)
        return tensor.view(getattr(self._torch, view)) if view else tensor

    def _interpret(self, call: KernelCall, tensors: list[Any]) -> Computed:
        kernel = self._verified_kernel
        before = self._extension.product_count()
        with self._pypto.options("jit_scope"):
            kernel._set_config_option()
            described = kernel._convert_tensors_with_metadata(tensors, kernel._cached_signature[0])
            self._core.SetVerifyData(self._entry._pto_to_tensor_data(described), [], [])
            begin = time.perf_counter()
            error = self._extension.interpret_graph()
            seconds = time.perf_counter() - begin
        if error is not None:
            raise InterpreterError(f"the interpreter failed: {error.decode(errors='replace')}")
        self.counters.runs += 1
        self._count_products(call, self._extension.product_count() - before)
        return Computed(self._read_result(call), seconds)

    def _count_products(self, call: KernelCall, products: int) -> None:
        """Check that every MX product of this run was computed by the extension."""
        self.counters.products += products
        counts = next(argument.array for argument in call.arguments if argument.name == "counts")
        rows = call.spec.tiles.rows
        expected = int((-(-counts.astype(np.int64) // rows)).sum()) if call.spec.kernel == "mx" else 0
        if products != expected:
            raise InterpreterError(
                f"{products} scaled products were computed with their scales, expected {expected}: "
                "this PyPTO does not use the extension"
            )

    def _read_result(self, call: KernelCall) -> Array:
        index = len(call.arguments) - 1
        out = np.empty_like(call.arguments[index].array)
        code = self._extension.read_argument(index, out.ctypes.data, out.nbytes)
        if code:
            raise InterpreterError(f"the result could not be read from the interpreter (code {code})")
        return out


def kernel_module(spec: KernelSpec) -> Any:
    """The module of a kernel; its ``build`` makes the jitted function."""
    return importlib.import_module(f"pypto_impl.kernels.{spec.kernel}")

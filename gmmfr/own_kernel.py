"""A user's own kernel as a backend: ``path/to/file.py:function``."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmfr.backend import Backend, Progress
from gmmfr.cli_support import UsageFailure
from gmmfr.result import Result
from reference.operands import Operands
from reference.problem import Problem
from reference.torch_tensors import array_of, is_tensor


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
        folder = str(self._path.resolve().parent)
        if folder not in sys.path:  # as for a script: modules beside the file can be imported
            sys.path.insert(0, folder)
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

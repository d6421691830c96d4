"""A user's own kernel as a backend: ``path/to/file.py:function``, run in a process of its own."""

from __future__ import annotations

from pathlib import Path

from gmmfr.backend import Backend, Progress
from gmmfr.cli_support import UsageFailure
from gmmfr.result import NotRunError, Result
from reference.operands import Operands
from reference.problem import Problem


class KernelError(RuntimeError):
    """A kernel broke off: the message is its error; ``traceback`` is that of its process.

    ``refused`` says that the library's phase 1 did not take the call that the kernel made.
    """

    def __init__(self, message: str, traceback: str = "", refused: bool = False) -> None:
        super().__init__(message)
        self.traceback = traceback
        self.refused = refused


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
        """The kernel's result.

        Raises :class:`KernelError` where it breaks off, :class:`NotRunError` where a package that it
        imports is not installed, :class:`UsageFailure` where its file cannot be loaded.
        """
        from gmmfr.kernel_process import run_kernel

        answer = run_kernel(self._path, self._function, operands)
        if "unusable" in answer:
            raise UsageFailure(f"backend {self.name}: {answer['unusable']}")
        if "missing" in answer:
            raise NotRunError(f"the kernel imports {answer['missing']}, which is not installed")
        if "ended" in answer:
            raise KernelError(f"the kernel {answer['ended']}")
        if "failed" in answer:
            raise KernelError(answer["failed"], answer["traceback"], answer["refused"])
        label = f"own kernel ({self._path.name}:{self._function})"
        return Result(self.name, answer["out"], label, answer["seconds"])

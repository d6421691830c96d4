"""What every backend is: a name, a reason not to run, and a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from gmmfr.result import Result
from reference.operands import Operands
from reference.problem import Problem

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

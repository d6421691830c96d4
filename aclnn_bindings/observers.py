"""Who wants to see runs, to record them: a plan tells every observer when its result is read, or it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reference.problem import Problem

if TYPE_CHECKING:
    from aclnn_bindings.libraries import Library
    from aclnn_bindings.sources import Array, DeviceAddress


@dataclass(frozen=True)
class FinishedRun:
    """One run of a plan: the call as its maker described it, what it read, and what it gave.

    ``inputs_intact`` is False where x1 was the caller's own device memory and the kernel has overwritten it.
    """

    problem: Problem
    sources: Mapping[str, Array | DeviceAddress]
    result: Any
    library: Library
    seconds: float
    inputs_intact: bool


@dataclass(frozen=True)
class FailedRun:
    """A call that the library or the device broke off with ``error``.

    ``inputs_readable`` is False where inputs are the caller's own device memory and the device has failed:
    reading there fails, too, or waits for what does not end.
    """

    problem: Problem
    sources: Mapping[str, Array | DeviceAddress]
    error: Exception
    library: Library
    inputs_readable: bool


Observer = Callable[["FinishedRun | FailedRun"], None]
_observers: list[Observer] = []


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call ``observer`` with every run whose result is read or that fails, in any thread, while open."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def observed() -> bool:
    """Whether anybody wants to see runs."""
    return bool(_observers)


def tell(run: FinishedRun | FailedRun) -> None:
    """Tell every observer of ``run``."""
    for observer in tuple(_observers):
        observer(run)

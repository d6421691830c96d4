"""The face of the project: run the operator on any backend, compare, report.

    import gmmfr
    gmmfr.run(operands, backend="simulator").out
    gmmfr.ab(operands, a="auto", b="pypto").verdict

Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmmfr.ab_check import AbReport, ab
    from gmmfr.backends import BACKENDS
    from gmmfr.loading import load_call
    from gmmfr.recording import Recording, record
    from gmmfr.replaying import ReplayReport, replay
    from gmmfr.result import NotRunError, Result
    from gmmfr.running import run
    from gmmfr.shrinking import Shrunk, shrink

_HOME = {
    "AbReport": "ab_check",
    "ab": "ab_check",
    "BACKENDS": "backends",
    "load_call": "loading",
    "Recording": "recording",
    "record": "recording",
    "ReplayReport": "replaying",
    "replay": "replaying",
    "NotRunError": "result",
    "Result": "result",
    "run": "running",
    "Shrunk": "shrinking",
    "shrink": "shrinking",
}

__all__ = [
    "BACKENDS",
    "AbReport",
    "NotRunError",
    "Recording",
    "ReplayReport",
    "Result",
    "Shrunk",
    "__version__",
    "ab",
    "load_call",
    "record",
    "replay",
    "run",
    "shrink",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gmmfr' has no attribute {name!r}")
    value = getattr(import_module(f"gmmfr.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

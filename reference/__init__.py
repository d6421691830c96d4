"""What is true about the operator, in pure Python and NumPy.

Number formats, platforms, :class:`Problem` and :class:`Operands`, the validator, the golden, the
comparator, the named cases.  Names are loaded when first used, so that validating a problem file
imports neither NumPy nor ml_dtypes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reference.bundle import read_bundle, write_bundle
    from reference.cases import CASES, make_case
    from reference.compare import Comparison, compare
    from reference.golden import Golden, golden
    from reference.operands import Operands
    from reference.problem import Attributes, Problem, ProblemError, TensorSpec
    from reference.validate import InvalidProblemError, Report, Violation, validate

_HOME = {
    "read_bundle": "bundle",
    "write_bundle": "bundle",
    "CASES": "cases",
    "make_case": "cases",
    "Comparison": "compare",
    "compare": "compare",
    "Golden": "golden",
    "golden": "golden",
    "Operands": "operands",
    "Attributes": "problem",
    "Problem": "problem",
    "ProblemError": "problem",
    "TensorSpec": "problem",
    "InvalidProblemError": "validate",
    "Report": "validate",
    "Violation": "validate",
    "validate": "validate",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'reference' has no attribute {name!r}")
    # import_module binds a submodule of the same name here; the function must win.
    value = getattr(import_module(f"reference.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

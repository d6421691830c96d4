"""What a comparison says: the verdict and the numbers beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Position:
    """One element: where, both values, the allowed difference and the difference in units of it.

    ``bound`` is 0 where both must be equal.  ``rows`` are the rows of x1 that were added into this row of
    out, ``experts`` theirs (the first 16).
    """

    row: int
    column: int
    a: float
    b: float
    bound: float
    ratio: float
    rows: tuple[int, ...] = ()
    experts: tuple[int, ...] = ()

    @property
    def distance(self) -> str:
        """The difference in units of the allowed one, in words; ``must be equal`` where none is allowed."""
        return f"{self.ratio:.3g} × the bound {self.bound:.3g}" if self.bound else "must be equal"

    def to_json(self) -> dict[str, Any]:
        """The element as JSON, with the float32 bit patterns of both values."""
        value = {f.name: json_number(getattr(self, f.name)) for f in fields(self)}
        value["rows"], value["experts"] = list(self.rows), list(self.experts)
        return {**value, "a_bits": float32_bits(self.a), "b_bits": float32_bits(self.b)}


@dataclass(frozen=True)
class Errors:
    """Errors of one result against the golden, over finite elements.

    ``max_relative`` and ``mean_relative`` of |error| / |golden| where that is not zero; ``rms`` is the root
    mean square of the error over that of the golden.
    """

    max_relative: float
    mean_relative: float
    rms: float


@dataclass(frozen=True)
class Comparison:
    """The verdict on two results of one call.

    ``verdict`` is ``PASS`` or ``FAIL``; ``mismatches`` of ``count`` elements differ by more than the
    criterion allows, or are NaN or infinite on one side alone; ``match_ratio`` is the share of the others.
    ``max_ratio`` is the largest difference in units of the allowed one: the factor that would have passed.
    ``outside_1e_3`` counts elements outside rtol = atol = 1e-3, ``nonfinite`` those that are NaN or infinite
    on either side, ``unwritten`` those of ``a`` or ``b`` that still hold the sentinel.  ``errors`` are those
    of ``a`` and ``b`` against the golden: None for the golden itself.  ``nan`` and ``infinite`` count the
    elements of ``a`` and of ``b`` that are NaN, and infinite in float32.
    """

    a: str
    b: str
    verdict: str
    criterion: str
    count: int
    mismatches: int
    max_abs: float
    max_rel: float
    max_ratio: float
    outside_1e_3: int
    nonfinite: int
    worst: tuple[Position, ...] = field(default_factory=tuple)
    reason: str | None = None
    match_ratio: float = 0.0
    unwritten: int = 0
    errors: tuple[Errors | None, Errors | None] = (None, None)
    nan: tuple[int, int] = (0, 0)
    infinite: tuple[int, int] = (0, 0)

    @property
    def remedy(self) -> str:
        """What would have passed, in words: how much wider a bound, or none."""
        if np.isfinite(self.max_ratio):
            return f"a bound {self.max_ratio:.3g} times as wide would have passed"
        beyond = [position for position in self.worst if not np.isfinite(position.ratio)]
        if beyond and all(not position.bound for position in beyond):
            return "no bound passes: what leaves no room for rounding must be equal"
        return "no bound passes"

    @property
    def error_ratio(self) -> Errors | None:
        """Errors of ``a`` over errors of ``b``: the double benchmark; None where one is the golden."""
        a, b = self.errors
        if a is None or b is None:
            return None
        return Errors(*(quotient(x, y) for x, y in zip(_numbers(a), _numbers(b), strict=True)))

    def to_json(self) -> dict[str, Any]:
        """The entry of ``comparisons`` in the command line's JSON."""
        value = {f.name: json_number(getattr(self, f.name)) for f in fields(self) if f.name not in _NESTED}
        value["worst"] = [position.to_json() for position in self.worst]
        named = {"a": self.errors[0], "b": self.errors[1], "ratio": self.error_ratio}
        value["errors"] = {
            name: None if errors is None else {key: json_number(v) for key, v in asdict(errors).items()}
            for name, errors in named.items()
        }
        return value


_NESTED = ("worst", "errors")


def _numbers(errors: Errors) -> tuple[float, float, float]:
    return errors.max_relative, errors.mean_relative, errors.rms


def quotient(x: float, y: float) -> float:
    """x / y; 1 where both are 0."""
    return x / y if y else (1.0 if x == 0 else float("inf"))


def json_number(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become strings."""
    return repr(value) if isinstance(value, float) and not np.isfinite(value) else value


def float32_bits(value: float) -> str:
    """The bit pattern of ``value`` in float32, in hexadecimal."""
    with np.errstate(over="ignore", invalid="ignore"):
        return f"0x{int(np.float32(value).view(np.uint32)):08x}"

"""Single values of a problem file: a wrong one raises :class:`ProblemError` with its name, what was expected
and what came."""

from __future__ import annotations

from typing import Any


class ProblemError(ValueError):
    """A description that is not a problem at all: unknown key, wrong type, values of another length."""


def default_to(value: Any, default: Any) -> Any:
    """``value``, or ``default`` where it is null or left out."""
    return default if value is None else value


def read_integer(value: Any, what: str, minimum: int = -(2**63)) -> int:
    """A 64-bit integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value < 2**63:
        raise ProblemError(
            f"{what}: expected a 64-bit integer{' ≥ 0' if minimum == 0 else ''}, got {value!r}"
        )
    return value


def read_number(value: Any, what: str) -> float:
    """A number that a float holds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProblemError(f"{what}: expected a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ProblemError(f"{what}: expected a number that a float holds, got one beyond 1e308") from None


def read_boolean(value: Any, what: str) -> bool:
    """True or false; no number stands for either."""
    if not isinstance(value, bool):
        raise ProblemError(f"{what}: expected true or false, got {value!r}")
    return value


def read_text(value: Any, what: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ProblemError(f"{what}: expected a string, got {value!r}")
    return value


def read_dims(value: Any, what: str, minimum: int = -(2**63)) -> tuple[int, ...]:
    """A list of 64-bit integers, each of at least ``minimum``."""
    if not isinstance(value, (list, tuple)):
        raise ProblemError(f"{what}: expected a list of int, got {value!r}")
    return tuple(read_integer(item, f"{what}[{axis}]", minimum) for axis, item in enumerate(value))


def read_tuning_config(value: Any, what: str) -> tuple[int, ...] | None:
    """The elements of tuning_config, or null."""
    return None if value is None else read_dims(value, what)

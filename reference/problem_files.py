"""Problem files: one call or a list of calls as JSON, with host values where known; without NumPy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reference.problem import Problem, ProblemError
from reference.problem_values import read_integer

#: Arguments whose host values a problem file may hold.
VALUE_KEYS = ("group_list", "row_index")


def read_values(value: Any, problem: Problem) -> dict[str, list[int]]:
    """Read the optional ``values`` of a problem object: host values of group_list and row_index."""
    raw = value.get("values")
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise ProblemError(f"values: expected an object, got {type(raw).__name__}")
    unknown = sorted(set(raw) - set(VALUE_KEYS))
    if unknown:
        raise ProblemError(f"values: unknown key {unknown[0]!r}; known: {', '.join(VALUE_KEYS)}")
    values: dict[str, list[int]] = {}
    for name, entry in raw.items():
        if entry is None:
            continue
        if not isinstance(entry, list):
            raise ProblemError(f"values {name}: expected a list of int, got {type(entry).__name__}")
        values[name] = [read_integer(item, f"values {name}[{at}]") for at, item in enumerate(entry)]
        spec = problem.arguments[name]
        if spec is None or spec.size != len(entry):
            held = "null" if spec is None else f"{spec.size} long"
            raise ProblemError(f"values {name}: {len(entry)} given, the argument is {held}")
    return values


def read_problems(text: str) -> tuple[list[tuple[Problem, dict[str, list[int]]]], bool]:
    """Read a problem file's text: the problems with their values, and whether it was a list."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"not JSON: {error}") from None
    entries = document if isinstance(document, list) else [document]
    problems = []
    for position, entry in enumerate(entries):
        try:
            problem = Problem.from_json(entry)
            problems.append((problem, read_values(entry, problem)))
        except ProblemError as error:
            where = f"problem {position}: " if isinstance(document, list) else ""
            raise ProblemError(f"{where}{error}") from None
    return problems, isinstance(document, list)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")

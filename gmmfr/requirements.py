"""Installed Python packages, and whether they are what another package requires.

The few forms of a requirement that packages here use; ``pip check`` knows them all.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from importlib import metadata

_REQUIREMENT = re.compile(r"(?P<package>[\w.-]+)\s*\(?(?P<clauses>[<>=!~][^;)]*)?\)?\s*(?:;(?P<marker>.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_PYTHON = re.compile(r"python_version\s*([<>=!]+)\s*['\"]([\d.]+)['\"]")
_CLAUSE = re.compile(r"(==|!=|>=|<=|~=|>|<)\s*([\w.+!-]+?)(\.\*)?$")


@dataclass(frozen=True)
class Requirement:
    """``package`` within ``clauses``, for an ``extra`` or always; ``applies`` to this Python."""

    package: str
    clauses: str
    extra: str | None
    applies: bool


def installed_version(package: str) -> str | None:
    """The version of a Python package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def requirements(package: str) -> list[Requirement]:
    """What an installed package requires; nothing where it is not installed."""
    try:
        lines = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []
    return [read_requirement(line) for line in dict.fromkeys(lines)]


def read_requirement(line: str) -> Requirement:
    """Read a ``Requires-Dist`` line.  Of its markers only the extra and Python's version are looked at."""
    found = _REQUIREMENT.match(line)
    if found is None:
        raise ValueError(f"requirement: expected a package with its versions, got {line!r}")
    marker = found["marker"] or ""
    extra, python = _EXTRA.search(marker), _PYTHON.search(marker)
    applies = python is None or satisfies(platform.python_version(), f"{python[1]}{python[2]}")
    return Requirement(
        found["package"], (found["clauses"] or "").strip(), extra[1] if extra else None, applies
    )


def satisfies(version: str, clauses: str) -> bool:
    """Whether ``version`` is within ``clauses``: ``==2.13.0.*``, or ``>=1.26,<3``; none hold for all."""
    return all(_holds(version, clause.strip()) for clause in clauses.split(",") if clause.strip())


def _holds(version: str, clause: str) -> bool:
    found = _CLAUSE.match(clause)
    if found is None:
        raise ValueError(f"version clause: expected == != >= <= ~= > or < with a version, got {clause!r}")
    operator, wanted, star = found[1], release(found[2]), bool(found[3])
    have, want = _padded(release(version), wanted)
    begins = have[: len(wanted)] == wanted
    same = begins if star else have == want and _suffix(version) == _suffix(found[2])
    return {
        "==": same,
        "!=": not same,
        ">=": have >= want,
        "<=": have <= want,
        "~=": have >= want and have[: len(wanted) - 1] == wanted[:-1],
        ">": have > want,
        "<": have < want,
    }[operator]


def is_older(version: str, first: str) -> bool:
    """Whether ``version`` comes before ``first`` by its numbers: 8.2.RC1 does before 8.3.RC1."""
    have, want = _padded(release(version), release(first))
    return have < want


def release(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (8, 3) of ``8.3.RC1``, (2, 13, 0) of ``2.13.0+cpu``."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _suffix(version: str) -> str:
    """What follows the numbers, without the local part: ``rc1``."""
    return re.sub(r"^[\d.]+", "", version.partition("+")[0])


def _padded(one: tuple[int, ...], two: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    length = max(len(one), len(two))
    return one + (0,) * (length - len(one)), two + (0,) * (length - len(two))

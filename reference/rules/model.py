"""What a rule is: one row of the table, the finding it makes, and how messages write shapes.

A check gets a :class:`~reference.rules.call.Call` and returns None where nothing is wrong, findings where
something is, or :class:`Unchecked` where an earlier fault leaves nothing to judge.  Text is built only for
findings, so that a clean call costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from reference.formats import FORMATS
from reference.problem import compact_strides

if TYPE_CHECKING:
    from reference.problem import TensorSpec
    from reference.rules.call import Call

Level = Literal["rejected", "hazard", "undocumented", "warning"]
#: Where a rule stands in phase 1: entry, preparation, the platform's checker, tiling; or beyond it.
Stage = Literal["entry", "prepare", "checker", "tiling", "beyond", "values"]
Path = Literal["w4a8", "mx", "mxa8w4", "pertoken"]

W4A8: tuple[Path, ...] = ("w4a8",)
MX: tuple[Path, ...] = ("mx",)
MXA8W4: tuple[Path, ...] = ("mxa8w4",)
PERTOKEN: tuple[Path, ...] = ("pertoken",)
ON_950: tuple[Path, ...] = ("mx", "mxa8w4", "pertoken")
EVERYWHERE: tuple[Path, ...] = (*W4A8, *ON_950)

#: Paths as a reader knows them.
PATH_TITLES: dict[Path, str] = {
    "w4a8": "Atlas A2/A3 (W4A8)",
    "mx": "Ascend 950 (MXFP8, MXFP4)",
    "mxa8w4": "Ascend 950 (MxA8W4)",
    "pertoken": "Ascend 950 (FP8 per token)",
}


class Finding(NamedTuple):
    """One broken place: which argument or attribute, what was expected, what came, how to fix it."""

    argument: str
    expected: str
    got: str
    hint: str = ""


class Unchecked(NamedTuple):
    """A check that an earlier fault made impossible, and why."""

    reason: str


Findings = Iterable[Finding] | Unchecked | None
Check = Callable[["Call"], Findings]


@dataclass(frozen=True)
class Rule:
    """One row of the rule table.

    ``topic`` is the second word of the message ("shape" in "scale shape: expected ..."), ``status`` what
    phase 1 returns when this rule alone is broken (0 beyond the vendor's checks), ``source`` who says so,
    ``importance`` the place in a list of violations (lower is first).
    """

    id: str
    title: str
    topic: str
    level: Level
    status: int
    source: str
    paths: tuple[Path, ...]
    stage: Stage
    check: Check
    importance: int = 50


def unknown(call: Call, *facts: str) -> Unchecked:
    """Say which of ``facts`` (m, k, n, e, batch) the call does not tell, and whose fault it is."""
    missing = [name for name in facts if getattr(call, name) is None]
    owners = {"m": "x1", "k": "x1", "n": "x2", "e": "x2", "k2": "x2", "batch": "out"}
    held = sorted({owners[name] for name in missing})
    faults = [
        f"{name} is null" if getattr(call, name) is None else f"{name} has a wrong rank" for name in held
    ]
    return Unchecked(
        f"{', '.join('k of x2' if name == 'k2' else name for name in missing)} unknown: {', '.join(faults)}"
    )


def show(dims: Iterable[int]) -> str:
    """A shape as Python writes it: ``(4, 32)``, ``(4,)``."""
    return str(tuple(dims))


def describe(spec: TensorSpec) -> str:
    """Dtype, format and shape of an argument; bytes, strides, offset and storage where they differ."""
    fmt = FORMATS[spec.dtype]
    text = f"{spec.dtype} {spec.format} {show(spec.shape)}"
    if fmt.bits == 4 and spec.shape:
        text += f" in {show((*spec.shape[:-1], (spec.shape[-1] + 1) // 2))} bytes"
    if spec.strides is not None and spec.strides != compact_strides(spec.shape):
        text += f" strides {show(spec.strides)}"
    if spec.offset:
        text += f" offset {spec.offset}"
    if spec.storage_shape is not None and spec.storage_shape != spec.shape:
        text += f" storage {show(spec.storage_shape)}"
    return text


def describe_weight(call: Call) -> str:
    """x2 as given and the (e, k, n) that the operator reads from it."""
    text = describe(call.x2) if call.x2 is not None else "null"
    if call.e is None:
        return text
    kind = "INT4 " if call.packed else ""
    return f"{text} = {kind}e {call.e}, k {call.k2}, n {call.n}"


def one(argument: str, expected: str, got: str, hint: str = "") -> tuple[Finding]:
    """A single finding."""
    return (Finding(argument, expected, got, hint),)

"""Makers of the rows that many arguments share: dtype, rank, shape and format rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reference.rules.model import (
    Check,
    Finding,
    Findings,
    Path,
    Rule,
    Stage,
    Unchecked,
    describe,
    one,
    show,
    unknown,
)
from reference.status import INVALID

if TYPE_CHECKING:
    from reference.problem import TensorSpec
    from reference.rules.call import Call

Hint = str | Callable[["Call", "TensorSpec"], str]

CHECKER_ORDER = {"dtype": 30, "rank": 40, "shape": 50, "format": 60}


def text_of(hint: Hint, call: Call, spec: TensorSpec) -> str:
    """A hint that may depend on the call."""
    return hint if isinstance(hint, str) else hint(call, spec)


def dtype_rule(
    argument: str, allowed: tuple[str, ...], paths: tuple[Path, ...], source: str, hint: Hint = "", **row: Any
) -> Rule:
    """``argument`` has one of the ``allowed`` dtypes; a null argument passes."""
    names = " or ".join(part for part in (", ".join(allowed[:-1]), allowed[-1]) if part)

    def check(call: Call) -> Findings:
        spec = getattr(call, argument)
        if spec is None or spec.dtype in allowed:
            return None
        return one(argument, names, spec.dtype, text_of(hint, call, spec))

    return _rule(f"{argument}-dtype", f"{argument} is {names}", "dtype", source, paths, check, row)


def rank_rule(
    argument: str, form: str, paths: tuple[Path, ...], source: str, hint: Hint = "", **row: Any
) -> Rule:
    """``argument`` has as many axes as ``form`` names; a null argument passes."""
    rank = len([axis for axis in form.strip("()").split(",") if axis.strip()])
    title = f"{argument} has {axes(rank)} {form}"

    def check(call: Call) -> Findings:
        spec = getattr(call, argument)
        if spec is None or len(spec.shape) == rank:
            return None
        return one(
            argument,
            f"{axes(rank)} {form}",
            f"{axes(len(spec.shape))} {show(spec.shape)}",
            text_of(hint, call, spec),
        )

    return _rule(f"{argument}-rank", title, "rank", source, paths, check, row)


def shape_rule(
    argument: str,
    form: str,
    expected: Callable[[Call], tuple[int, ...]],
    needs: tuple[str, ...],
    paths: tuple[Path, ...],
    source: str,
    hint: Hint = "",
    **row: Any,
) -> Rule:
    """``argument`` has the shape that ``expected`` makes of the extents in ``needs``; null passes."""
    rank = len([axis for axis in form.strip("()").split(",") if axis.strip()])

    def check(call: Call) -> Findings:
        spec = getattr(call, argument)
        if spec is None:
            return None
        shape = spec.shape
        if len(shape) != rank:
            return Unchecked(f"{argument} has a wrong rank")
        for name in needs:
            if getattr(call, name) is None:
                return unknown(call, *needs)
        want = expected(call)
        if shape == want:
            return None
        return one(argument, show(want), show(shape), text_of(hint, call, spec))

    return _rule(f"{argument}-shape", f"{argument} has shape {form}", "shape", source, paths, check, row)


def format_rule(arguments: tuple[str, ...], paths: tuple[Path, ...], source: str, **row: Any) -> Rule:
    """Inputs are not in the NZ layout; every other format is overwritten with ND before the test."""

    def check(call: Call) -> Findings:
        findings = None
        for name in arguments:
            spec = getattr(call, name)
            if spec is not None and spec.format != "ND" and spec.format in ("FRACTAL_NZ", "FRACTAL_NZ_C0_32"):
                findings = [
                    *(findings or ()),
                    Finding(name, "ND", describe(spec), "only x2 may be in the NZ layout"),
                ]
        return findings

    return _rule("input-format", "inputs other than x2 are ND", "format", source, paths, check, row)


def axes(rank: int) -> str:
    """``1 axis``, ``3 axes``."""
    return f"{rank} axis" if rank == 1 else f"{rank} axes"


def experts_by_argument(call: Call) -> str:
    """The expert counts side by side where they differ: which argument is the odd one out."""
    counts = {"x2": call.e}
    for name in ("scale", "bias", "offset", "group_list"):
        spec = getattr(call, name)
        if spec is not None and spec.shape:
            counts[name] = spec.shape[0]
    if len(set(counts.values())) < 2:
        return ""
    return "experts by argument: " + ", ".join(f"{name} {count}" for name, count in counts.items())


def join_hints(*hints: str) -> str:
    """The hints that have something to say, as one sentence."""
    return "; ".join(hint for hint in hints if hint)


def _rule(
    name: str,
    title: str,
    topic: str,
    source: str,
    paths: tuple[Path, ...],
    check: Check,
    row: Mapping[str, Any],
) -> Rule:
    stage: Stage = row.get("stage", "checker")
    return Rule(
        id=row.get("id", name),
        title=row.get("title", title),
        topic=topic,
        level=row.get("level", "rejected"),
        status=row.get("status", INVALID),
        source=source,
        paths=paths,
        stage=stage,
        check=check,
        importance=row.get("importance", CHECKER_ORDER[topic]),
    )


def row(
    name: str,
    title: str,
    topic: str,
    check: Check,
    source: str,
    paths: tuple[Path, ...],
    importance: int,
    **rest: Any,
) -> Rule:
    """One row; level rejected, status 161002 and stage checker unless said otherwise."""
    settings = {"level": "rejected", "status": INVALID, "stage": "checker", **rest}
    return Rule(
        name, title, topic, source=source, paths=paths, check=check, importance=importance, **settings
    )

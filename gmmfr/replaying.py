"""Replay a recorded call: run it here, and compare with what was recorded, by expert."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmfr.ab_check import AbReport
from gmmfr.backend import Progress
from gmmfr.backends import BACKENDS, find_backend
from gmmfr.cli_support import UsageFailure
from gmmfr.loading import load_call, saved_places
from gmmfr.recording import recorded_outputs, versions
from gmmfr.result import Result
from gmmfr.running import run_backend
from reference.comparator import Comparison, compare
from reference.golden_operator import Golden, golden
from reference.location import ExpertShare, locate, spans
from reference.operands import Operands
from reference.validator import validate

#: Backends that call the vendor's ABI: their recordings are replayed on whichever of them is here.
_ABI_BACKENDS = ("aclnn", "simulator", "torch_npu")


@dataclass(frozen=True)
class ReplayReport:
    """What a replay found.

    ``ab`` holds the verdict (``PASS`` where the output is the recorded one, exactly or within rounding),
    where both sides ran, and all comparisons, those with the golden too: these say which side is right, and
    do not change the verdict.  ``message`` is the verdict in words; ``experts`` are the parts of each expert
    that was added into rows that differ; ``changed_versions`` maps a package to its version then and now.
    """

    ab: AbReport
    message: str
    recorded: Mapping[str, Any] = field(default_factory=dict)
    experts: tuple[ExpertShare, ...] = ()
    changed_versions: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``PASS``, ``FAIL``, ``NOT RUN`` or ``INVALID``."""
        return self.ab.verdict

    def to_json(self) -> dict[str, Any]:
        """The JSON of ``gmmfr replay``."""
        return {
            **self.ab.to_json(),
            "message": self.message,
            "recorded": {key: value for key, value in self.recorded.items() if key != "outputs"},
            "experts": [share.to_json() for share in self.experts],
            "changed_versions": {name: list(pair) for name, pair in self.changed_versions.items()},
        }


def replay(
    bundle: Operands | str | os.PathLike[str],
    backend: str | None = None,
    *,
    against: Operands | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ReplayReport:
    """Run a recorded call on ``backend`` and compare its output with the recorded ones.

    ``backend`` defaults to the one that was recorded; for recordings of the vendor's ABI to ``auto``,
    whichever of device and simulator is here.  ``against`` is another recording of the same call: nothing
    runs, and its output takes the place of a new one.  Raises :class:`UsageFailure` where no output is
    recorded, and where the two calls differ.
    """
    if backend is not None and against is not None:
        raise UsageFailure("backend and against: expected one of them; a saved output needs no backend")
    operands = load_call(bundle)
    label = "call" if isinstance(bundle, Operands) else os.fspath(bundle)
    outputs = recorded_outputs(operands)
    if not outputs:
        raise UsageFailure(f"{label}: no output is recorded in it; {_why_no_output(operands, label)}")
    violations = validate(operands.problem, operands.arrays)
    if not violations.ok:
        ab = AbReport("INVALID", label, violations=tuple(violations.violations))
        return ReplayReport(ab, "the validator refuses the recorded call", operands.recorded)
    if against is None:
        chosen = find_backend(backend or _default_backend(operands, outputs, label), operands.problem)
        result = run_backend(chosen, operands)
        versions_now: Mapping[str, str] = versions()
    else:
        result, versions_now = _other_recording(operands, against)
    begin = time.perf_counter()
    truth = golden(operands, magnitudes=True, progress=progress)
    earlier = [_recorded_result(operands, name, out) for name, out in outputs.items()]
    then = {old.backend: old for old in earlier}
    results = {"golden": Result("golden", truth.out, "numpy float64", time.perf_counter() - begin), **then}
    results[result.backend] = result
    report = _judge(operands, label, results, then, result, truth)
    changed = _changed_versions(operands.recorded.get("versions") or {}, versions_now)
    return replace(report, changed_versions=changed)


def _why_no_output(operands: Operands, label: str) -> str:
    error = operands.recorded.get("error")
    if error is None:
        return "gmmfr record or gmmfr.record make such bundles"
    return f"the call failed on {operands.recorded.get('backend')}: {error}; gmmfr ab {label} runs it here"


def recordings(
    bundle: str | os.PathLike[str], against: str | os.PathLike[str] | None = None
) -> dict[str, str]:
    """Where each recorded output of a replay of files is: its name in the report, and that of its file."""
    found = {_recorded_label(name): place for name, place in saved_places(bundle, load_call(bundle)).items()}
    if against is not None:
        label = os.fspath(against)
        places = saved_places(against, load_call(against))
        found.update({f"{name} ({label})": place for name, place in places.items()})
    return found


def _recorded_label(backend: str) -> str:
    return f"{backend} (recorded)"


def _other_recording(
    operands: Operands, against: Operands | str | os.PathLike[str]
) -> tuple[Result, Mapping[str, str]]:
    """The output of another recording of the same call, and the versions that it was made with."""
    other = load_call(against)
    label = "the other call" if isinstance(against, Operands) else os.fspath(against)
    different = _first_difference(operands, other)
    if different:
        raise UsageFailure(f"{label}: {different} differs; expected a recording of the same call")
    outputs = recorded_outputs(other)
    if not outputs:
        raise UsageFailure(f"{label}: no output is recorded in it")
    name, out = next(iter(outputs.items()))
    result = _recorded_result(other, name, out)
    return replace(result, backend=f"{name} ({label})"), other.recorded.get("versions") or {}


def _first_difference(left: Operands, right: Operands) -> str | None:
    """What two calls differ in: platform, batch, an attribute or an input; None where they are the same."""
    for what in ("platform", "batch", "attributes"):
        if getattr(left.problem, what) != getattr(right.problem, what):
            return what
    for name in {**left.arrays, **right.arrays}:
        one, two = left[name], right[name]
        if one is None or two is None or one.shape != two.shape or one.dtype != two.dtype:
            return name
        if np.ascontiguousarray(one).tobytes() != np.ascontiguousarray(two).tobytes():
            return name
    return None


def _judge(
    operands: Operands,
    label: str,
    results: Mapping[str, Result],
    then: Mapping[str, Result],
    now: Result,
    truth: Golden,
) -> ReplayReport:
    pairs: list[Comparison] = []
    if now.output is not None:
        pairs = [
            compare(now.output, old.out, truth, a_name=now.backend, b_name=name) for name, old in then.items()
        ]
    with_golden = [
        compare(result.output, truth.out, truth, a_name=name, b_name="golden")
        for name, result in results.items()
        if name != "golden" and result.output is not None
    ]
    verdict = "PASS"
    if not now.ran:
        verdict = "FAIL" if now.failed else "NOT RUN"
    elif any(pair.verdict == "FAIL" for pair in pairs):
        verdict = "FAIL"
    ab = AbReport(verdict, label, results, (*pairs, *with_golden))
    experts: tuple[ExpertShare, ...] = ()
    message = f"{now.backend}: {now.reason}"
    if now.output is not None:
        old, pair = _most_different(then, pairs)
        if pair.verdict == "FAIL" and old.out.shape == now.output.shape:
            shares = locate(now.output, old.out, truth).experts
            experts = tuple(share for share in shares if share.mismatches)
        message = _describe(pair, now.output, old, now, experts)
    return ReplayReport(ab, message, operands.recorded, experts)


def _most_different(then: Mapping[str, Result], pairs: list[Comparison]) -> tuple[Result, Comparison]:
    found = list(zip(then.values(), pairs, strict=True))
    return max(found, key=lambda entry: (entry[1].verdict == "FAIL", entry[1].max_ratio))


def _describe(
    pair: Comparison, output: NDArray[Any], old: Result, now: Result, experts: tuple[ExpertShare, ...]
) -> str:
    """The verdict in words."""
    before, after = old.device, now.device
    where = f"on {after}" if before == after else f"between {before} and {after}"
    if pair.verdict == "FAIL":
        whole = [share.expert for share in experts if share.tokens_differ == share.tokens]
        touched = whole or [share.expert for share in experts]
        plural = "expert" if len(touched) == 1 else "experts"
        named = f", {plural} {spans(touched)}" if touched else ""
        share = f"{pair.mismatches} of {pair.count} elements"
        return f"operator output changed {where}: max_abs {pair.max_abs:.4g}, {share}{named}; {pair.reason}"
    recorded = old.out
    if output.dtype == recorded.dtype and output.tobytes() == recorded.tobytes():
        return f"operator output unchanged {where}: the same bit for bit"
    differ = int(np.count_nonzero(~((output == recorded) | (np.isnan(output) & np.isnan(recorded)))))
    return (
        f"operator output unchanged {where}, within rounding: {differ} of {pair.count} elements differ, "
        f"max_abs {pair.max_abs:.4g}, at most {pair.max_ratio:.3g} of what is allowed"
    )


def _default_backend(operands: Operands, outputs: Mapping[str, Any], label: str) -> str:
    """The recorded backend; a kernel of the user's own must be named again: no file says what code runs."""
    name = str(operands.recorded.get("backend") or next(iter(outputs)))
    if name not in BACKENDS:
        raise UsageFailure(
            f"{label}: recorded with backend {name!r}, which is none of {', '.join(BACKENDS)}; say with "
            "--backend what to run"
        )
    return "auto" if name in _ABI_BACKENDS else name


def _recorded_result(operands: Operands, name: str, out: NDArray[Any]) -> Result:
    recorded = operands.recorded
    mine = recorded.get("backend") in (None, name)
    device = recorded.get("device") if mine else None
    return Result(
        _recorded_label(name),
        out,
        device or f"{name}, where it was recorded",
        recorded.get("seconds") if mine else None,
    )


def _changed_versions(
    then: Mapping[str, str], now: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    names = sorted({*then, *now}) if then and now else []
    return {name: (then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)}

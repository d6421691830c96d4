"""The validator: what phase 1 will return for a call, every constraint it breaks, and how to fix each.

``status`` is what the vendor's checks return, in their order; the list holds everything that is wrong, also
what the operator accepts and computes into nonsense.  The rules are rows of :mod:`reference.rules`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from reference.problem import INPUTS, Problem, ProblemError
from reference.rules import SEQUENCES, Sequence, bias
from reference.rules.call import Call
from reference.rules.model import Finding, Findings, Level, Rule, Unchecked
from reference.rules.routing import Routing
from reference.status import SUCCESS, status_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_INPUTS = frozenset(INPUTS)
#: Arguments whose values may be lists.
_LISTS = ("group_list", "row_index")
LEVELS: tuple[Level, ...] = ("rejected", "hazard", "undocumented", "warning")
_LEVEL_ORDER = {level: position for position, level in enumerate(LEVELS)}
#: Rules that read e, k or n from x2.
_FROM_X2 = frozenset(
    {
        *(
            "k-match",
            "k-alignment",
            "n-alignment",
            "out-columns",
            "scale-shape",
            "offset-shape",
            "bias-shape",
        ),
        *(
            "group-list-length",
            "shared-columns",
            "nz-storage",
            "documented-n",
            "documented-e",
            "expert-scratch",
        ),
        *("documented-shared-rows", "offsets-32-bit"),
    }
)
_EMPTY_TRUSTED = ("k-positive", "empty")
_EMPTY_HAZARDS = (
    "shared-offset-sign",
    "shared-offset-range",
    "shared-rows",
    "shared-columns",
    "shared-range",
)


class Violation(NamedTuple):
    """One broken rule at one argument or attribute.

    ``status`` is what phase 1 returns when this rule alone is broken: 0 for what it accepts.
    """

    rule: str
    argument: str
    level: Level
    expected: str
    got: str
    hint: str
    source: str
    status: int
    topic: str

    @property
    def message(self) -> str:
        """``scale shape: expected (...), got (...); how to fix it [scale-shape]``."""
        hint = f"; {self.hint}" if self.hint else ""
        topic = f" {self.topic}" if self.topic else ""
        return f"{self.argument}{topic}: expected {self.expected}, got {self.got}{hint} [{self.rule}]"

    def __str__(self) -> str:
        return f"{self.level}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The object of a report's JSON."""
        return {name: value for name, value in self._asdict().items() if name != "topic"}


class InvalidProblemError(ValueError):
    """The call breaks rules; ``report`` holds them all."""

    def __init__(self, report: Report, violations: tuple[Violation, ...]) -> None:
        self.report = report
        lines = [violation.message for violation in violations]
        head = (
            f"phase 1 returns {report.status} {report.status_name}"
            if report.status
            else "phase 1 accepts this call"
        )
        count = "1 violation" if len(lines) == 1 else f"{len(lines)} violations"
        super().__init__("\n  ".join([f"{head}; {count}:", *lines]))


class Report(NamedTuple):
    """What :func:`validate` found: ``status``, ``violations`` by importance, ``unchecked`` rules."""

    status: int
    violations: tuple[Violation, ...]
    unchecked: tuple[str, ...]

    def __str__(self) -> str:
        """The status, and one line for each violation and each rule that could not be checked."""
        lines = [f"phase 1 returns {self.status} {self.status_name}"]
        lines += [str(violation) for violation in self.violations] or ["no violation"]
        return "\n  ".join([*lines, *(f"unchecked: {rule}" for rule in self.unchecked)])

    @property
    def status_name(self) -> str:
        """The vendor's enumerator of ``status``."""
        return status_name(self.status)

    @property
    def ok(self) -> bool:
        """Whether nothing is rejected and nothing is a hazard."""
        return self.passes()

    def passes(self, strict: bool = False) -> bool:
        """Like ``ok``; with ``strict`` nothing may be undocumented either."""
        return not self._refused(strict)

    def raise_for_violations(self, strict: bool = False) -> None:
        """Raise :class:`InvalidProblemError` for rejected and hazard, with ``strict`` also undocumented."""
        refused = self._refused(strict)
        if refused:
            raise InvalidProblemError(self, refused)

    def _refused(self, strict: bool) -> tuple[Violation, ...]:
        levels = LEVELS[: 3 if strict else 2]
        return tuple(violation for violation in self.violations if violation.level in levels)

    def to_json(self, strict: bool = False) -> dict[str, Any]:
        """The report as ``gmmfr validate --json`` prints it."""
        return {
            "status": self.status,
            "status_name": self.status_name,
            "ok": self.passes(strict),
            "violations": [violation.to_json() for violation in self.violations],
            "unchecked": list(self.unchecked),
        }


class _Collector:
    """Findings in the order they were made; made only when the first one turns up."""

    def __init__(self) -> None:
        self.status = SUCCESS
        self.entries: dict[tuple[str, str], tuple[Level, int, int, Violation]] = {}
        self.unchecked: dict[str, str] = {}

    def add(self, rule: Rule, found: Findings, counts: bool = True) -> None:
        """Keep the findings of ``rule``; the first rejected rule that ``counts`` decides the status."""
        if isinstance(found, Unchecked):
            self.unchecked.setdefault(rule.id, found.reason)
            return
        for finding in found or ():
            self.put(rule, finding, rule.level, rule.status)
        if counts and rule.level == "rejected" and self.status == SUCCESS:
            self.status = rule.status

    def add_to_empty(self, rule: Rule, found: Findings, empty: str) -> None:
        """Keep what the checker would refuse had the call not been empty."""
        if isinstance(found, Unchecked) or rule.id in _EMPTY_TRUSTED:
            return
        level: Level = "hazard" if rule.id in _EMPTY_HAZARDS else "undocumented"
        for finding in found or ():
            note = f"{finding.hint}; " if finding.hint else ""
            hint = f"{note}phase 1 returns before it tests this: {empty} = 0"
            self.put(rule, finding._replace(hint=hint), level, SUCCESS)

    def put(self, rule: Rule, finding: Finding, level: Level, status: int) -> None:
        argument, expected, got, hint = finding
        violation = Violation(rule.id, argument, level, expected, got, hint, rule.source, status, rule.topic)
        entry = (level, rule.importance, len(self.entries), violation)
        self.entries.setdefault((rule.id, argument), entry)

    def set_aside(self, rules: frozenset[str], reason: str) -> None:
        """Drop what follows from another fault; the status keeps it, for the vendor's order does."""
        for rule, argument in list(self.entries):
            if rule in rules:
                del self.entries[rule, argument]
                self.unchecked.setdefault(rule, reason)

    def report(self) -> Report:
        rows = sorted(self.entries.values(), key=lambda row: (_LEVEL_ORDER[row[0]], row[1], row[2]))
        broken = {rule for rule, _ in self.entries}
        unchecked = tuple(f"{rule}: {why}" for rule, why in self.unchecked.items() if rule not in broken)
        return Report(self.status, tuple(row[3] for row in rows), unchecked)


_CLEAN = Report(SUCCESS, (), ())


def validate(
    problem: Problem, values: Mapping[str, Any] | None = None, *, check_bias: bool = False
) -> Report:
    """Judge one call.

    ``values`` maps arguments to their data: lists of int for ``group_list`` and ``row_index``; for any
    argument NumPy arrays or torch tensors in the device layout (tensors on a device are copied to the host);
    None where nothing is known.  ``check_bias`` also recomputes ``8*sum_k(w*scale)`` from the weights (W4A8,
    one pass over x2).  Never raises for a wrong call; ``ProblemError`` where values do not fit their
    arguments, ``TypeError`` where ``values`` is no mapping.
    """
    if not isinstance(problem, Problem):
        raise TypeError(
            f"problem: expected a Problem, got {type(problem).__name__}; for operands: problem, arrays"
        )
    call = Call(problem)
    sequence = SEQUENCES[call.path]
    if values is not None:
        values = _host_values(values)
    if values:
        call.values = values
        call.routing = Routing(call, values)
    collector: _Collector | None = None
    for check, rule in sequence.before:
        if found := check(call):
            collector = collector or _Collector()
            collector.add(rule, found)
    if call.empty:
        collector = _judge_empty(call, sequence.after, collector or _Collector())
    else:
        for check, rule in sequence.after:
            if found := check(call):
                collector = collector or _Collector()
                collector.add(rule, found)
    for check, rule in sequence.beyond:
        if found := check(call):
            collector = collector or _Collector()
            collector.add(rule, found)
    if values:
        for check, rule in _value_checks(sequence, values, check_bias):
            if found := check(call):
                collector = collector or _Collector()
                collector.add(rule, found)
    if collector is None:
        return _CLEAN
    if call.x2 is not None and len(call.x2.shape) != 3:
        collector.set_aside(_FROM_X2, "x2 has a wrong rank")
    if call.path == "mxa8w4" and not call.x2_transposed:
        collector.set_aside(_FROM_X2, "x2 is not transposed")
    return collector.report()


def _host_values(values: Any) -> Mapping[str, Any]:
    """``values`` with torch tensors as arrays on the host."""
    if not isinstance(values, Mapping):
        raise TypeError(
            f"values: expected a mapping of arguments to their data, got {type(values).__name__}; "
            'for example {"group_list": [3, 5]}'
        )
    if not values.keys() <= _INPUTS:
        unknown = sorted(map(str, set(values) - _INPUTS))[0]
        raise ProblemError(f"values: argument {unknown!r} is unknown; known: {', '.join(INPUTS)}")
    for name, value in values.items():
        if name not in _LISTS and value is not None and not hasattr(value, "dtype"):
            raise ProblemError(
                f"values {name}: expected a NumPy array or a torch tensor, got {type(value).__name__}"
            )
    if "torch" not in sys.modules:
        return values
    from reference.torch_tensors import host_copy, is_tensor  # imports NumPy

    return {name: host_copy(name, value) if is_tensor(value) else value for name, value in values.items()}


def _value_checks(
    sequence: Sequence, values: Mapping[str, Any], check_bias: bool
) -> Iterable[tuple[Any, Rule]]:
    """Rules on group_list and row_index always, rules on arrays where there are arrays."""
    yield from sequence.routing
    if any(hasattr(value, "dtype") for value in values.values()):
        yield from sequence.arrays
        if check_bias:
            yield bias.RULE.check, bias.RULE


def _judge_empty(call: Call, checks: Iterable[tuple[Any, Rule]], collector: _Collector) -> _Collector:
    """An empty call on Ascend 950 returns success before the checker: what that would refuse counts less."""
    for check, rule in checks:
        if rule.stage == "checker" and (found := check(call)):
            collector.add_to_empty(rule, found, call.empty)
    return collector

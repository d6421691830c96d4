"""Every rule by its whole text: the calls of messages.txt, their status, and all that is said of them.

A block of messages.txt is a call in the builders of conftest.py, the status of phase 1, and one line per
violation (``level: message``) or check that could not be made.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from reference.problem import Problem
from reference.rules import DESCRIPTOR_RULES
from reference.rules.call import Call
from reference.rules.model import Rule, Unchecked
from reference.validator import validate

BLOCKS = {
    block.splitlines()[0]: [line.strip() for line in block.splitlines()[1:]]
    for block in Path(__file__).with_name("messages.txt").read_text(encoding="utf-8").split("\n\n")
    if block.strip() and not block.strip().startswith("#")
}


def make(calls: SimpleNamespace, text: str) -> Problem:
    problem: Problem = eval(text, vars(calls))
    return problem


@pytest.mark.parametrize("text", BLOCKS)
def test_status_and_whole_text(calls: SimpleNamespace, text: str) -> None:
    report = validate(make(calls, text))
    said = [f"{violation.level}: {violation.message}" for violation in report.violations]
    said += [f"not checked: {line}" for line in report.unchecked]
    assert [str(report.status), *said] == BLOCKS[text]


@pytest.mark.parametrize("text", BLOCKS)
def test_ok_and_strict_follow_from_the_levels(calls: SimpleNamespace, text: str) -> None:
    report = validate(make(calls, text))
    levels = {line.split(":")[0] for line in BLOCKS[text][1:]}
    assert report.ok is not bool(levels & {"rejected", "hazard"})
    assert report.passes(strict=True) is not bool(levels & {"rejected", "hazard", "undocumented"})


@pytest.mark.parametrize("text", BLOCKS)
def test_a_violation_beyond_phase_one_has_status_0(calls: SimpleNamespace, text: str) -> None:
    report = validate(make(calls, text))
    assert all((violation.level == "rejected") == (violation.status != 0) for violation in report.violations)


def describe_row(rule: Rule) -> str:
    return f"{rule.id} ({rule.level} {rule.status}, {'/'.join(rule.paths)})"


def test_every_row_of_the_table_has_a_call_that_breaks_it(calls: SimpleNamespace) -> None:
    broken = set()
    for text in BLOCKS:
        problem = make(calls, text)
        call = Call(problem)
        for rule in DESCRIPTOR_RULES:
            found = rule.check(call) if call.path in rule.paths else None
            if found and not isinstance(found, Unchecked):
                broken.add(describe_row(rule))
    assert sorted({describe_row(rule) for rule in DESCRIPTOR_RULES} - broken) == []

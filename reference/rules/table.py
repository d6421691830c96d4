"""The rule table for readers: rows for ``gmmfr rules`` and the text of docs/rules.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reference.rules.model import EVERYWHERE, ON_950, PATH_TITLES, Rule
from reference.status import status_name

_LEVELS = {
    "rejected": "Phase 1 refuses the call and returns the status.",
    "hazard": "Phase 1 accepts the call, and the result is out of bounds, undefined or not what was asked.",
    "undocumented": "The checks accept it, the documentation page does not offer it. Fails with `--strict`.",
    "warning": "Legal, and often a mistake. Never fails.",
}


def rule_rows(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """One dictionary per row, in the vendor's order."""
    return [
        {
            "rule": rule.id,
            "title": rule.title,
            "level": rule.level,
            "status": rule.status,
            "stage": rule.stage,
            "paths": _where(rule),
            "source": rule.source,
        }
        for rule in rules
    ]


def _where(rule: Rule) -> str:
    if set(rule.paths) == set(EVERYWHERE):
        return "everywhere"
    if set(rule.paths) == set(ON_950):
        return "Ascend 950"
    return ", ".join(PATH_TITLES[path] for path in rule.paths)


def document(rules: Iterable[Rule]) -> str:
    """The page docs/rules.md: one table per level, rows in the order in which phase 1 tests them."""
    rows = rule_rows(rules)
    lines = [
        "# Rules of the validator",
        "",
        "Generated from `reference/rules` by `python -m reference.rules.table`; a test holds it equal.",
        "The predicted status is that of the first rejected rule in the order of a path; empty means 0.",
        "Who says so is in the last column: a check in the vendor's op_api or checkers, tiling or kernels,",
        "or the documentation page. Where they contradict each other, the row names both.",
    ]
    for level, meaning in _LEVELS.items():
        lines += [
            "",
            f"## {level}",
            "",
            meaning,
            "",
            "| rule | requires | where | status | source |",
            "|---|---|---|---|---|",
        ]
        for row in rows:
            if row["level"] == level:
                status = f"{row['status']} {status_name(row['status'])}" if row["status"] else ""
                lines.append(
                    f"| `{row['rule']}` | {row['title']} | {row['paths']} | {status} | {row['source']} |"
                )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write docs/rules.md of this checkout."""
    from pathlib import Path

    from reference.rules import RULES

    page = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
    page.write_text(document(RULES), encoding="utf-8")


if __name__ == "__main__":
    main()

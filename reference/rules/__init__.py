"""The rule table: every check of phase 1 and what lies beyond it, as rows of data in the vendor's order."""

from __future__ import annotations

from typing import NamedTuple

from reference.rules import bias, documentation, entry, hazards, mx, mxa8w4, routing, scales, w4a8, warnings
from reference.rules.model import Check, Path, Rule

#: All rows that descriptors alone decide, in the vendor's order per path.
DESCRIPTOR_RULES: tuple[Rule, ...] = (
    *entry.RULES,
    *w4a8.RULES,
    *mx.PREPARE,
    *mx.RULES,
    *mxa8w4.RULES,
    *hazards.RULES,
    *documentation.RULES,
    *warnings.RULES,
)


#: All rows that need host values.
VALUE_RULES: tuple[Rule, ...] = (*routing.RULES, *scales.RULES, bias.RULE)
RULES: tuple[Rule, ...] = (*DESCRIPTOR_RULES, *VALUE_RULES)


class Sequence(NamedTuple):
    """Checks of one path: before the early return of an empty call, after it, beyond phase 1, on values."""

    before: tuple[tuple[Check, Rule], ...]
    after: tuple[tuple[Check, Rule], ...]
    beyond: tuple[tuple[Check, Rule], ...]
    routing: tuple[tuple[Check, Rule], ...]
    arrays: tuple[tuple[Check, Rule], ...]


def _sequence(path: Path) -> Sequence:
    rows = [rule for rule in DESCRIPTOR_RULES if path in rule.paths]

    def of(*stages: str) -> tuple[tuple[Check, Rule], ...]:
        return tuple((rule.check, rule) for rule in rows if rule.stage in stages)

    def on_values(rules: tuple[Rule, ...]) -> tuple[tuple[Check, Rule], ...]:
        return tuple((rule.check, rule) for rule in rules if path in rule.paths)

    return Sequence(
        of("entry", "prepare"),
        of("checker", "tiling"),
        of("beyond"),
        on_values(routing.RULES),
        on_values(scales.RULES),
    )


SEQUENCES: dict[Path, Sequence] = {path: _sequence(path) for path in ("w4a8", "mx", "mxa8w4", "pertoken")}

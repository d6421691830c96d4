"""Every named case passes the A/B check on the simulator; the largest ones in the long run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference.cases import CASES

LARGE = {"case1", "case2", "case4", "registered2"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LARGE else ()) for name in CASES]
)
def test_named_case_passes(gmmfr: Callable[..., Any], name: str) -> None:
    outcome = gmmfr("ab", name, "-a", "simulator", "--json")
    assert outcome.code == 0, outcome.out
    report = outcome.json
    assert report["verdict"] == "PASS"
    assert report["backends"]["simulator"]["device"].startswith("simulator (Ascend9")
    assert [(c["a"], c["b"], c["mismatches"]) for c in report["comparisons"]] == [("simulator", "golden", 0)]

"""``gmmfr validate``, ``rules`` and ``explain``: exit codes, JSON, what is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reference.rules import RULES
from reference.rules.table import document
from reference.status import STATUSES

ROOT = Path(__file__).parents[2]
Run = Callable[..., Any]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], Path]:
    """Write a JSON problem file."""

    def write_file(value: Any) -> Path:
        path = tmp_path / "problem.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write_file


def test_a_clean_problem_passes(gmmfr: Run, calls: SimpleNamespace, write: Callable[[Any], Path]) -> None:
    outcome = gmmfr("validate", write(calls.mx().to_json()), "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.json == {
        "status": 0,
        "status_name": "ACLNN_SUCCESS",
        "ok": True,
        "violations": [],
        "unchecked": [],
    }


@pytest.mark.parametrize(
    ("changes", "strict", "code"),
    [
        ({}, False, 0),
        ({"bias": None}, False, 1),
        ({"x2": {"offset": 8}}, False, 1),
        ({"k": 1536}, False, 0),
        ({"k": 1536}, True, 1),
        ({"shared": 0}, True, 0),
    ],
    ids=["clean", "rejected", "hazard", "undocumented", "undocumented strict", "warning strict"],
)
def test_exit_code_follows_the_levels(
    gmmfr: Run, calls: SimpleNamespace, write: Callable[[Any], Path], changes: Any, strict: bool, code: int
) -> None:
    path = write(calls.w4a8(**changes).to_json())
    outcome = gmmfr("validate", path, "--json", *(["--strict"] if strict else []))
    assert (outcome.code, outcome.json["ok"]) == (code, code == 0)


def test_a_list_gives_a_list_and_fails_if_one_fails(
    gmmfr: Run, calls: SimpleNamespace, write: Callable[[Any], Path]
) -> None:
    path = write([calls.mx().to_json(), calls.mx(k=0).to_json()])
    outcome = gmmfr("validate", path, "--json")
    assert outcome.code == 1
    assert [report["status"] for report in outcome.json] == [0, 161002]


def test_standard_input_with_values(gmmfr: Run, calls: SimpleNamespace) -> None:
    problem = {
        **calls.mx(m=4, batch=2).to_json(),
        "values": {"group_list": [2, 2], "row_index": [0, -1, 1, 0]},
    }
    outcome = gmmfr("validate", "-", "--json", stdin=json.dumps(problem))
    assert outcome.code == 1
    assert [violation["rule"] for violation in outcome.json["violations"]] == ["row-index-range"]


def test_people_see_status_messages_and_what_was_not_checked(
    gmmfr: Run, calls: SimpleNamespace, write: Callable[[Any], Path]
) -> None:
    outcome = gmmfr("validate", write([calls.w4a8(x1=None).to_json(), calls.mx().to_json()]))
    text = " ".join(outcome.out.split())
    assert "problem 0: Atlas A2, phase 1 returns 161001 ACLNN_ERR_PARAM_NULLPTR: does not pass" in text
    assert "x1: expected a tensor, got null; activations (m, k) [required]" in text
    assert "not checked: k-match: k unknown: x1 is null" in text
    assert "problem 1: Ascend 950, phase 1 returns 0 ACLNN_SUCCESS: passes" in text


def test_a_case_is_checked_by_its_values(gmmfr: Run) -> None:
    outcome = gmmfr("validate", "c9", "--json")
    assert outcome.code == 0
    assert {violation["rule"] for violation in outcome.json["violations"]} == {"e8m0-nan-padding"}


def test_a_bundle_is_checked_by_its_values(gmmfr: Run, tmp_path: Path) -> None:
    bundle = tmp_path / "w1.safetensors"
    assert gmmfr("cases", "--write", "w1", bundle).code == 0
    outcome = gmmfr("validate", bundle, "--json", "--bias")
    assert (outcome.code, outcome.json["status"]) == (0, 0)
    assert {violation["rule"] for violation in outcome.json["violations"]} >= {"documented-k", "documented-n"}
    assert "bias-differs" not in {violation["rule"] for violation in outcome.json["violations"]}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "not JSON"),
        ({"platform": "atlas_a2", "arguments": {"x3": None}}, "unknown key 'x3'"),
        ({"platform": "atlas_a2", "attributes": {"dtyp": 0}}, "unknown key 'dtyp'"),
        ({"platform": "atlas_a1"}, "platform 'atlas_a1' is unknown"),
        ({"arguments": {}}, "key 'platform' is missing"),
        ([{"platform": "atlas_a2"}, 7], "problem 1: problem: expected an object, got int"),
    ],
)
def test_what_is_no_problem_is_a_usage_error(
    gmmfr: Run, write: Callable[[Any], Path], content: Any, complaint: str
) -> None:
    outcome = gmmfr("validate", write(content), "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert complaint in outcome.err


def test_values_of_another_length_are_a_usage_error(
    gmmfr: Run, calls: SimpleNamespace, write: Callable[[Any], Path]
) -> None:
    outcome = gmmfr("validate", write({**calls.mx().to_json(), "values": {"group_list": [1]}}))
    assert outcome.code == 2
    assert "values group_list: 1 given, the argument is 2 long" in outcome.err


@pytest.mark.parametrize("source", ["missing.json", "no/such/file", "no_such_case", "missing.safetensors"])
def test_what_cannot_be_found_is_a_usage_error(gmmfr: Run, source: str) -> None:
    outcome = gmmfr("validate", source, "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert source in outcome.err


def test_bias_needs_the_weights(gmmfr: Run, calls: SimpleNamespace, write: Callable[[Any], Path]) -> None:
    outcome = gmmfr("validate", write(calls.w4a8().to_json()), "--bias")
    assert (outcome.code, outcome.err.strip()) == (
        2,
        "gmmfr validate: --bias reads the weights: give a bundle or a case",
    )


HEAVY = ("numpy", "torch", "cffi", "_cffi_backend", "ml_dtypes", "safetensors", "rich", "aclnn_bindings")


def test_a_json_problem_loads_nothing_heavy(calls: SimpleNamespace, write: Callable[[Any], Path]) -> None:
    problem = {
        **calls.mx(m=4, batch=2).to_json(),
        "values": {"group_list": [2, 2], "row_index": [0, 1, 1, 0]},
    }
    program = (
        "import sys; from gmmfr.cli import main; sys.argv = ['gmmfr', *sys.argv[1:]]\n"
        "try: main()\n"
        f"finally: print(sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "validate", str(write(problem)), "--json"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr.strip()) == (0, "[]")


def test_every_rule_can_be_looked_up(gmmfr: Run) -> None:
    rows = gmmfr("rules", "--json").json
    assert [row["rule"] for row in rows] == [rule.id for rule in RULES]
    one = gmmfr("rules", "K-Alignment", "--json")
    assert one.code == 0
    assert one.json == [
        {
            "rule": "k-alignment",
            "title": "k is a multiple of 64 above 128",
            "level": "rejected",
            "status": 161002,
            "stage": "checker",
            "paths": "Atlas A2/A3 (W4A8)",
            "source": "op_api CheckParams (A2/A3); the documentation page allows k = 2048 only",
        }
    ]
    assert "k is a multiple of 64 above 128" in gmmfr("rules", "k-alignment").out


def test_an_unknown_rule_names_its_neighbours(gmmfr: Run) -> None:
    outcome = gmmfr("rules", "scale-shap")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.strip().startswith("gmmfr rules: rule 'scale-shap' is unknown; near: scale-shape")


@pytest.mark.parametrize("code", ["161002", "ACLNN_ERR_PARAM_INVALID", "aclnn_err_param_invalid"])
def test_a_code_is_explained_by_number_and_by_name(gmmfr: Run, code: str) -> None:
    found = gmmfr("explain", code, "--json")
    assert found.code == 0
    assert (found.json["code"], found.json["name"]) == (161002, "ACLNN_ERR_PARAM_INVALID")
    assert {"scale-shape", "x1-dtype", "k-match"} <= set(found.json["rules"])
    assert "out-rows" in gmmfr("explain", "561103", "--json").json["rules"]
    assert STATUSES[161002].cause.split(". ")[0] in " ".join(gmmfr("explain", code).out.split())


def test_a_device_fault_points_at_the_values(gmmfr: Run) -> None:
    text = " ".join(gmmfr("explain", "507035").out.split())
    assert text.startswith("507035 ACL_ERROR_RT_VECTOR_CORE_EXCEPTION: a vector core raised an exception")
    assert "a row_index outside 0..batch-1" in text


@pytest.mark.parametrize("code", ["4711", "nonsense", "-1"])
def test_an_unknown_code_is_a_usage_error(gmmfr: Run, code: str) -> None:
    assert gmmfr("explain", "--", code).code == 2


def test_the_page_of_rules_is_the_table() -> None:
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == document(RULES)

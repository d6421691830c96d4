"""What a report is: JSON, exceptions, the order of violations, calls that are no calls."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from reference.problem import Problem, ProblemError, TensorSpec
from reference.rules import RULES
from reference.validator import InvalidProblemError, validate


def test_json_has_the_fixed_keys(calls: SimpleNamespace) -> None:
    document = json.loads(json.dumps(validate(calls.mx(scale=(2, 64, 2, 2))).to_json()))
    assert document == {
        "status": 161002,
        "status_name": "ACLNN_ERR_PARAM_INVALID",
        "ok": False,
        "violations": [
            {
                "rule": "scale-shape",
                "argument": "scale",
                "level": "rejected",
                "expected": "(2, 2, 64, 2)",
                "got": "(2, 64, 2, 2)",
                "hint": "x2 is not transposed, so the scale must not be either",
                "source": "950 checker; an older documentation page shows the transposed layout only",
                "status": 161002,
            }
        ],
        "unchecked": [],
    }


def test_strict_json_says_not_ok_where_something_is_undocumented(calls: SimpleNamespace) -> None:
    report = validate(calls.w4a8(k=1536))
    assert (report.to_json()["ok"], report.to_json(strict=True)["ok"]) == (True, False)


def test_the_error_names_status_and_all_refused_violations(calls: SimpleNamespace) -> None:
    report = validate(calls.w4a8(bias=None, logit="int64", k=1536))
    with pytest.raises(InvalidProblemError) as caught:
        report.raise_for_violations()
    assert caught.value.report is report
    assert str(caught.value) == (
        "phase 1 returns 161001 ACLNN_ERR_PARAM_NULLPTR; 2 violations:\n"
        "  bias: expected a tensor, got null; required for W4A8: not the model's bias but 8*sum_k(w*scale), "
        "(e, n); make_bias() computes it [required]\n"
        "  logit dtype: expected float32, got int64; one float32 factor per row of x1 [logit-dtype]"
    )


def test_a_report_reads_as_lines(calls: SimpleNamespace) -> None:
    report = validate(calls.mx(scale=(2, 64, 2, 2), logit=None, x1=(8,)))
    assert str(report).startswith("phase 1 returns 161001 ACLNN_ERR_PARAM_NULLPTR\n  rejected: ")
    lines = str(report).split("\n  ")
    assert lines[1:] == [
        *(f"{violation.level}: {violation.message}" for violation in report.violations),
        *(f"unchecked: {entry}" for entry in report.unchecked),
    ]
    assert len(report.violations) > 1
    assert report.unchecked
    assert "Violation(" not in str(report)


def test_a_violation_is_one_line(calls: SimpleNamespace) -> None:
    violation = validate(calls.mx(scale=(2, 64, 2, 2))).violations[0]
    assert str(violation) == (
        "rejected: scale shape: expected (2, 2, 64, 2), got (2, 64, 2, 2); x2 is not transposed, so the "
        "scale must not be either [scale-shape]"
    )
    assert str(validate(calls.mx())) == "phase 1 returns 0 ACLNN_SUCCESS\n  no violation"


def test_a_hazard_is_raised_although_phase_one_accepts(calls: SimpleNamespace) -> None:
    with pytest.raises(InvalidProblemError, match=r"^phase 1 accepts this call; 1 violation:\n  x2 offset: "):
        validate(calls.w4a8(x2={"offset": 8})).raise_for_violations()


def test_strict_raises_for_the_undocumented_and_nothing_for_warnings(calls: SimpleNamespace) -> None:
    undocumented = validate(calls.w4a8(k=1536))
    undocumented.raise_for_violations()
    with pytest.raises(InvalidProblemError, match="documented-k"):
        undocumented.raise_for_violations(strict=True)
    validate(calls.w4a8(shared=0)).raise_for_violations(strict=True)


def test_the_wrong_family_comes_first_then_nulls_then_the_rest() -> None:
    """The shapes of a public report: W4A16 inputs, hours of permutations against one code."""
    specs = {
        "x1": TensorSpec((512, 16), "float16"),
        "x2": TensorSpec((64, 16, 128), "float16"),
        "scale": TensorSpec((64, 1, 1024), "float16"),
        "group_list": TensorSpec((64,), "int64"),
        "row_index": TensorSpec((512,), "int64"),
        "out": TensorSpec((8, 128), "float32"),
    }
    report = validate(Problem("atlas_a2", specs))
    assert report.status == 161001
    first = [(violation.rule, violation.argument) for violation in report.violations][:5]
    assert first == [
        ("x1-dtype", "x1"),
        ("x2-dtype", "x2"),
        ("required", "pertoken_scale"),
        ("required", "logit"),
        ("required", "bias"),
    ]
    assert report.violations[0].message == (
        "x1 dtype: expected int8, got float16; V3 on Atlas A2 takes int8 activations with INT4 weights (W4A8)"
        " [x1-dtype]"
    )


def test_levels_come_in_order(calls: SimpleNamespace) -> None:
    problem = calls.w4a8(k=1536, shared=0, logit="int64", x2={"offset": 8})
    levels = [violation.level for violation in validate(problem).violations]
    assert levels == ["rejected", "hazard", "undocumented", "warning"]


def test_nothing_but_a_platform_is_a_call_too() -> None:
    report = validate(Problem("ascend950", {}))
    assert report.status == 161001
    missing = ["x1", "x2", "scale", "group_list", "pertoken_scale", "logit", "row_index"]
    assert [violation.argument for violation in report.violations] == ["out", *missing]


def test_rule_ids_are_kebab_case_and_carry_one_topic_per_path() -> None:
    seen: dict[tuple[str, str], str] = {}
    for rule in RULES:
        assert rule.id == rule.id.lower()
        assert " " not in rule.id
        for path in rule.paths:
            assert seen.setdefault((rule.id, path), rule.topic) == rule.topic
        assert (rule.level == "rejected") == (rule.status != 0)
        assert rule.source


def test_values_that_do_not_fit_their_argument_are_no_problem_file(calls: SimpleNamespace) -> None:
    with pytest.raises(ProblemError, match="values group_list: 3 given, the argument is 2 long"):
        validate(calls.w4a8(), {"group_list": [1, 2, 3]})
    with pytest.raises(ProblemError, match="values row_index: 1 given, the argument is 8 long"):
        validate(calls.w4a8(), {"row_index": [1]})

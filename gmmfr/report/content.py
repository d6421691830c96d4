"""What a report says, as plain JSON data."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gmmfr.ab_check import AbReport
from gmmfr.tables import describe_call
from reference.comparator import Comparison, json_number
from reference.diagnosis import diagnose
from reference.location import locate
from reference.operands import Operands

_PACKAGES = ("gmmfr", "numpy", "ml_dtypes", "torch", "torch_npu", "pypto")


def collect(report: AbReport, call: Operands, command: str) -> dict[str, Any]:
    """Everything of the JSON of ``gmmfr ab``, with the call, the places of errors and their explanations."""
    content = report.to_json()
    sections = [_section(report, call, comparison) for comparison in report.comparisons]
    content["comparisons"] = [
        {**entry, **section} for entry, section in zip(content["comparisons"], sections, strict=True)
    ]
    content.update(
        title=describe_call(report.case, call.problem),
        platform=call.problem.platform_row.title,
        call=_call(call),
        command=command,
        versions=_versions(),
    )
    return content


def _section(report: AbReport, call: Operands, comparison: Comparison) -> dict[str, Any]:
    """Where and why the two sides of one comparison differ."""
    reference = report.reference
    results = {name: result.output for name, result in report.backends.items()}
    if reference is None:
        return {"where": None, "map": None, "explanations": [], "tried": 0}
    results["golden"] = reference.out
    a, b = results[comparison.a], results[comparison.b]
    if a is None or b is None or a.shape != reference.out.shape or b.shape != reference.out.shape:
        return {"where": None, "map": None, "explanations": [], "tried": 0}
    place = locate(a, b, reference, criterion=report.criterion)
    section: dict[str, Any] = {
        "where": place.to_json(),
        "summary": place.describe(),
        "map": {
            "rows_per_cell": place.heat_block[0],
            "columns_per_cell": place.heat_block[1],
            "batch": len(place.rows),
            "n": len(place.columns),
            "worst": [[json_number(float(v)) for v in line] for line in place.heat],
        },
        "explanations": [],
        "tried": 0,
    }
    if comparison.verdict == "FAIL" and comparison.b == "golden":
        diagnosis = diagnose(call, a, name=comparison.a, reference=reference)
        section["explanations"] = [explanation.to_json() for explanation in diagnosis.explanations]
        section["tried"] = diagnosis.tried
    return section


def _call(call: Operands) -> dict[str, Any]:
    problem = call.problem.to_json()
    arguments = {name: spec for name, spec in problem["arguments"].items() if spec is not None}
    counts = call["group_list"]
    return {
        "arguments": arguments,
        "attributes": problem["attributes"],
        "group_list": None if counts is None else counts[:64].tolist(),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

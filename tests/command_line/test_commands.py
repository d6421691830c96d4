"""The commands as problem files fix them: JSON keys, exit codes, messages; no traceback at any door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmfr as gmmfr_package
from gmmfr.cli_support import UsageFailure
from reference import golden, make_case, write_bundle
from reference.cases import CASES
from reference.safetensors_file import read_output, write_tensors

Gmmfr = Callable[..., Any]

RIGHT_KERNEL = (
    "import reference\n\ndef kernel(operands):\n    return reference.golden(operands, 'float32').out\n"
)

#: Five classic mistakes, each in a kernel of its own.
WRONG_KERNELS = {
    "logit left out": "out = golden(change(operands, logit=np.ones_like(operands.logit)))",
    "row_index reversed": "out = golden(change(operands, row_index=operands.row_index[::-1]))",
    "next expert's weights": "out = golden(change(operands, x2=np.roll(operands.x2, 1, axis=0)))",
    "last write wins": "out = golden(change(operands, row_index=last_only(operands.row_index)))",
    "one element off": "out = golden(operands); out[1, 7] *= 1.001",
}
WRONG_PRELUDE = """
import numpy as np
import reference

def golden(operands):
    return reference.golden(operands, "float32").out

def change(operands, **call):
    arrays = {**operands.arrays, **call}
    flags = {key: getattr(operands.attributes, key) for key in operands.attributes.__dataclass_fields__}
    platform = operands.problem.platform
    return reference.Operands.from_arrays(platform=platform, batch=operands.batch, **arrays, **flags)

def last_only(rows):
    return np.where(np.arange(len(rows)) % 2, rows, rows[0])

def kernel(operands):
    BODY
    return out.astype(np.float32)
"""


@pytest.fixture
def right(tmp_path: Path) -> str:
    path = tmp_path / "right.py"
    path.write_text(RIGHT_KERNEL)
    return f"{path}:kernel"


def test_run_writes_a_float32_result(gmmfr: Gmmfr, tmp_path: Path) -> None:
    outcome = gmmfr("run", "W0", "--backend", "golden", "--out", tmp_path / "out.safetensors", "--json")
    assert outcome.code == 0
    assert outcome.json == {
        "backend": "golden",
        "ran": True,
        "device": "numpy float64",
        "seconds": outcome.json["seconds"],
        "reason": None,
    }
    out = read_output(tmp_path / "out.safetensors")
    assert out.dtype == np.float32
    assert out[:, 0].tolist() == [-64, -224]


def test_run_says_where_the_float32_golden_ran(gmmfr: Gmmfr, tmp_path: Path) -> None:
    arguments = ("run", "m0", "--backend", "golden", "--precision", "float32", "--json")
    assert gmmfr(*arguments, "--out", tmp_path / "out.safetensors").json["device"] == "numpy float32"


def test_ab_with_an_own_kernel_passes(gmmfr: Gmmfr, right: str) -> None:
    outcome = gmmfr("ab", "c10", "-a", right, "--json")
    assert outcome.code == 0
    report = outcome.json
    assert report["verdict"] == "PASS"
    assert report["case"] == "c10"
    assert list(report["backends"]) == ["golden", right]
    assert set(report["backends"][right]) >= {"ran", "device", "seconds", "reason"}
    (comparison,) = report["comparisons"]
    assert (comparison["a"], comparison["b"]) == (right, "golden")
    assert comparison["count"] == 5 * 72
    assert comparison["mismatches"] == 0
    assert comparison["criterion"] == "|a-b| ≤ 4·√terms·2^-24·Σ|terms|"


@pytest.mark.parametrize("mistake", WRONG_KERNELS)
def test_ab_fails_wrong_kernels(gmmfr: Gmmfr, tmp_path: Path, mistake: str) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG_PRELUDE.replace("BODY", WRONG_KERNELS[mistake]))
    outcome = gmmfr("ab", "c12", "-a", f"{path}:kernel", "--json")
    assert outcome.code == 1
    assert outcome.json["verdict"] == "FAIL"
    comparison = outcome.json["comparisons"][0]
    assert comparison["mismatches"] > 0
    assert {"row", "column", "a", "b"} <= set(comparison["worst"][0])


def test_a_failed_comparison_tells_people_what_they_need(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG_PRELUDE.replace("BODY", WRONG_KERNELS["one element off"]))
    out = gmmfr("ab", "c12", "-a", f"{path}:kernel").out
    assert "mismatches 1 of 256 (0.39%)" in out
    assert "times as wide would have passed" in out
    assert "row 1, column 7:" in out
    assert out.rstrip().endswith("FAIL")


def test_a_kernel_that_raises_fails_and_says_why(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "raises.py"
    path.write_text("def kernel(operands):\n    raise RuntimeError('out of tiles')\n")
    outcome = gmmfr("ab", "m0", "-a", f"{path}:kernel", "--json")
    assert outcome.code == 1
    backend = outcome.json["backends"][f"{path}:kernel"]
    assert backend["ran"] is False
    assert backend["reason"] == "failed: RuntimeError: out of tiles"


def test_a_wrong_shape_is_a_mismatch_not_a_crash(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "shape.py"
    path.write_text("import numpy as np\n\ndef kernel(operands):\n    return np.zeros((3, 3), np.float32)\n")
    outcome = gmmfr("ab", "m0", "-a", f"{path}:kernel", "--json")
    assert outcome.code == 1
    assert "shape: expected (1, 64), got (3, 3)" in outcome.json["comparisons"][0]["reason"]


def test_compare_judges_saved_results(gmmfr: Gmmfr, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.safetensors", tmp_path / "bad.safetensors"
    out = golden(make_case("c11")).out.astype(np.float32)
    write_tensors(good, {"out": out}, {})
    out[2, 3] = np.nan
    write_tensors(bad, {"out": out}, {})
    assert gmmfr("compare", "c11", good, "--json").json["verdict"] == "PASS"
    outcome = gmmfr("compare", "c11", good, bad, "--json")
    assert outcome.code == 1
    verdicts = {(c["a"], c["b"]): c["verdict"] for c in outcome.json["comparisons"]}
    assert verdicts == {
        (str(good), "golden"): "PASS",
        (str(bad), "golden"): "FAIL",
        (str(good), str(bad)): "FAIL",
    }


def test_cases_lists_every_case_and_writes_bundles(gmmfr: Gmmfr, tmp_path: Path) -> None:
    listed = gmmfr("cases", "--json").json
    assert [row["name"] for row in listed] == list(CASES)
    path = tmp_path / "w1.safetensors"
    assert gmmfr("cases", "--write", "W1", path).code == 0
    outcome = gmmfr("run", path, "-b", "golden", "-o", tmp_path / "out.safetensors", "--json")
    assert outcome.code == 0
    assert read_output(tmp_path / "out.safetensors")[0, :2].tolist() == [-64, 512]


def test_seeds_give_other_operands(gmmfr: Gmmfr, tmp_path: Path) -> None:
    for seed in (0, 1):
        gmmfr("run", "c10", "-b", "golden", "-o", tmp_path / f"{seed}.safetensors", "--seed", seed)
    first, second = (read_output(tmp_path / f"{seed}.safetensors") for seed in (0, 1))
    assert (first != second).any()


def test_an_invalid_call_is_refused_with_its_violations(gmmfr: Gmmfr, tmp_path: Path) -> None:
    operands = make_case("w0")
    arrays = {**operands.arrays, "row_index": np.array([0, 2, 1, 0])}
    broken = type(operands).from_arrays(platform="atlas_a2", batch=2, **arrays)
    write_bundle(tmp_path / "broken.safetensors", broken)
    outcome = gmmfr("ab", tmp_path / "broken.safetensors", "--json")
    assert outcome.code == 1
    assert outcome.json["verdict"] == "INVALID"
    assert outcome.json["backends"] == {}
    assert any(v["argument"] == "row_index" for v in outcome.json["violations"])
    arguments = (
        "run",
        tmp_path / "broken.safetensors",
        "-b",
        "golden",
        "-o",
        tmp_path / "o.safetensors",
        "--json",
    )
    assert gmmfr(*arguments).code == 1
    assert not (tmp_path / "o.safetensors").exists()


def test_doctor_reports_every_backend_on_every_platform(gmmfr: Gmmfr) -> None:
    outcome = gmmfr("doctor", "--json")
    assert outcome.code == 0
    rows = {(row["backend"], row["platform"]): row for row in outcome.json["backends"]}
    assert rows["golden", "ascend950"]["available"]
    assert all(row["available"] or row["reason"] for row in rows.values())
    assert gmmfr("doctor").code == 0


def damaged(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ab", "case9"), "case 'case9' is unknown; known: case1"),
        (("ab", "missing.safetensors"), "missing.safetensors: No such file or directory"),
        (("ab", "m0", "-a", "gpu"), "backend 'gpu' is unknown; known: auto, golden"),
        (("ab", "m0", "-a", "golden"), "each must be another one, and the golden always runs"),
        (("ab", "m0", "-a", "nowhere.py:kernel"), "nowhere.py does not exist"),
        (("run", "m0", "-b", "nowhere.py:kernel", "-o", "x"), "nowhere.py does not exist"),
        (("compare", "m0", "missing.safetensors"), "missing.safetensors: No such file or directory"),
        (("compare", "m0", "a", "b", "c"), "expected one or two results, got 3"),
        (("cases", "--write", "m0", "m0.json"), "expected a name that ends in .safetensors"),
        (("cases", "--write", "m0", "no/such/folder/m0.safetensors"), "No such file or directory"),
        (("run", "m0", "-b", "golden", "-o", "no/such/folder/o"), "No such file or directory"),
    ],
)
def test_wrong_usage_exits_with_2_and_a_message(
    gmmfr: Gmmfr, arguments: tuple[str, ...], message: str
) -> None:
    outcome = gmmfr(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\xff" * 100, json.dumps({"x": 1}).encode() * 9])
def test_damaged_bundles_exit_with_2(gmmfr: Gmmfr, tmp_path: Path, content: bytes) -> None:
    outcome = gmmfr("ab", damaged(tmp_path, content))
    assert outcome.code == 2
    assert "damaged.safetensors: not a safetensors file" in outcome.err


def test_a_truncated_bundle_exits_with_2(gmmfr: Gmmfr, tmp_path: Path) -> None:
    write_bundle(tmp_path / "whole.safetensors", make_case("c8"))
    content = (tmp_path / "whole.safetensors").read_bytes()
    outcome = gmmfr("run", damaged(tmp_path, content[:-100]), "-b", "golden", "-o", tmp_path / "o")
    assert outcome.code == 2
    assert "truncated: tensor" in outcome.err


def test_a_file_without_a_kernel_is_a_usage_error(gmmfr: Gmmfr, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    outcome = gmmfr("ab", "m0", "-a", f"{tmp_path / 'empty.py'}:kernel")
    assert outcome.code == 2
    assert "has no function 'kernel'" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"x1": 1},), "call: expected operands, a case name or the path of a bundle, got dict"),
        (("m0", max), "backend: expected a name or path/to/file.py:function, got builtin_function_or_method"),
    ],
)
def test_wrong_kinds_of_arguments_are_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageFailure, match=message):
        gmmfr_package.run(*arguments)
    with pytest.raises(UsageFailure, match=message):
        gmmfr_package.ab(*arguments)


def test_an_unknown_precision_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageFailure, match="precision: expected 'float64' or 'float32', got 'float16'"):
        gmmfr_package.run("m0", "golden", precision="float16")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_terminal_of_another_encoding_gets_escapes_and_no_traceback(
    encoding: str, options: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "gmmfr.cli", "ab", "w0", *options]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    outcome = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, b"")
    text = outcome.stdout.decode(encoding)
    if options:
        assert json.loads(text)["comparisons"][0]["criterion"].startswith("|a-b| ≤ ")
    else:
        assert text.rstrip().endswith("PASS")


@pytest.mark.parametrize(
    "arguments", [("ab", "-a", "gpu"), ("ab", "-a", "golden"), ("run", "-o", "x", "-b", "gpu")]
)
def test_a_wrong_backend_is_a_usage_error_for_an_invalid_call_too(
    gmmfr: Gmmfr, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    call = make_case("w0")
    broken = type(call)(call.problem, {**call.arrays, "row_index": np.array([0, -1, 1, 0])})
    write_bundle(tmp_path / "broken.safetensors", broken)
    outcome = gmmfr(arguments[0], tmp_path / "broken.safetensors", *arguments[1:])
    assert (outcome.code, outcome.out) == (2, "")


def test_compare_judges_by_the_chosen_criterion_and_writes_a_report(gmmfr: Gmmfr, tmp_path: Path) -> None:
    """An error of 5e-4 on an output of size 0.01 is within rtol = atol = 1e-3 and far beyond rounding."""
    out = golden(make_case("c4")).out.astype(np.float32)
    row, column = np.unravel_index(np.abs(out).argmin(), out.shape)
    out[row, column] += 5e-4
    path, page = tmp_path / "out.safetensors", tmp_path / "report.html"
    write_tensors(path, {"out": out}, {})
    assert gmmfr("compare", "c4", path, "--json").json["verdict"] == "FAIL"
    outcome = gmmfr("compare", "c4", path, "--criterion", "rtol", "--report", page, "--json")
    assert outcome.json["verdict"] == "PASS"
    assert "gmmfr compare c4" in page.read_text(encoding="utf-8")

"""What people read: narrow tables, reasons below them, numbers of NaN, commands that can be copied."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import golden, make_case, write_bundle
from reference.safetensors_file import write_tensors

Gmmfr = Callable[..., Any]
WRONG = """
import numpy as np
import reference

def kernel(operands):
    out = reference.golden(operands, "float32").out
    out[0, 0], out[1, 3], out[1, 4], out[2, 2] = np.nan, np.inf, -np.inf, out[2, 2] + 1
    return out

def shape(operands):
    return np.zeros((3, 3), np.float32)

def raises(operands):
    raise RuntimeError("tile " + "x" * 300)
"""


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a kernel.py"
    path.write_text(WRONG)
    return path


def hints(outcome: Any) -> list[str]:
    """The commands that the outcome offers."""
    return [line.removeprefix("why: ") for line in outcome.out.splitlines() if line.startswith("why: ")]


def follow(gmmfr: Gmmfr, hint: str) -> Any:
    """Run the commands of a hint as a shell would; the outcome of the last."""
    for command in hint.split("; "):
        outcome = gmmfr(*shlex.split(command)[1:])
    return outcome


@pytest.mark.parametrize(
    "arguments", [("cases",), ("rules",), ("doctor",), ("validate", "c1"), ("ab", "w0", "-b", "aclnn")]
)
def test_no_table_ends_its_lines_in_blanks(gmmfr: Gmmfr, arguments: tuple[str, ...]) -> None:
    lines = gmmfr(*arguments).out.splitlines()
    assert len(lines) > 1
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_long_reason_stands_below_the_table(gmmfr: Gmmfr, wrong: Path) -> None:
    lines = gmmfr("ab", "c10", "-a", f"{wrong}:raises").out.splitlines()
    row = next(line for line in lines if line.startswith(f"{wrong}:raises "))
    assert row.split()[-1] == "FAILED"
    assert f"{wrong}:raises: FAILED: RuntimeError: tile {'x' * 300}" in lines


def test_rules_fit_on_a_page(gmmfr: Gmmfr) -> None:
    lines = gmmfr("rules").out.splitlines()
    assert max(map(len, lines)) <= 110
    assert any(line.startswith("row-index-range ") for line in lines)


def test_elements_that_are_no_numbers_are_counted(gmmfr: Gmmfr, wrong: Path) -> None:
    out = gmmfr("ab", "c10", "-a", f"{wrong}:kernel").out
    assert f"{wrong}:kernel: 1 of 360 elements are NaN, 2 infinite" in out
    assert "no bound passes" in out
    assert "are NaN" not in gmmfr("ab", "c10", "-a", f"{wrong}:shape").out


def test_the_offered_command_can_be_copied(gmmfr: Gmmfr, wrong: Path) -> None:
    (hint,) = hints(gmmfr("ab", "c10", "-a", f"{wrong}:kernel", "--seed", "2"))
    outcome = follow(gmmfr, hint)
    assert outcome.code == 1
    assert "4 of 360 elements differ" in outcome.out
    assert "out.safetensors: 1 of 360 elements are NaN, 2 infinite" in outcome.out


def test_nothing_is_offered_where_it_would_not_help(gmmfr: Gmmfr, wrong: Path) -> None:
    for function in ("shape", "raises"):
        assert hints(gmmfr("ab", "c10", "-a", f"{wrong}:{function}")) == []
    assert hints(gmmfr("ab", "c10")) == []


def test_compare_offers_the_result_that_it_read(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "saved.safetensors"
    write_tensors(path, {"out": golden(make_case("c10", 3)).out.astype(np.float32) * 2}, {})
    (hint,) = hints(gmmfr("compare", "c10", path, "--seed", "3"))
    assert hint == f"gmmfr diagnose c10 {path} --seed 3"
    assert follow(gmmfr, hint).code == 1


def test_a_recorded_output_is_compared_and_diagnosed_where_it_is(gmmfr: Gmmfr, wrong: Path) -> None:
    assert gmmfr("record", "c10", "-b", f"{wrong}:kernel", "-o", "rec.safetensors").code == 0
    for command in ("compare", "diagnose"):
        outcome = gmmfr(command, "c10", "rec.safetensors", "--json")
        assert (outcome.code, outcome.json["verdict"]) == (1, "FAIL")
    (hint,) = hints(gmmfr("replay", "rec.safetensors", "-b", "golden"))
    assert hint == "gmmfr diagnose rec.safetensors rec.safetensors"
    assert "4 of 360 elements differ" in follow(gmmfr, hint).out


def test_of_several_recorded_outputs_one_is_named(gmmfr: Gmmfr, tmp_path: Path) -> None:
    call, path = make_case("c10"), tmp_path / "two.safetensors"
    right = golden(call).out.astype(np.float32)
    write_bundle(path, call, {"simulator": right, "k.py:f": right + 1})
    outcome = gmmfr("diagnose", "c10", path)
    assert outcome.code == 2
    said = f"outputs of several backends are recorded; name one of {path}:"
    assert said in outcome.err
    assert f"{path}:k.py:f" in outcome.err
    assert gmmfr("diagnose", "c10", f"{path}:simulator").code == 0
    assert gmmfr("compare", "c10", f"{path}:k.py:f").code == 1
    assert "no output of pypto; name one of " in gmmfr("compare", "c10", f"{path}:pypto").err
    (hint,) = hints(gmmfr("replay", path, "-b", "simulator"))
    assert hint == f"gmmfr diagnose {path} {path}:k.py:f"


def test_a_bundle_without_output_is_no_result(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "bare.safetensors"
    write_bundle(path, make_case("c10"))
    outcome = gmmfr("diagnose", "c10", path)
    assert outcome.code == 2
    assert "tensor 'out' is missing and no output is recorded; it holds " in outcome.err


def test_diagnose_prints_what_refuses_a_call_as_validate_does(gmmfr: Gmmfr, tmp_path: Path) -> None:
    call, path = make_case("c10"), tmp_path / "bad.safetensors"
    call.arrays["row_index"][:] = 99
    write_bundle(path, call, {"simulator": np.zeros((5, 72), np.float32)})
    outcome = gmmfr("diagnose", path, path)
    assert outcome.code == 1
    assert "hazard: row_index" in outcome.out
    assert "Violation(" not in outcome.out


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_list_without_problems_is_bad_input(gmmfr: Gmmfr, options: tuple[str, ...]) -> None:
    outcome = gmmfr("validate", "-", *options, stdin="[]")
    assert (outcome.code, outcome.out) == (2, "")
    assert "-: the list holds no problem" in outcome.err

"""Files that mean harm: no code runs, no memory is taken that was not there, no file is made elsewhere, no
script passes into a report."""

from __future__ import annotations

import ast
import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmmfr.cli_support import UsageFailure
from gmmfr.memory_need import check_memory, memory_of_machine, needed_bytes
from reference import golden, make_case, read_bundle, write_bundle
from reference.problem import Problem, TensorSpec

Gmmfr = Callable[..., Any]
ROWS = 10**12


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The small call w0, with an output."""
    path = tmp_path / "call.safetensors"
    operands = make_case("w0")
    out = golden(operands).out.astype(np.float32)
    write_bundle(path, operands, {"simulator": out}, {"backend": "simulator", "device": "a machine"})
    return path


def edit(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    """Change the header and the call in it: ``change(header, call)``."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    call = json.loads(header["__metadata__"]["gmmfr"])
    change(header, call)
    header["__metadata__"]["gmmfr"] = json.dumps(call)
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + content[8 + length :])
    return path


@pytest.fixture
def endless(bundle: Path) -> Path:
    """The call with 10**12 output rows: a few bytes that ask for petabytes."""
    return edit(bundle, lambda header, call: call.update(batch=ROWS))


COMMANDS = [
    ("run", "-b", "golden", "-o", "out.safetensors"),
    ("run", "-b", "simulator", "-o", "out.safetensors"),
    ("ab",),
    ("ab", "-a", "golden", "-b", "simulator"),
    ("compare", "out.safetensors"),
    ("diagnose", "out.safetensors"),
    ("replay",),
    ("shrink", "-b", "simulator"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words))
def test_a_result_larger_than_the_machine_is_refused_before_work(
    words: tuple[str, ...], endless: Path, gmmfr: Gmmfr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(endless.parent)
    command, *options = words
    tracemalloc.start()
    outcome = gmmfr(command, endless, *options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.code == 2
    assert "computing this call takes at least" in outcome.err
    assert f"(out float32 [{ROWS}, 128])" in outcome.err
    assert peak < 100 << 20
    assert not Path("out.safetensors").exists()


def test_the_validator_still_reads_it(endless: Path, gmmfr: Gmmfr) -> None:
    outcome = gmmfr("validate", endless, "--json")
    assert outcome.code in (0, 1)
    assert outcome.json["status"] in (0, 161002)


@pytest.mark.parametrize("length", [10**18, 2**62, 2**63 - 1, 2**63, 10**30])
@pytest.mark.parametrize("argument", ["x1", "x2", "group_list", "out"])
def test_shapes_of_any_size_are_validated_without_memory(
    argument: str, length: int, gmmfr: Gmmfr, tmp_path: Path
) -> None:
    problem = make_case("w0").problem.to_json()
    problem["arguments"][argument]["shape"][0] = length
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(problem), encoding="utf-8")
    tracemalloc.start()
    outcome = gmmfr("validate", path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.code in (1, 2), outcome.out
    assert peak < 50 << 20


def test_an_output_with_huge_strides_counts_its_gaps() -> None:
    w0 = make_case("w0").problem
    out = TensorSpec((2, 128), "float32", strides=(10**15, 1))
    problem = Problem(w0.platform, {**w0.arguments, "out": out}, w0.attributes)
    assert needed_bytes(problem) > 4 * 10**15
    with pytest.raises(UsageFailure, match="computing this call takes at least"):
        check_memory(problem, "call")


def test_ordinary_calls_are_far_below_the_limit() -> None:
    assert needed_bytes(make_case("w0").problem) < 1 << 20
    assert memory_of_machine() > 1 << 28
    check_memory(make_case("w0").problem, "call")


@pytest.mark.parametrize("place", ["metadata", "tensor"])
def test_no_recording_chooses_what_code_runs(
    place: str, bundle: Path, gmmfr: Gmmfr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle whose recorded backend is a Python file beside it."""
    monkeypatch.chdir(tmp_path)
    marker = tmp_path / "ran"
    Path("evil.py").write_text(f"open({str(marker)!r}, 'w')\ndef f(**_): pass\n", encoding="utf-8")

    def change(header: dict[str, Any], call: dict[str, Any]) -> None:
        if place == "metadata":
            call["recorded"]["backend"] = "evil.py:f"
        else:
            header["out.evil.py:f"] = header.pop("out.simulator")
            del call["recorded"]["backend"]

    outcome = gmmfr("replay", edit(bundle, change))
    assert outcome.code == 2
    assert "recorded with backend 'evil.py:f', which is none of golden, aclnn" in outcome.err
    assert "--backend" in outcome.err
    assert not marker.exists()


def test_recorded_facts_of_wrong_kinds_are_no_crash(bundle: Path, gmmfr: Gmmfr) -> None:
    facts = {"backend": 5, "device": ["x"], "seconds": "soon", "versions": 7, "outputs": {"simulator": 1}}
    for name, value in facts.items():
        outcome = gmmfr(
            "replay", edit(bundle, lambda header, call, n=name, v=value: call["recorded"].update({n: v}))
        )
        assert outcome.code in (0, 1, 2), (name, outcome.err)


def test_names_with_paths_in_them_write_nothing_elsewhere(
    bundle: Path, gmmfr: Gmmfr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors named like paths: none of the commands makes a file of such a name."""
    home = tmp_path / "inner"
    home.mkdir()
    monkeypatch.chdir(home)
    edit(bundle, lambda header, call: header.update({"out.../../escaped": header.pop("out.simulator")}))
    before = set(tmp_path.rglob("*"))
    for words in (
        ("replay", bundle, "-b", "simulator"),
        ("ab", bundle, "--report", "page.html"),
        ("validate", bundle),
    ):
        gmmfr(*words)
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")} - {
        path.relative_to(tmp_path).as_posix() for path in before
    }
    assert made == {"inner/page.html", "inner/page.html.json"} or made == {
        "inner/page.html",
        "inner/page.json",
    }


SCRIPT = "<script>alert(1)</script>"


def test_reports_hold_data_as_text(
    bundle: Path, gmmfr: Gmmfr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file name, a device name and a backend's name with mark-up in them."""
    monkeypatch.chdir(tmp_path)
    edit(bundle, lambda header, call: call["recorded"].update(device=SCRIPT, versions={SCRIPT: SCRIPT}))
    named = bundle.rename(tmp_path / f"a{SCRIPT.replace('/', '')}b.safetensors")
    kernel = tmp_path / "k<img src=x onerror=alert(1)>.py"
    kernel.write_text("def f(**_):\n    raise ValueError('<img src=x onerror=alert(2)>')\n", encoding="utf-8")
    outcome = gmmfr("ab", named, "-a", "simulator", "-b", f"{kernel}:f", "--report", "page.html")
    assert outcome.code in (0, 1), outcome.err
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<script" not in page.lower()
    assert not re.search(r"<img[^>]*onerror", page, re.IGNORECASE)
    assert "&lt;script&gt;" in page
    assert "&lt;img src=x" in page


def test_generated_programs_hold_data_as_data(
    bundle: Path, tmp_path: Path, gmmfr: Gmmfr, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel whose file name would end a comment, a string or a line of Python and C++."""
    monkeypatch.chdir(tmp_path)
    kernel = tmp_path / 'k*"""); import os; os.system("touch pwned") #\\\n#include <evil>\n.py'
    kernel.write_text(
        "import numpy as np\ndef f(**inputs):\n    return np.full((2, 128), 7, np.float32)\n",
        encoding="utf-8",
    )
    outcome = gmmfr(
        "shrink", bundle, "-b", f"{kernel.name}:f", "-o", "small.safetensors", "--cpp", "--seconds", 2
    )
    assert outcome.code == 0, outcome.err
    code = [line for line in Path("small.cpp").read_text(encoding="utf-8").splitlines() if line[:2] != "//"]
    assert not any("system(" in line or "evil" in line for line in code)
    tree = ast.parse(Path("small.py").read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert "os" not in imported


def test_a_damaged_results_file_is_a_message(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "out.safetensors"
    path.write_bytes((2**63 - 1).to_bytes(8, "little") + b"{}")
    outcome = gmmfr("compare", "w0", path)
    assert outcome.code == 2
    assert "not a safetensors file" in outcome.err


def test_nothing_is_unpickled_or_evaluated() -> None:
    """No reader of ours has a way to run what a file holds."""
    root = Path(__file__).resolve().parents[2]
    words = re.compile(
        r"\b(pickle|marshal|shelve|yaml\.load|allow_pickle=True|eval\(|exec\(|weights_only=False)"
    )
    found = [
        path.relative_to(root).as_posix()
        for package in ("reference", "gmmfr", "aclnn_bindings")
        for path in (root / package).rglob("*.py")
        if words.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_bundles_are_read_without_a_copy_of_the_file(bundle: Path) -> None:
    assert isinstance(read_bundle(bundle).x1.base, np.memmap | np.ndarray)

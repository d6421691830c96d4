"""Every command and every program of the README and the guides runs and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "docs/calling.md", "docs/kernel_authors.md", "docs/validating.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
#: Installation is what .ci/run does with these lines.
INSTALLS = ("python3 -m venv", "pip install")


@dataclass(frozen=True)
class Block:
    """One program of a page, and the output that stands right below it (None where there is none)."""

    language: str
    program: str
    shown: str | None


def blocks(page: str) -> list[Block]:
    found = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [
        Block(language, program, shown or None) for language, program, shown in found if language != "text"
    ]


def run_shell(script: str, folder: Path) -> str:
    """Standard output of a script, with this environment's commands first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SOURCES": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", f"set -u\n{script}"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def run_python(program: str, names: dict[str, Any]) -> str:
    """What a program prints; its names stay for the page's next one."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "<page>", "exec"), names)
    return printed.getvalue()


def normal(text: str) -> str:
    """Text without padding, times, and what depends on the order in which this processor adds."""
    text = re.sub(r"(?<=the bound )\d+", "N", text)
    text = re.sub(r"-?\b\d+\.\d+(e[+-]?\d+)?\b|-?\b\d+e[+-]\d+\b", "N", text)
    return re.sub(r"\s+", " ", text).strip()


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the page's files, the current one for its programs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page_print_what_it_shows(page: str, in_folder: Path) -> None:
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.program.startswith(INSTALLS):
            continue
        if block.language == "sh":
            printed = run_shell(block.program, in_folder)
        else:
            printed = run_python(block.program, names)
        if block.shown is not None:
            assert normal(printed) == normal(block.shown), block.program


def test_the_first_table_is_the_readmes(tmp_path: Path) -> None:
    assert normal(run_shell("gmmfr ab case3", tmp_path)) == normal(blocks("README.md")[0].shown or "")


def test_the_three_way_table_is_the_readmes(tmp_path: Path) -> None:
    import pypto_impl

    reason = pypto_impl.availability("ascend950")
    if reason is not None:
        pytest.skip(reason)
    block = next(block for block in blocks("README.md") if block.program.startswith("pip install"))
    command = block.program.strip().rpartition("&& ")[2]
    assert normal(run_shell(command, tmp_path)) == normal(block.shown or "")


def test_both_install_lines_are_there() -> None:
    lines = [block.program.strip() for block in blocks("README.md") if block.program.startswith(INSTALLS[0])]
    assert len(lines) == 2
    assert lines[0].endswith("pip install -e . && gmmfr ab case3")
    assert lines[1].endswith("pip install -e '.[test]' && pytest")


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_point_at_files(page: str) -> None:
    for target in re.findall(r"\]\(([\w/.-]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / target).exists(), target

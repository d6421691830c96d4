"""Every command and every program of the README runs and prints what the README shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return [(kind, body) for kind, body in BLOCK.findall(README.read_text(encoding="utf-8"))]


def shell_blocks() -> list[tuple[str, str | None]]:
    """Each shell block but the install lines, which .ci/run runs, with the output shown right below it."""
    pair = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
    found = pair.findall(README.read_text(encoding="utf-8"))
    return [
        (body, shown or None) for body, shown in found if not body.startswith(("python3 -m", "pip install"))
    ]


def run(script: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if "|| echo" not in script and "validate" not in script:
        assert done.returncode == 0, done.stderr
    return done.stdout


def normal(text: str) -> str:
    """Text without times and padding."""
    return re.sub(r"\s+", " ", re.sub(r"\b\d+\.\d{3}\b", "T", text)).strip()


@pytest.mark.parametrize(("script", "shown"), shell_blocks())
def test_shell_blocks_print_what_is_shown(script: str, shown: str | None, tmp_path: Path) -> None:
    out = run(script, tmp_path)
    if shown is not None:
        assert normal(out) == normal(shown)


def test_the_ab_table_is_the_readmes(tmp_path: Path) -> None:
    shown = next(body for kind, body in blocks() if kind == "text")
    assert normal(run("gmmfr ab case3", tmp_path)) == normal(shown)


def test_the_three_way_table_is_the_readmes(tmp_path: Path) -> None:
    import pypto_impl

    reason = pypto_impl.availability("ascend950")
    if reason is not None:
        pytest.skip(reason)
    install, shown = next(
        (blocks()[i][1], blocks()[i + 1][1])
        for i, (_, body) in enumerate(blocks())
        if body.startswith("pip install")
    )
    command = install.strip().rpartition("&& ")[2]
    assert normal(run(command, tmp_path)) == normal(shown)


@pytest.mark.parametrize("program", [body for kind, body in blocks() if kind == "python"])
def test_python_blocks_run(program: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, check=True)


def test_both_install_lines_are_there() -> None:
    lines = [body.strip() for kind, body in blocks() if kind == "sh" and body.startswith("python3 -m venv")]
    assert len(lines) == 2
    assert lines[0].endswith("pip install -e . && gmmfr ab case3")
    assert lines[1].endswith("pip install -e '.[test]' && pytest")


def test_links_point_at_files() -> None:
    for target in re.findall(r"\]\(([\w/.-]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target

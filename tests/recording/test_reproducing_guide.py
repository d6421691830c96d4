"""The guide to reproducing failures: its commands run in order and print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gmmfr

GUIDE = Path(__file__).parents[2] / "docs" / "reproducing.md"
_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def _normal(text: str) -> str:
    """Text without times and padding."""
    return re.sub(r"\s+", " ", re.sub(r"\b\d+\.\d{3}\b", "T", text)).strip()


def test_commands_of_the_guide_print_what_the_guide_shows(tmp_path: Path) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, arguments in (("gmmfr", "-m gmmfr.cli"), ("python", "")):
        (commands / name).write_text(f"#!/bin/sh\nexec '{sys.executable}' {arguments} \"$@\"\n")
        (commands / name).chmod(0o755)
    root = str(Path(gmmfr.__file__).parents[1])
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": root}
    blocks = _BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert [kind for kind, _, _ in blocks] == ["sh", "python", "sh", "sh", "sh"]
    for kind, program, shown in blocks:
        command = ["bash", "-eu", "-c", program] if kind == "sh" else [sys.executable, "-c", program]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        assert _normal(done.stdout) == _normal(shown)

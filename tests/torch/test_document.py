"""The blocks of docs/torch.md run and print what the page shows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
SHELL = re.findall(r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def normal(text: str) -> str:
    """Text without seconds and padding."""
    return re.sub(r"\s+", " ", re.sub(r"\b\d+\.\d{3}\b", "T", text)).strip()


@pytest.mark.needs_torch
def test_the_python_blocks_run_from_top_to_bottom(start: Callable[..., Any]) -> None:
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    outcome = start(sys.executable, "-c", program)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.needs_torch_npu
@pytest.mark.parametrize(("script", "shown"), SHELL)
def test_the_shell_blocks_print_what_is_shown(
    start: Callable[..., Any], tmp_path: Path, script: str, shown: str
) -> None:
    if "pypto" in script:
        pytest.importorskip("pypto")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, what in (("python", '"$@"'), ("gmmfr", '-m gmmfr.cli "$@"')):
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {what}\n')
        command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    outcome = start("bash", "-euc", f"cd {tmp_path}\n{script}", environment=environment)
    assert outcome.returncode == 0, outcome.stderr
    assert normal(outcome.stdout) == normal(shown)


def test_both_shell_blocks_are_there() -> None:
    assert [script.splitlines()[-1].split()[:2] for script, _ in SHELL] == [
        ["gmmfr", "simulate"],
        ["gmmfr", "ab"],
    ]

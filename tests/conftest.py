"""What all tests share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

# A bare `import torch` loads torch_npu where that is installed, and fails without CANN.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
# The checking device: mistakes of the callers under test are findings. Read when the simulator is loaded.
os.environ.setdefault("GMMFR_SIM_CHECK", "1")


@dataclass(frozen=True)
class Outcome:
    """Exit code, standard output and standard error of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON document."""
        return json.loads(self.out)


@pytest.fixture
def gmmfr() -> Callable[..., Outcome]:
    """Run the command ``gmmfr`` in this process; an exception that it does not handle fails the test."""

    def run(*arguments: object, stdin: str | None = None) -> Outcome:
        from gmmfr.cli import cli

        result = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run

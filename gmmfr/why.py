"""The commands that say why an output is wrong, ready to be copied into a shell."""

from __future__ import annotations

import shlex

_SAVED = "out.safetensors"


def run_and_diagnose(case: str, backend: str, seed: int = 0) -> str:
    """Save what ``backend`` gives for ``case``, and diagnose that."""
    run = ["gmmfr", "run", case, "--backend", backend, "--out", _SAVED, *_seed(seed)]
    return f"{shlex.join(run)}; {diagnose_command(case, _SAVED, seed)}"


def diagnose_command(case: str, out: str, seed: int = 0) -> str:
    """Diagnose ``out``, a results file or a recorded output."""
    return shlex.join(["gmmfr", "diagnose", case, out, *_seed(seed)])


def _seed(seed: int) -> list[str]:
    return ["--seed", str(seed)] if seed else []

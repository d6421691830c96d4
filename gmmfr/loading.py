"""Find what the user named: a case, a bundle, a results file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gmmfr.cli_support import UsageFailure
from gmmfr.memory_need import check_memory
from reference.operands import Operands


def load_call(
    source: str | os.PathLike[str] | Operands, seed: int = 0, *, any_size: bool = False
) -> Operands:
    """The call that ``source`` names: operands, a case name, or the path of a ``.safetensors`` bundle.

    Raises :class:`UsageFailure` for an unknown case or an unreadable file, and without ``any_size`` for
    operands or a bundle whose result would not fit into this machine's memory.
    """
    if isinstance(source, Operands):
        if not any_size:
            check_memory(source.problem, "call")
        return source
    if not isinstance(source, (str, os.PathLike)):
        kind = type(source).__name__
        raise UsageFailure(f"call: expected operands, a case name or the path of a bundle, got {kind}")
    name = os.fspath(source)
    if name.endswith(".safetensors"):
        operands = _read(name)
        if not any_size:
            check_memory(operands.problem, name)
        return operands
    from reference.cases import find_case

    try:
        case = find_case(name)
    except KeyError as error:
        hint = (
            f"; the file {name} exists, but a bundle's name ends in .safetensors"
            if Path(name).exists()
            else ""
        )
        raise UsageFailure(f"{error.args[0]}{hint}") from None
    return case.make(seed)


def _read(path: str) -> Operands:
    from reference.bundle import BundleError, read_bundle

    try:
        return read_bundle(path)
    except (BundleError, OSError) as error:
        raise UsageFailure(_describe(path, error)) from None


def load_output(path: str) -> NDArray[Any]:
    """Tensor ``out`` of a results file."""
    from reference.safetensors_file import BundleError, read_output

    try:
        return read_output(path)
    except (BundleError, OSError) as error:
        raise UsageFailure(_describe(path, error)) from None


def _describe(path: str, error: Exception) -> str:
    return f"{path}: {error.strerror}" if isinstance(error, OSError) and error.strerror else str(error)

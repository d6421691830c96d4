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


def load_output(name: str) -> NDArray[Any]:
    """Tensor ``out`` of a results file, or the output recorded in a bundle.

    With several outputs in it ``FILE.safetensors:BACKEND`` names one.
    """
    from reference.safetensors_file import BundleError, read_tensors

    path, backend = _split(name)
    try:
        tensors = {key: array for key, (_, array) in read_tensors(path)[0].items()}
    except (BundleError, OSError) as error:
        raise UsageFailure(_describe(path, error)) from None
    if backend is None and "out" in tensors:
        return tensors["out"]
    outputs = {key.removeprefix("out."): array for key, array in tensors.items() if key.startswith("out.")}
    if backend in outputs:
        return outputs[backend]
    if backend is None and len(outputs) == 1:
        return next(iter(outputs.values()))
    if outputs:
        named = ", ".join(f"{path}:{key}" for key in outputs)
        what = "outputs of several backends are recorded" if backend is None else f"no output of {backend}"
        raise UsageFailure(f"{path}: {what}; name one of {named}")
    raise UsageFailure(
        f"{path}: tensor 'out' is missing and no output is recorded; it holds {', '.join(tensors) or 'none'}"
    )


def _split(name: str) -> tuple[str, str | None]:
    """The file and the backend of ``FILE.safetensors:BACKEND``; a file's own name goes first."""
    path, mark, backend = name.partition(".safetensors:")
    return (name, None) if not mark or Path(name).exists() else (f"{path}.safetensors", backend)


def saved_places(path: str | os.PathLike[str], operands: Operands) -> dict[str, str]:
    """The name under which :func:`load_output` finds each output recorded in a bundle, by backend."""
    name, outputs = os.fspath(path), operands.recorded.get("outputs") or {}
    backends = [key.removeprefix("out.") for key in outputs]
    return {backend: name if len(backends) == 1 else f"{name}:{backend}" for backend in backends}


def _describe(path: str, error: Exception) -> str:
    return f"{path}: {error.strerror}" if isinstance(error, OSError) and error.strerror else str(error)

"""The container of bundles and results: read (mapped, without a copy) and write safetensors files.

The header is read here because safetensors' NumPy loader raises on FP8 dtypes; writing is the
package's own.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from reference.formats import BY_SAFETENSORS, numpy_dtype
from reference.operands import Array

_MAX_HEADER = 100_000_000  # bytes; the safetensors format's own limit


class BundleError(ValueError):
    """A file that is not a readable bundle: damaged, truncated, or of other content."""


@dataclass(frozen=True)
class _Entry:
    """One tensor of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, tuple[str, Array]], dict[str, str]]:
    """All tensors of a safetensors file as ``name -> (safetensors dtype, mapped array)``, and its metadata.

    4-bit tensors come as ``uint8`` with the last axis halved.
    """
    entries, metadata, start = _read_header(path)
    tensors: dict[str, tuple[str, Array]] = {}
    mapped = (
        np.memmap(path, dtype=np.uint8, mode="r") if any(e.end > e.begin for e in entries.values()) else None
    )
    for name, entry in entries.items():
        raw = np.empty(0, np.uint8) if mapped is None else mapped[start + entry.begin : start + entry.end]
        try:
            tensors[name] = (entry.dtype, _view(name, entry, np.asarray(raw)))
        except ValueError as error:  # NumPy's own too: a shape that no array can have
            raise BundleError(f"{path}: {error}") from None
    return tensors, metadata


def read_output(path: str | os.PathLike[str], name: str = "out") -> Array:
    """The tensor ``out`` (or another) of a results file."""
    tensors, _ = read_tensors(path)
    if name not in tensors:
        raise BundleError(f"{path}: tensor {name!r} is missing; it holds {', '.join(tensors) or 'none'}")
    return tensors[name][1]


def _read_header(path: str | os.PathLike[str]) -> tuple[dict[str, _Entry], dict[str, str], int]:
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        prefix = file.read(8)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or length > min(size - 8, _MAX_HEADER):
            raise BundleError(
                f"{path}: not a safetensors file (header length {length}, file size {size} bytes)"
            )
        raw = file.read(length)
    try:
        header = _object(json.loads(raw.decode("utf-8")), "header")
        metadata = _object(header.pop("__metadata__", None) or {}, "__metadata__")
        entries = {name: _read_entry(name, value) for name, value in header.items()}
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: damaged safetensors header: {error}") from None
    for name, entry in entries.items():
        if not 0 <= entry.begin <= entry.end <= size - 8 - length:
            raise BundleError(
                f"{path}: truncated: tensor {name!r} ends at byte {8 + length + entry.end} of {size}"
            )
    return entries, {key: str(value) for key, value in metadata.items()}, 8 + length


def _object(value: Any, what: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise ValueError(f"{what}: expected an object, got {type(value).__name__}")


def _read_entry(name: str, value: Any) -> _Entry:
    """One tensor's entry; every number must be one, as the format's own readers ask."""
    entry = _object(value, f"tensor {name!r}")
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or not _integers(shape) or not _integers(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r}: expected dtype, shape and two data_offsets, got {entry}")
    return _Entry(dtype, tuple(shape), offsets[0], offsets[1])


def _integers(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _view(name: str, entry: _Entry, raw: Array) -> Array:
    """The bytes of one tensor as array of its shape."""
    fmt = BY_SAFETENSORS.get(entry.dtype)
    if fmt is None:
        raise BundleError(
            f"tensor {name!r}: dtype {entry.dtype!r} is unknown; known: {', '.join(BY_SAFETENSORS)}"
        )
    shape = entry.shape
    if any(length < 0 for length in shape):
        raise BundleError(f"tensor {name!r}: negative length in shape {list(shape)}")
    if fmt.per_byte == 2:
        if not shape or shape[-1] % 2:
            raise BundleError(f"tensor {name!r}: 4-bit shape {list(shape)} has an odd last axis")
        shape = (*shape[:-1], shape[-1] // 2)
    if prod(shape) * fmt.itemsize != raw.nbytes:
        raise BundleError(
            f"tensor {name!r}: shape {list(entry.shape)} of {entry.dtype} does not fill {raw.nbytes} bytes"
        )
    array = (
        raw.view(numpy_dtype(fmt.name)) if raw.ctypes.data % fmt.itemsize == 0 else _realign(raw, fmt.name)
    )
    return array.reshape(shape)


def _realign(raw: Array, dtype: str) -> Array:
    return np.asarray(raw.copy().view(numpy_dtype(dtype)))


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Array], metadata: Mapping[str, str]
) -> None:
    """Write a safetensors file: complete under its name, or not at all; ``OSError`` says why not."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.touch()
        mode = partial.stat().st_mode  # what this process gives new files; the package makes them private
        save_file(dict(tensors), partial, dict(metadata))
        partial.chmod(mode)
        os.replace(partial, target)
    except SafetensorError as error:
        raise OSError(f"{path}: {error}") from None
    finally:
        partial.unlink(missing_ok=True)

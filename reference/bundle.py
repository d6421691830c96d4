"""Bundles: one ``.safetensors`` file that holds a call with its data.

Reading maps the file; nothing is copied unless the recorded call was not contiguous.  Anyone can write
a bundle with the safetensors package.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from reference.formats import BY_SAFETENSORS, number_format, numpy_dtype
from reference.operands import Array, Operands, describe_carrier, packed_axis
from reference.problem import (
    ARGUMENTS,
    INPUTS,
    Attributes,
    Problem,
    ProblemError,
    TensorSpec,
    compact_strides,
)
from reference.safetensors_file import BundleError, read_tensors, write_tensors

_METADATA_KEY = "gmmfr"
_LAYOUT = ("strides", "offset", "format", "storage_shape")


def read_bundle(path: str | os.PathLike[str]) -> Operands:
    """Read a bundle: operands mapped read-only from ``path``; :class:`BundleError` says what is wrong."""
    tensors, metadata = read_tensors(path)
    if _METADATA_KEY not in metadata:
        raise BundleError(f"{path}: metadata key 'gmmfr' is missing; this is no bundle of a call")
    try:
        return _assemble(tensors, json.loads(metadata[_METADATA_KEY]))
    except (ProblemError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BundleError(f"{path}: {error}") from None


def _assemble(tensors: Mapping[str, tuple[str, Array]], call: Any) -> Operands:
    if not isinstance(call, Mapping):
        raise ProblemError(f"metadata 'gmmfr': expected an object, got {type(call).__name__}")
    for key in ("platform", "batch"):
        if key not in call:
            raise ProblemError(f"metadata 'gmmfr': key {key!r} is missing")
    dtypes, layouts, recorded = (_member(call, key) for key in ("dtypes", "layouts", "recorded"))
    for name in {*dtypes, *layouts}:
        if name not in ARGUMENTS:
            raise ProblemError(f"metadata: argument {name!r} is unknown; known: {', '.join(ARGUMENTS)}")
    unknown = [name for name in tensors if name not in (*INPUTS, "out") and not name.startswith("out.")]
    if unknown:
        raise ProblemError(f"tensor {unknown[0]!r} is no argument; known: {', '.join(INPUTS)}")
    arrays: dict[str, Array] = {}
    specs: dict[str, TensorSpec | None] = {}
    for name in INPUTS:
        if name in tensors:
            array, spec = _restore(name, tensors[name], dtypes.get(name))
            arrays[name], specs[name] = _lay_out(name, array, spec, layouts.get(name))
    attributes = Attributes.from_json(_member(call, "attributes"))
    problem = Problem(call["platform"], specs, attributes)
    rows = call["batch"]
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise ProblemError(f"batch: expected a number of rows, got {rows!r}")
    specs["out"] = _out_spec(problem, rows, layouts.get("out"))
    recorded["outputs"] = {n: t[1] for n, t in tensors.items() if n.startswith("out.")}
    return Operands(Problem(call["platform"], specs, attributes), arrays, recorded)


def _member(call: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object of the metadata that may be left out."""
    value = call.get(key)
    if value is not None and not isinstance(value, dict):
        raise ProblemError(f"metadata {key}: expected an object, got {type(value).__name__}")
    return dict(value or {})


def _out_spec(problem: Problem, rows: int, layout: Any) -> TensorSpec:
    try:
        columns = problem.n
    except (ProblemError, IndexError):
        columns = 0
    spec = _with_layout("out", TensorSpec((rows, columns), "float32"), layout)
    end = 1
    for step, length in sorted(zip(spec.element_strides, spec.shape, strict=True)) if spec.size else ():
        if length > 1 and step < end:
            raise ProblemError(f"layouts out: strides {list(spec.element_strides)} let elements overlap")
        end += step * (length - 1)
    return spec


def _restore(name: str, tensor: tuple[str, Array], hint: str | None) -> tuple[Array, TensorSpec]:
    """Carrier and description of one stored tensor; ``hint`` says what U8 bytes are."""
    tag, array = tensor
    dtype = BY_SAFETENSORS[tag].name
    if hint is not None and hint != dtype:
        if tag != "U8" or number_format(hint).itemsize != 1:
            raise ProblemError(f"dtypes {name}: {hint} cannot be read from a {tag} tensor; store it as U8")
        array, dtype = array.view(numpy_dtype(hint)), hint
    return array, describe_carrier(array, dtype)


def _with_layout(name: str, spec: TensorSpec, layout: Any) -> TensorSpec:
    if layout is None:
        return spec
    if not isinstance(layout, Mapping) or not {*layout} <= {*_LAYOUT}:
        raise ProblemError(f"layouts {name}: expected an object of {', '.join(_LAYOUT)}, got {layout!r}")
    return TensorSpec.from_json(name, {**spec.to_json(), **layout})


def _lay_out(name: str, array: Array, spec: TensorSpec, layout: Any) -> tuple[Array, TensorSpec]:
    """Give a stored (contiguous) array the strides of the recorded call."""
    spec = _with_layout(name, spec, layout)
    if spec.is_contiguous or spec.size == 0:
        return array, spec
    order = sorted(range(array.ndim), key=lambda axis: -spec.element_strides[axis])
    permuted = tuple(spec.shape[axis] for axis in order)
    if tuple(spec.element_strides[axis] for axis in order) == compact_strides(permuted):
        return _permute(array, spec.dtype, order), spec
    return _stride(name, array, spec), spec


def _permute(array: Array, dtype: str, order: list[int]) -> Array:
    """The same values with axis ``order[-1]`` adjacent in memory; packed nibbles are re-packed along it."""
    if number_format(dtype).per_byte == 1:
        dense = np.ascontiguousarray(array.transpose(order))
    else:
        values = np.ascontiguousarray(unpack_nibbles(array).transpose(order))
        dense = values[..., 0::2] | (values[..., 1::2] << 4)
    return np.asarray(dense.transpose(np.argsort(order)))


def _stride(name: str, array: Array, spec: TensorSpec) -> Array:
    """The same values in a storage with the gaps of ``spec``."""
    steps = spec.element_strides
    if number_format(spec.dtype).per_byte == 2:
        raise ProblemError(
            f"layouts {name}: expected a permutation of axes for a 4-bit tensor, got strides {list(steps)}"
        )
    if any(step < 0 for step in steps):
        raise ProblemError(f"layouts {name}: expected strides of 0 or more, got {list(steps)}")
    span = 1 + sum((length - 1) * step for length, step in zip(spec.shape, steps, strict=True))
    if span > 64 * max(1, spec.size):
        raise ProblemError(f"layouts {name}: strides {list(steps)} spread {spec.size} elements over {span}")
    storage = np.zeros(span, array.dtype)
    view = np.lib.stride_tricks.as_strided(storage, spec.shape, [step * array.itemsize for step in steps])
    view[...] = array
    if view.tobytes() != array.tobytes():
        raise ProblemError(f"layouts {name}: strides {list(steps)} let elements overlap that differ")
    return view


def unpack_nibbles(packed: Array) -> Array:
    """Codes of 4-bit values, one in a byte, from bytes that hold two along the stride-1 axis."""
    axis = packed_axis(packed)
    bytes_ = np.moveaxis(packed.view(np.uint8), axis, -1)
    codes = np.stack([bytes_ & 0xF, bytes_ >> 4], axis=-1).reshape(*bytes_.shape[:-1], -1)
    return np.moveaxis(codes, -1, axis)


def write_bundle(
    path: str | os.PathLike[str],
    operands: Operands,
    outputs: Mapping[str, Array] | None = None,
    recorded: Mapping[str, Any] | None = None,
) -> None:
    """Write a call as one safetensors file, atomically; ``outputs`` are stored as ``out.<backend>``."""
    problem = operands.problem
    tensors: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    layouts: dict[str, dict[str, Any]] = {}
    for name, array in operands.arrays.items():
        spec = problem.spec(name)
        tensors[name] = _contiguous(array, spec)
        if array.dtype == np.uint8 and spec.dtype != "uint8":
            dtypes[name] = spec.dtype
        layout = {k: v for k, v in spec.to_json().items() if k not in ("shape", "dtype") and v != "ND"}
        if layout:
            layouts[name] = layout
    tensors.update({f"out.{backend}": np.ascontiguousarray(out) for backend, out in (outputs or {}).items()})
    call: dict[str, Any] = {
        "platform": problem.platform,
        "batch": problem.batch,
        "attributes": problem.attributes.to_json(),
        "dtypes": dtypes,
    }
    if layouts:
        call["layouts"] = layouts
    if recorded:
        call["recorded"] = dict(recorded)
    write_tensors(path, tensors, {_METADATA_KEY: json.dumps(call)})


def _contiguous(array: Array, spec: TensorSpec) -> Array:
    """The stored form: row-major in the view's axes, nibbles packed along the last."""
    if number_format(spec.dtype).per_byte == 1 or array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    codes = np.ascontiguousarray(unpack_nibbles(array))
    if codes.shape[-1] % 2:
        raise ProblemError(
            f"a transposed 4-bit view with an odd last axis ({codes.shape[-1]}) cannot be stored"
        )
    return np.asarray(codes[..., 0::2] | (codes[..., 1::2] << 4))


__all__ = ["BundleError", "read_bundle", "write_bundle"]

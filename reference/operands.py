"""A call with its data: a :class:`Problem` and the arrays of its inputs in the device's own layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from reference.formats import FORMATS, number_format, numpy_dtype
from reference.platforms import find_platform
from reference.problem import (
    ARGUMENTS,
    INPUTS,
    Attributes,
    Problem,
    ProblemError,
    TensorSpec,
    compact_strides,
)
from reference.rules.call import Call
from reference.torch_tensors import array_of, carriers, describe_tensor, is_device_tensor, is_tensor

Array = NDArray[Any]
#: ml_dtypes that spend a byte on each 4-bit value; the device packs two in a byte.
_UNPACKED = {np.dtype(ml_dtypes.float4_e2m1fn): "float4_e2m1fn", np.dtype(ml_dtypes.int4): "int4"}
#: Arguments in which the operator itself understands a transposed view.
_KEEPS_STRIDES = ("x2", "scale")


@dataclass(frozen=True, eq=False)
class Operands:
    """One call with its data.

    ``arrays[name]`` has the carrier type of the argument's format: ``ml_dtypes`` arrays for FP8, E8M0
    and BF16, ``uint8`` with two values in a byte (even index in the low nibble) for packed FP4 and INT4,
    ``int32`` words of eight INT4 values for x2 on A2/A3, the plain NumPy type otherwise.  Arguments are
    also attributes: ``operands.x1`` is ``operands.arrays["x1"]``, None where the argument is null.
    ``devices`` holds the torch tensors of arguments whose arrays are copies from a device.
    """

    problem: Problem
    arrays: Mapping[str, Array]
    recorded: Mapping[str, Any] = field(default_factory=dict)
    devices: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", MappingProxyType(dict(self.arrays)))

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"arrays": dict(self.arrays)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __getattr__(self, name: str) -> Array | None:
        if name in INPUTS:
            return self.arrays.get(name)
        raise AttributeError(f"Operands has no attribute {name!r}")

    def __getitem__(self, name: str) -> Array | None:
        if name not in INPUTS:
            raise KeyError(name)
        return self.arrays.get(name)

    @property
    def attributes(self) -> Attributes:
        """The scalar arguments."""
        return self.problem.attributes

    @property
    def batch(self) -> int:
        """Rows of out."""
        return self.problem.batch

    def on_device(self) -> tuple[Problem, dict[str, Any]]:
        """The same call on the tensors in ``devices``, described as they lie there, and its inputs."""
        specs: dict[str, TensorSpec | None] = dict(self.problem.arguments)
        for name, tensor in self.devices.items():
            specs[name] = describe_tensor(name, tensor, self.problem.spec(name).dtype)
        problem = Problem(self.problem.platform, specs, self.problem.attributes)
        return problem, {**self.arrays, **self.devices}

    @classmethod
    def from_arrays(
        cls,
        *,
        platform: str,
        batch: int | None = None,
        out: Any = None,
        dtypes: Mapping[str, str] | None = None,
        **call: Any,
    ) -> Operands:
        """Describe and collect a call.

        Tensor arguments are NumPy arrays, torch CPU tensors or anything with ``__dlpack__``, by the
        operator's names; scalar arguments are the attributes of a problem file.  ``dtypes`` says what
        bytes mean: ``{"x1": "float4_e2m1fn"}`` for packed nibbles in ``uint8``, ``{"scale":
        "float8_e8m0fnu"}`` for scale bytes in ``uint8`` (or float32 powers of two, converted).  ``out``
        (an array) or ``batch`` (its rows) gives the output; without both, out has as many rows as x1.
        Tensors on a device are copied to the host, and kept beside the copies for backends that run there.
        """
        devices = {name: value for name, value in call.items() if is_device_tensor(value)}
        host = {name: value.cpu() if name in devices else value for name, value in call.items()}
        problem, arrays = describe_call(platform=platform, batch=batch, out=out, dtypes=dtypes, **host)
        return cls(problem, arrays, devices=devices)


def describe_call(
    *,
    platform: str,
    batch: int | None = None,
    out: Any = None,
    dtypes: Mapping[str, str] | None = None,
    **call: Any,
) -> tuple[Problem, dict[str, Any]]:
    """The problem of a call, and its inputs by name: arguments as in :meth:`Operands.from_arrays`.

    The inputs are carrier arrays.  A torch tensor on a device is described as it lies there and stays one.
    """
    if dtypes is not None and not isinstance(dtypes, Mapping):
        raise ProblemError(f"dtypes: expected a mapping of arguments to formats, got {dtypes!r}")
    hints = dict(dtypes or {})
    _refuse_unknown(call, hints)
    batch = None if batch is None else _rows_of_out(batch)
    inputs: dict[str, Any] = {}
    specs: dict[str, TensorSpec | None] = {}
    may_transpose = find_platform(platform).family == "950"
    for name in INPUTS:
        value = call.get(name)
        if value is None:
            continue
        if is_device_tensor(value):
            inputs[name], specs[name] = value, describe_tensor(name, value, hints.get(name))
        else:
            keep = may_transpose and name in _KEEPS_STRIDES
            inputs[name], specs[name] = describe_array(name, value, hints.get(name), keep_strides=keep)
    attributes = _read_attributes({key: value for key, value in call.items() if key not in INPUTS})
    specs["scale"] = transpose_flat_scale(specs.get("scale"), specs.get("x2"))
    problem = Problem(platform, specs, attributes)
    specs["out"] = _describe_out(problem, batch, out)
    return Problem(platform, specs, attributes), inputs


def transpose_flat_scale(scale: TensorSpec | None, x2: TensorSpec | None) -> TensorSpec | None:
    """Give a scale (e, 1, n, 2) the strides of a transposed view where x2 is one.

    With k ≤ 64 both layouts are the same bytes, and the operator tells them apart by strides alone.
    """
    if scale is None or x2 is None or not x2.is_transposed or scale.rank != 4 or scale.shape[1] != 1:
        return scale
    return replace(scale, strides=(2 * scale.shape[2], 2, 2, 1)) if scale.is_contiguous else scale


def _refuse_unknown(call: Mapping[str, Any], hints: Mapping[str, str]) -> None:
    known = {*INPUTS, *Attributes.__dataclass_fields__}
    for name in call:
        if name not in known:
            raise ProblemError(f"argument {name!r} is unknown; known: {', '.join(sorted(known))}")
    for name, dtype in hints.items():
        if name not in ARGUMENTS:
            raise ProblemError(f"dtypes: argument {name!r} is unknown; known: {', '.join(ARGUMENTS)}")
        number_format(dtype)


def _read_attributes(given: Mapping[str, Any]) -> Attributes:
    plain = {}
    for key, value in given.items():
        if value is None:
            continue
        plain[key] = value.tolist() if hasattr(value, "tolist") else value
        if key == "tuning_config" and isinstance(value, (list, tuple, range)):
            plain[key] = [item.tolist() if hasattr(item, "tolist") else item for item in value]
    return Attributes.from_json(plain)


def _rows_of_out(batch: Any) -> int:
    if isinstance(batch, (int, np.integer)) and not isinstance(batch, bool) and 0 <= batch < 2**63:
        return int(batch)
    raise ProblemError(f"batch: expected the number of rows of out, an integer of 0 or more, got {batch!r}")


def _describe_out(problem: Problem, batch: int | None, out: Any) -> TensorSpec:
    """The output's description: from the array, from ``batch``, or as the call asks for it."""
    if is_device_tensor(out):
        spec = describe_tensor("out", out)
        if batch is not None and spec.shape[:1] != (batch,):
            raise ProblemError(f"batch: {batch} given, but out has shape {list(spec.shape)}")
        return spec
    if out is not None:
        array = host_array("out", out)
        if batch is not None and array.shape[:1] != (batch,):
            raise ProblemError(f"batch: {batch} given, but out has shape {list(array.shape)}")
        dtype = _dtype_name("out", array)
        _refuse_odd_layout(array)
        strides = element_strides(array)
        compact = strides == compact_strides(array.shape)
        return TensorSpec(tuple(array.shape), dtype, strides=None if compact else strides)
    return _expected_out(problem, batch)


def _expected_out(problem: Problem, batch: int | None) -> TensorSpec:
    """The out that the rules expect of this call, also of a broken one: nobody passed it, so no rule may
    find fault with it.  Extents that x1 and x2 do not tell come from the other arguments."""
    call = Call(problem)
    rows = call.m if batch is None else batch
    if rows is None:
        rows = _first_extent(problem, 0, "x1", "pertoken_scale", "logit", "row_index")
    columns = call.n
    if columns is None:
        columns = _first_extent(problem, -1, "shared_input", "bias", "x2")
    return TensorSpec((rows, columns), "float32")


def _first_extent(problem: Problem, axis: int, *names: str) -> int:
    """The length of ``axis`` in the first of the arguments that is there and has axes; 1 where none is."""
    shapes = [spec.shape for name in names if (spec := problem.arguments[name]) is not None and spec.shape]
    return shapes[0][axis] if shapes else 1


def _refuse_odd_layout(out: Array) -> None:
    """A descriptor's strides count elements, forwards; and no two elements of out may be the same."""
    if not out.dtype.isnative:
        raise ProblemError(
            f"out: expected native byte order, got {out.dtype.str}; "
            "pass out.astype(out.dtype.newbyteorder('='))"
        )
    steps = sorted((step, length) for step, length in zip(out.strides, out.shape, strict=True) if length > 1)
    end = out.itemsize
    for step, length in steps if out.size else ():
        if step < end or step % out.itemsize:
            raise ProblemError(
                "out: expected elements that lie forwards in memory without overlap, "
                f"got strides {out.strides} bytes for shape {out.shape}; pass a contiguous array"
            )
        end = step * (length - 1) + end


def host_array(name: str, value: Any) -> Array:
    """``value`` as a NumPy array that shares its memory where the type allows it."""
    if isinstance(value, np.ndarray):
        return value
    if is_tensor(value):
        return array_of(name, value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise ProblemError(f"{name}: expected an array, got {type(value).__name__}: {error}") from None
    if array.dtype == object:
        raise ProblemError(f"{name}: expected an array, got {type(value).__name__}")
    return array


def element_strides(array: Array) -> tuple[int, ...]:
    """Strides of ``array`` in elements; axes of length 1 get the compact stride, which is what they mean."""
    compact = compact_strides(array.shape)
    return tuple(
        want if length <= 1 else stride // array.itemsize
        for length, stride, want in zip(array.shape, array.strides, compact, strict=True)
    )


def is_dense(array: Array) -> bool:
    """Whether ``array`` is a permutation of the axes of a row-major block without gaps."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return bool(array.transpose(order).flags.c_contiguous)


def describe_array(
    name: str, value: Any, hint: str | None, *, keep_strides: bool
) -> tuple[Array, TensorSpec]:
    """The carrier array of one argument and its description; packs one-byte 4-bit values."""
    array = host_array(name, value)
    packed = hint is None and str(getattr(value, "dtype", "")).endswith("float4_e2m1fn_x2")
    if array.dtype in _UNPACKED:
        dtype, array = _UNPACKED[array.dtype], pack_nibbles(name, array)
    elif packed:
        dtype = "float4_e2m1fn"
    else:
        array, dtype = _apply_hint(name, array, hint)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim and not (keep_strides and is_dense(array)):  # a 0-d array would come out 1-d
        array = np.ascontiguousarray(array)
    return array, describe_carrier(array, dtype)


def describe_carrier(array: Array, dtype: str) -> TensorSpec:
    """The description of a carrier array: dims and strides of 4-bit formats count logical elements."""
    shape, strides = list(array.shape), list(element_strides(array))
    if number_format(dtype).per_byte == 2 and array.ndim:
        axis = packed_axis(array)
        shape[axis] *= 2
        strides = [stride if position == axis else stride * 2 for position, stride in enumerate(strides)]
    compact = tuple(strides) == compact_strides(shape)
    return TensorSpec(tuple(shape), dtype, strides=None if compact else tuple(strides))


def packed_axis(array: Array) -> int:
    """The axis along which 4-bit values share bytes: the one whose neighbours are adjacent in memory."""
    strides = element_strides(array)
    return next((axis for axis in range(array.ndim - 1, -1, -1) if strides[axis] == 1), array.ndim - 1)


def pack_nibbles(name: str, array: Array) -> Array:
    """Pack one-byte 4-bit values two in a byte along the stride-1 axis, even index in the low nibble."""
    axis = packed_axis(array)
    if array.shape[axis] % 2:
        raise ProblemError(
            f"{name}: expected an even number of 4-bit values along axis {axis}, got {array.shape[axis]} in "
            f"shape {list(array.shape)}: the device holds two in a byte; pad the axis with zeros"
        )
    codes = np.moveaxis(array.view(np.uint8), axis, -1)
    return np.moveaxis((codes[..., 0::2] & 0xF) | (codes[..., 1::2] << 4), -1, axis)


def _dtype_name(name: str, array: Array) -> str:
    if array.dtype.name not in FORMATS:
        raise ProblemError(
            f"{name}: dtype {array.dtype.name} is unknown to the operator; known: {', '.join(FORMATS)}"
        )
    return str(array.dtype.name)


def _apply_hint(name: str, array: Array, hint: str | None) -> tuple[Array, str]:
    """Read ``array`` as format ``hint``: bytes are taken as they are, powers of two become E8M0."""
    if hint is None or (array.dtype == numpy_dtype(hint) and number_format(hint).per_byte == 1):
        return array, _dtype_name(name, array)
    carrier = numpy_dtype(hint)
    if array.dtype in (np.dtype(np.uint8), np.dtype(np.int8)) and carrier.itemsize == 1:
        return array.view(carrier), hint
    if hint == "float8_e8m0fnu" and array.dtype.kind == "f":
        return _encode_powers_of_two(name, array).view(carrier), hint
    raise ProblemError(
        f"{name}: dtypes says {hint}, the array holds {array.dtype.name}; expected {carriers(hint)}"
    )


def _encode_powers_of_two(name: str, array: Array) -> Array:
    mantissa, exponent = np.frexp(array.astype(np.float64))
    codes = exponent.astype(np.int64) + 126
    wrong = ~((mantissa == 0.5) & (codes >= 0) & (codes < 255)) & ~np.isnan(array)
    if wrong.any():
        position = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ProblemError(
            f"{name}: E8M0 holds powers of two from 2^-127 to 2^127; got {float(array[position])} "
            f"at {list(position)}; quantise the scale first"
        )
    return np.where(np.isnan(array), 255, codes).astype(np.uint8)

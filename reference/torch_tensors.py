"""torch tensors as NumPy arrays and as descriptions.

torch is never imported here: who has a tensor has torch.  CPU tensors share their memory with the arrays.
Tensors on another device are described as they lie there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.formats import FORMATS, number_format, numpy_dtype
from reference.problem import ProblemError, TensorSpec, compact_strides

Array = NDArray[Any]
#: torch's dtype of two FP4 values in a byte.
_PACKED = "float4_e2m1fn_x2"
#: torch_npu's numbers of the formats whose layout is the plain one (ND, NCHW, NCDHW, NCL).
_PLAIN_FORMATS = (2, 0, 30, 47)
_NZ_FORMATS = {29: "FRACTAL_NZ", 51: "FRACTAL_NZ_C0_32"}


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_device_tensor(value: Any) -> bool:
    """Whether ``value`` is a torch tensor that is not on the CPU."""
    return is_tensor(value) and value.device.type != "cpu"


def dtype_name(tensor: Any) -> str:
    """The name of a tensor's dtype without the module: ``float8_e4m3fn``, ``float4_e2m1fn_x2``, ``int64``."""
    return str(tensor.dtype).removeprefix("torch.")


def array_of(name: str, tensor: Any) -> Array:
    """A CPU tensor as NumPy array without a copy; formats that NumPy lacks come as ``ml_dtypes`` or bytes."""
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu":
        raise ProblemError(f"{name}: expected a CPU tensor, got one on {tensor.device}; pass tensor.cpu()")
    tensor = tensor.detach()
    kind = dtype_name(tensor)
    if kind == _PACKED:
        return np.asarray(tensor.view(torch.uint8).numpy())
    if kind.startswith("float8"):
        return np.asarray(tensor.view(torch.uint8).numpy().view(numpy_dtype(kind)))
    if kind == "bfloat16":
        return np.asarray(tensor.view(torch.int16).numpy().view(numpy_dtype(kind)))
    return np.asarray(tensor.numpy())


def host_copy(name: str, tensor: Any) -> Array:
    """A tensor as array: one on the CPU shares its memory, one on a device is copied from there."""
    if tensor.device.type == "meta":
        raise ProblemError(f"{name}: expected a tensor with data, got one on device meta; pass None for it")
    return array_of(name, tensor.cpu())


def tensor_of(array: Array, packed: str | None = None) -> Any:
    """A NumPy array (``ml_dtypes`` included) as CPU tensor without a copy.

    ``packed="float4_e2m1fn"`` gives bytes of two FP4 values torch's dtype for them.
    """
    torch = sys.modules["torch"]
    kind = array.dtype.name
    if not array.flags.writeable:  # torch has no read-only tensors and warns
        array = array.copy(order="K")
    if packed == "float4_e2m1fn":
        return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, _PACKED))
    if kind.startswith("float8"):
        return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, kind))
    if kind == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def describe_tensor(name: str, tensor: Any, hint: str | None = None) -> TensorSpec:
    """The description of a tensor as it lies in its storage: dims, strides and offset in elements.

    ``hint`` says what the values of a byte tensor mean.  4-bit values count one by one, along the axis whose
    neighbours are adjacent in memory.
    """
    dtype = _element_format(name, tensor, hint)
    shape, strides, offset = list(tensor.shape), list(tensor.stride()), tensor.storage_offset()
    if number_format(dtype).per_byte == 2 and shape:
        axis = _packed_axis(shape, strides)
        shape[axis] *= 2
        strides = [step if position == axis else step * 2 for position, step in enumerate(strides)]
        offset *= 2
    compact = compact_strides(shape)
    meant = tuple(
        want if length <= 1 else step for length, step, want in zip(shape, strides, compact, strict=True)
    )
    return TensorSpec(
        tuple(shape),
        dtype,
        format=_format(name, tensor),
        strides=None if meant == compact else meant,
        offset=offset,
    )


def npu_layout(tensor: Any) -> tuple[Any, ...]:
    """Everything about an NPU tensor but its device that a call of it depends on, beside its data."""
    shape = tensor.shape
    layout = shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.is_neg()
    return (*layout, _format_reader()(tensor)) if len(shape) > 1 else layout


def _element_format(name: str, tensor: Any, hint: str | None) -> str:
    kind = dtype_name(tensor)
    if hint is None:
        kind = "float4_e2m1fn" if kind == _PACKED else kind
        if kind not in FORMATS:
            raise ProblemError(
                f"{name}: dtype {kind} is unknown to the operator; known: {', '.join(FORMATS)}"
            )
        return kind
    carrier = numpy_dtype(hint)
    fits = kind in (hint, f"{hint}_x2") or (kind in ("uint8", "int8") and carrier.itemsize == 1)
    if not fits:
        raise ProblemError(f"{name}: dtypes says {hint}, the tensor holds {kind}; expected {carriers(hint)}")
    return hint


def carriers(dtype: str) -> str:
    """The types of arrays that values of format ``dtype`` come in, for messages."""
    carrier = numpy_dtype(dtype)
    if number_format(dtype).per_byte == 2:
        return f"{dtype}, or uint8 with two values in a byte"
    return f"{carrier.name} or uint8" if carrier.itemsize == 1 and carrier.name != "uint8" else carrier.name


def _packed_axis(shape: list[int], strides: list[int]) -> int:
    ones = [axis for axis in range(len(shape)) if strides[axis] == 1 and shape[axis] != 1]
    return ones[-1] if ones else len(shape) - 1


def _format_number(tensor: Any) -> int:
    """torch_npu's number of the layout; tensors of fewer than two axes and those elsewhere are plain."""
    if tensor.dim() < 2 or "torch_npu" not in sys.modules or tensor.device.type != "npu":
        return _PLAIN_FORMATS[0]
    return int(_format_reader()(tensor))


@cache
def _format_reader() -> Callable[[Any], int]:
    """torch_npu's operator itself: ``torch_npu.get_npu_format`` is one more layer around it."""
    reader: Callable[[Any], int] = sys.modules["torch"].ops.npu.get_npu_format.default
    return reader


def _format(name: str, tensor: Any) -> str:
    number = _format_number(tensor)
    if number in _PLAIN_FORMATS:
        return "ND"
    layout = _NZ_FORMATS.get(number, f"format {number}")
    raise ProblemError(
        f"{name}: expected a tensor in a plain layout, got {layout}; "
        "give it the plain one with torch_npu.npu_format_cast(tensor, 2)"
    )

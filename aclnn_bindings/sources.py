"""Where an argument's data comes from: a host array to upload, or device memory that the caller owns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.formats import number_format, numpy_dtype
from reference.operands import describe_carrier
from reference.problem import TensorSpec

Array = NDArray[Any]


@dataclass(frozen=True)
class DeviceAddress:
    """Device memory of the caller, used where it is: the address of the tensor's storage, before its offset.

    ``owner`` (a torch tensor, say) is kept alive until the stream that uses the memory was synchronised.
    """

    address: int
    owner: object = None


#: The NumPy type of a format's carrier, found once for each format.
carrier_dtype = cache(numpy_dtype)


def storage_elements(spec: TensorSpec) -> int:
    """Elements from the start of the storage to the end of the view, or of the storage where that is
    longer."""
    declared = int(np.prod(spec.storage_shape, dtype=object)) if spec.storage_shape is not None else 0
    if spec.size == 0:
        return declared
    steps = zip(spec.shape, spec.element_strides, strict=True)
    return max(declared, spec.offset + 1 + sum(max(0, (length - 1) * step) for length, step in steps))


def storage_bytes(spec: TensorSpec) -> int:
    """Device bytes that the storage of ``spec`` takes."""
    return number_format(spec.dtype).nbytes(storage_elements(spec))


def storage_image(name: str, array: Array, spec: TensorSpec, nbytes: int) -> Array:
    """An array whose memory, from its first element on, is what the device's storage of ``nbytes`` must hold.

    That is ``array`` itself where its memory already has the layout of ``spec``; nothing is copied then.
    """
    plain = spec.strides is None and array.flags.c_contiguous
    if array.nbytes == nbytes and spec.offset == 0 and (plain or _matches(array, spec)):
        return array
    fmt = number_format(spec.dtype)
    if fmt.per_byte == 2:
        raise ValueError(
            f"{name}: 4-bit values in {spec.describe()}: expected an array of that layout; "
            "pass a contiguous one"
        )
    if array.shape != spec.shape:
        raise ValueError(f"{name}: the array has shape {list(array.shape)}, the call says {list(spec.shape)}")
    image = np.zeros(storage_elements(spec), array.dtype)
    strided_view(image, spec)[...] = array
    return image


def strided_view(storage: Array, spec: TensorSpec) -> Array:
    """The view of ``spec`` in a one-dimensional ``storage`` (types of at least a byte)."""
    steps = [step * storage.itemsize for step in spec.element_strides]
    return np.lib.stride_tricks.as_strided(storage[spec.offset :], spec.shape, steps)


def _matches(array: Array, spec: TensorSpec) -> bool:
    """Whether the array's own description says the same shape and strides."""
    own = describe_carrier(array, spec.dtype)
    return own.shape == spec.shape and own.element_strides == spec.element_strides

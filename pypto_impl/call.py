"""What goes to a kernel: its static description and its arguments as plain NumPy arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_impl.tiling import Tiles, tiles_from

Array = NDArray[Any]


@dataclass(frozen=True)
class KernelSpec:
    """Everything a kernel is compiled for. Rows, group sizes and attributes are not part of it.

    ``kernel`` names the module in :mod:`pypto_impl.kernels`; ``element`` the number format of its
    activations; ``k`` is padded to a multiple of 64 and ``batch`` is the number of rows of ``out``.
    """

    kernel: str
    element: str
    k: int
    n: int
    e: int
    batch: int
    transpose_x2: bool
    has_bias: bool
    has_offset: bool
    has_shared: bool
    tiles: Tiles

    def to_json(self) -> dict[str, Any]:
        """Plain values for :meth:`from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> KernelSpec:
        """The spec that :meth:`to_json` described."""
        return cls(**{**values, "tiles": tiles_from(values["tiles"])})


@dataclass(frozen=True)
class KernelArgument:
    """One tensor argument: its bytes as a NumPy array of a builtin dtype, and the element type they stand
    for.
    """

    name: str
    array: Array
    dtype: str


@dataclass(frozen=True)
class KernelCall:
    """A spec with its arguments in the kernel's order; the last argument is the zeroed result."""

    spec: KernelSpec
    arguments: tuple[KernelArgument, ...]


def as_argument(name: str, array: Array, dtype: str) -> KernelArgument:
    """An argument whose array is contiguous and of a builtin dtype (one- and two-byte floats become
    integers).
    """
    carrier = {1: np.uint8, 2: np.uint16}.get(array.dtype.itemsize)
    contiguous = np.ascontiguousarray(array)
    if array.dtype.kind not in "iufb" and carrier is not None:
        contiguous = contiguous.view(carrier)
    return KernelArgument(name, contiguous, dtype)

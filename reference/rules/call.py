"""One call as phase 1 sees it: after unpacking, after the views it turns, with the extents it reads.

The preparation of phase 1 changes what its checks judge: INT32 x2 becomes INT4 on Atlas A2/A3, a view that
looks transposed is turned, a turned view switches the transpose flag.  The tests look at raw strides, those
of axes of length 1 included (source: op_api IsLastTwoDimsTranspose, IsTransposeForMxScale).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from reference.formats import MX_ELEMENTS
from reference.problem import ARGUMENTS, Problem, TensorSpec
from reference.rules.model import Path

_NZ = ("FRACTAL_NZ", "FRACTAL_NZ_C0_32")


def looks_transposed(spec: TensorSpec) -> bool:
    """Whether phase 1 takes the last two axes of this view for swapped ones."""
    strides, shape = spec.strides, spec.shape
    if strides is None or not 2 <= len(shape) <= 6:
        return False
    rows, columns = shape[-2:]
    if strides[-2] != 1 or strides[-1] != rows or (rows == 1 and columns == 1):
        return False
    return all(strides[axis] == prod(shape[axis + 1 :]) for axis in range(len(shape) - 2))


def scale_looks_transposed(spec: TensorSpec) -> bool:
    """Whether phase 1 takes this MX scale for the transposed view of a (e, n, k/64, 2) tensor."""
    strides, shape = spec.strides, spec.shape
    if strides is None or len(shape) != 4 or (shape[1] == 1 and shape[2] == 1):
        return False
    return strides[1] == 2 and strides[2] == 2 * shape[1] and strides[0] == 2 * shape[1] * shape[2]


class Call:
    """Facts of one call.  Extents are None where null arguments or wrong ranks leave them unknown.

    ``m``, ``k`` as the caller means x1, whatever its strides; ``k2``, ``n``, ``e`` from x2 as phase 1 reads
    it; ``batch`` from out; ``groups`` is ⌈k/64⌉.  ``scale_shape`` is the shape after the turn.
    """

    __slots__ = (
        *ARGUMENTS,
        "attributes",
        "batch",
        "e",
        "empty",
        "groups",
        "k",
        "k2",
        "m",
        "n",
        "nz",
        "on_950",
        "packed",
        "path",
        "problem",
        "routing",
        "scale_shape",
        "scale_turned",
        "values",
        "words",
        "x1_turned",
        "x2_turned",
        "x2_transposed",
    )
    x1: TensorSpec | None
    x2: TensorSpec | None
    scale: TensorSpec | None
    bias: TensorSpec | None
    offset: TensorSpec | None
    antiquant_scale: TensorSpec | None
    antiquant_offset: TensorSpec | None
    pertoken_scale: TensorSpec | None
    group_list: TensorSpec | None
    shared_input: TensorSpec | None
    logit: TensorSpec | None
    row_index: TensorSpec | None
    out: TensorSpec | None
    m: int | None
    k: int | None
    k2: int | None
    n: int | None
    e: int | None
    batch: int | None
    groups: int | None
    scale_shape: tuple[int, ...]
    #: Host values and what they say of the routing; set by the validator where values were given.
    values: Mapping[str, Any]
    routing: Any

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.attributes = problem.attributes
        self.routing = None
        (
            self.x1,
            self.x2,
            self.scale,
            self.bias,
            self.offset,
            self.antiquant_scale,
            self.antiquant_offset,
            self.pertoken_scale,
            self.group_list,
            self.shared_input,
            self.logit,
            self.row_index,
            self.out,
        ) = problem.arguments.values()
        self.on_950 = problem.platform_row.family == "950"
        self._read_x1()
        self._read_x2()
        self._read_scale()
        out = self.out
        self.batch = out.shape[0] if out is not None and len(out.shape) == 2 else None
        self.path: Path = self._find_path() if self.on_950 else "w4a8"
        self.empty = self._find_empty() if self.on_950 else ""

    def _read_x1(self) -> None:
        x1 = self.x1
        self.m = self.k = self.groups = None
        self.x1_turned = x1 is not None and x1.strides is not None and looks_transposed(x1)
        if x1 is not None and (len(x1.shape) == 2 or (not self.on_950 and len(x1.shape) > 2)):
            self.m, self.k = x1.shape[-2:]
            self.groups = -(-self.k // 64)

    def _read_x2(self) -> None:
        x2, attributes = self.x2, self.attributes
        self.k2 = self.n = self.e = None
        self.packed = self.words = self.nz = self.x2_turned = False
        self.x2_transposed = attributes.transpose_x2
        if x2 is None:
            return
        rank = len(x2.shape)
        if self.on_950:
            self.nz = x2.format in _NZ
            self.x2_turned = not attributes.transpose_x2 and x2.strides is not None and looks_transposed(x2)
            self.x2_transposed = attributes.transpose_x2 or self.x2_turned
            if rank == 3:
                self.e, self.k2, self.n = x2.shape
                if attributes.transpose_x2:
                    self.k2, self.n = self.n, self.k2
            return
        self.nz = x2.format == "FRACTAL_NZ"
        self.packed = x2.dtype == "int32"
        if rank >= 2:
            self.e, self.k2, self.n = x2.shape[0], x2.shape[-2], x2.shape[-1] * (8 if self.packed else 1)
            self.words = not self.packed and self._holds_words()
            if self.words:  # the dtype is refused anyway; the other shapes are judged by what was meant
                self.n *= 8

    def _holds_words(self) -> bool:
        """Whether x2 of another dtype has the shape of INT32 words: the scale is eight times as wide."""
        return bool(self.n) and self.scale is not None and self.scale.shape[-1:] == (8 * (self.n or 0),)

    def _read_scale(self) -> None:
        scale = self.scale
        self.scale_turned = False
        self.scale_shape = () if scale is None else scale.shape
        if scale is None or scale.strides is None or not self.on_950:
            return
        if scale.dtype == "float8_e8m0fnu" and self.x1 is not None and self.x1.dtype in MX_ELEMENTS:
            self.scale_turned = scale_looks_transposed(scale)
            if self.scale_turned:
                e, rows, columns, pair = scale.shape
                self.scale_shape = (e, columns, rows, pair)

    def _find_path(self) -> Path:
        x1, x2, scale = self.x1, self.x2, self.scale
        if x1 is None or x2 is None or x1.dtype != "float8_e4m3fn":
            return "mx"
        if x2.dtype == "float4_e2m1fn":
            return "mxa8w4"
        if (
            x2.dtype == "float8_e4m3fn"
            and self.nz
            and scale is not None
            and scale.dtype in ("float32", "bfloat16")
        ):
            return "pertoken"
        return "mx"

    def _find_empty(self) -> str:
        """Which extent is 0 so that phase 1 on Ascend 950 returns before its checker; '' for none."""
        x1, x2 = self.x1, self.x2
        if x1 is None or x2 is None or not x1.shape or len(x2.shape) < 2:
            return ""
        if (x1.shape[-1] if self.x1_turned and len(x1.shape) == 2 else x1.shape[0]) == 0:
            return "m"
        # A turned view (..., k, n) still holds n on its last axis; with the flag it is the last but one.
        return "n" if x2.shape[-2 if self.attributes.transpose_x2 else -1] == 0 else ""

    @property
    def zeros(self) -> str:
        """The extents that are 0, for hints: ``k = 0``."""
        known = {"m": self.m, "k": self.k, "n": self.n, "e": self.e}
        return ", ".join(f"{name} = 0" for name, value in known.items() if value == 0)

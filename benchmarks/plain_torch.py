"""Goldens as they are usually written, in plain torch and NumPy: the baselines of the other benchmarks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from reference.operands import Operands

if TYPE_CHECKING:
    import torch

# The baselines run on the CPU: torch must not load torch_npu, where that is installed, which wants a device.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


def torch_operands(operands: Operands) -> dict[str, torch.Tensor]:
    """The inputs as torch tensors on the same memory."""
    import torch

    kinds = {
        "float8_e4m3fn": torch.float8_e4m3fn,
        "float8_e5m2": torch.float8_e5m2,
        "bfloat16": torch.bfloat16,
    }
    tensors = {}
    for name, array in operands.arrays.items():
        kind = kinds.get(array.dtype.name)
        if array.dtype.name == "float8_e8m0fnu":
            tensors[name] = torch.from_numpy(array.view(np.uint8)).view(torch.float8_e8m0fnu)
        elif kind is not None:
            raw = array.view(np.uint8 if array.itemsize == 1 else np.int16)
            tensors[name] = torch.from_numpy(raw).view(kind)
        else:
            tensors[name] = torch.from_numpy(array)
    return tensors


def mxfp8_golden(operands: Operands, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """Per expert: scales repeated 32 times, a float32 matmul, index_add_; weights (e, k, n), counts."""
    import torch

    k = operands.problem.k
    x = tensors["x1"].float() * tensors["pertoken_scale"].float().flatten(1).repeat_interleave(32, 1)[:, :k]
    out = torch.zeros(operands.batch, operands.problem.n)
    if "shared_input" in tensors:
        first = operands.attributes.shared_input_offset
        shared = tensors["shared_input"].float() * operands.attributes.shared_input_weight
        out[first : first + len(shared)] = shared
    start = 0
    for expert, count in enumerate(tensors["group_list"].tolist()):
        if count:
            scale = tensors["scale"][expert].float().permute(0, 2, 1).flatten(0, 1)
            weight = tensors["x2"][expert].float() * scale.repeat_interleave(32, 0)[:k]
            rows = slice(start, start + count)
            y = (x[rows] @ weight) * tensors["logit"][rows, None]
            out.index_add_(0, tensors["row_index"][rows], y)
        start += count
    return out


def mxfp4_golden(operands: Operands, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """The same for packed FP4: nibbles looked up in a table first; weights (e, k, n), counts."""
    import torch

    table = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])

    def unpack(packed: torch.Tensor) -> torch.Tensor:
        pairs = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)
        return table[pairs.long()]

    unpacked = {**tensors, "x1": unpack(tensors["x1"])}
    weights: Any = _Unpacked(tensors["x2"], unpack)
    return mxfp8_golden(operands, {**unpacked, "x2": weights})


class _Unpacked:
    """Weights that are unpacked when one expert is asked for."""

    def __init__(self, packed: torch.Tensor, unpack: Any) -> None:
        self._packed, self._unpack = packed, unpack

    def __getitem__(self, expert: int) -> torch.Tensor:
        unpacked: torch.Tensor = self._unpack(self._packed[expert])
        return unpacked


def w4a8_golden(operands: Operands, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """Per expert: nibbles unpacked, a float32 matmul, scale, bias and factors, index_add_; counts."""
    import torch

    out = torch.zeros(operands.batch, operands.problem.n)
    start = 0
    shifts = 4 * torch.arange(8, dtype=torch.int32)
    scales = (tensors["scale"] & 0xFFFFE000).to(torch.int32).view(torch.float32)
    for expert, count in enumerate(tensors["group_list"].tolist()):
        if count:
            rows = slice(start, start + count)
            weight = ((tensors["x2"][expert][..., None] >> shifts << 28) >> 28).flatten(1).float()
            y = tensors["x1"][rows].float() @ weight - 8 * weight.sum(0)
            y = y * scales[expert] + tensors["bias"][expert]
            factor = (tensors["pertoken_scale"][rows] * tensors["logit"][rows])[:, None]
            out.index_add_(0, tensors["row_index"][rows], y * factor)
        start += count
    return out


def integer_matmul(x: Any, words: Any) -> Any:
    """Σ_k x·w of one expert through NumPy's integer matmul, weights unpacked from int32 words."""
    weight = ((words[..., None] << (28 - 4 * np.arange(8, dtype=np.int32))) >> 28).reshape(len(words), -1)
    return x.astype(np.int32) @ weight

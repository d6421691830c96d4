"""Cut a call down: some experts, rows, tokens (rows of out), columns or parts of k.

Every cut gives a whole call again: counts, row indices, shared rows and the compensation bias follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.compensation import make_bias
from reference.formats import MX_BLOCK, number_format
from reference.operands import Array, Operands, packed_axis
from reference.problem import Attributes
from reference.routing import to_count

Indices = NDArray[np.int64]
#: Axes of the arguments by what they count; p: pairs of scales, s: shared rows, others stay whole.
_AXES_W4A8 = {
    "x1": "mk",
    "x2": "ekn",
    "scale": "e1n",
    "bias": "en",
    "offset": "e1n",
    "pertoken_scale": "m",
    "shared_input": "sn",
    "logit": "m",
    "row_index": "m",
}
_AXES_MX = {**_AXES_W4A8, "scale": "epn2", "pertoken_scale": "mp2"}
_AXES_MX_TRANSPOSED = {**_AXES_MX, "x2": "enk", "scale": "enp2"}


@dataclass(frozen=True)
class Cutter:
    """Cuts of one kind of call.

    ``n_unit`` columns and ``k_unit`` values of k are cut together, so that no packed word and no pair of
    scales is split; fewer than ``n_least`` columns are no legal call.  ``recompute_bias``: the call's bias is
    the compensation, and stays it.
    """

    axes: dict[str, str]
    n_unit: int
    n_least: int
    k_unit: int
    recompute_bias: bool

    @classmethod
    def of(cls, operands: Operands) -> Cutter:
        """The cutter of calls like ``operands``."""
        if operands.problem.platform_row.family == "a2a3":
            bias = operands.arrays["bias"]
            right = make_bias(operands.arrays["x2"], operands.arrays["scale"])
            return cls(_AXES_W4A8, 8, 72, 64, bool(np.allclose(bias, right, rtol=1e-3, atol=1e-3)))
        transposed = operands.attributes.transpose_x2
        axes = _AXES_MX_TRANSPOSED if transposed else _AXES_MX
        fp4 = number_format(operands.problem.spec("x2").dtype).per_byte
        return cls(axes, fp4, fp4, 2 * MX_BLOCK, False)

    def columns(self, operands: Operands, units: Sequence[int]) -> Operands:
        """The columns of ``units``."""
        return self._take(operands, n=_of_units(units, self.n_unit, operands.problem.n))

    def parts_of_k(self, operands: Operands, units: Sequence[int]) -> Operands:
        """The parts of k of ``units``."""
        return self._take(operands, k=_of_units(units, self.k_unit, operands.problem.k))

    def experts(self, operands: Operands, experts: Sequence[int]) -> Operands:
        """The given experts with their rows, and the unassigned rows."""
        chosen = np.asarray(experts, np.int64)
        owner = owners(operands)
        rows = np.flatnonzero(np.isin(owner, chosen) | (owner == operands.problem.e))
        fewer = self._take(operands, m=rows, e=chosen, counts=counts_of(operands)[chosen])
        return self.without_idle_tokens(fewer)

    def rows(self, operands: Operands, rows: Sequence[int]) -> Operands:
        """The given rows of x1, unassigned ones too."""
        fewer = self._rows(operands, np.asarray(rows, np.int64))
        return self.without_idle_tokens(fewer)

    def tokens(self, operands: Operands, tokens: Sequence[int]) -> Operands:
        """The given rows of out, with the rows of x1 that go to them, and the unassigned rows."""
        chosen = np.asarray(tokens, np.int64)
        owner, target = owners(operands), operands.arrays["row_index"]
        assigned = owner < operands.problem.e
        rows = np.flatnonzero(~assigned | np.isin(target, chosen))
        return self._tokens(self._rows(operands, rows), chosen)

    def without_idle_tokens(self, operands: Operands) -> Operands:
        """Without the rows of out that nothing is added into, but for one: a fault may be there."""
        batch, total = operands.batch, int(counts_of(operands).sum())
        busy = np.zeros(batch, bool)
        busy[operands.arrays["row_index"][:total]] = True
        shared = operands.shared_input
        if shared is not None:
            start = operands.attributes.shared_input_offset
            busy[start : start + len(shared)] = True
        idle = np.flatnonzero(~busy)
        if idle.size and np.count_nonzero(busy) < operands.problem.m:
            busy[idle[0]] = True
        return operands if busy.all() else self._tokens(operands, np.flatnonzero(busy))

    def _rows(self, operands: Operands, rows: Indices) -> Operands:
        e = operands.problem.e
        counts = np.bincount(owners(operands)[rows], minlength=e + 1)[:e]
        return self._take(operands, m=rows, counts=counts.astype(np.int64))

    def _tokens(self, operands: Operands, tokens: Indices) -> Operands:
        """Renumber the rows of out; no assigned row may go to one that is left out."""
        number = np.full(operands.batch, -1, np.int64)
        number[tokens] = np.arange(tokens.size)
        total = int(counts_of(operands).sum())
        target = operands.arrays["row_index"].copy()
        target[:total] = number[target[:total]]
        arrays, changes = {**operands.arrays, "row_index": target}, {"batch": int(tokens.size)}
        shared = operands.shared_input
        if shared is not None:
            start = operands.attributes.shared_input_offset
            kept = tokens[(tokens >= start) & (tokens < start + len(shared))]
            arrays["shared_input"] = shared[kept - start]
            changes["shared_input_offset"] = int(np.count_nonzero(tokens < start))
        return rebuild(operands, arrays, **changes)

    def _take(
        self,
        operands: Operands,
        *,
        e: Indices | None = None,
        m: Indices | None = None,
        n: Indices | None = None,
        k: Indices | None = None,
        counts: Indices | None = None,
    ) -> Operands:
        """Select along the named axes; ``counts`` are the rows per expert afterwards."""
        chosen = {"e": e, "m": m, "n": n, "k": k, "p": None if k is None else np.unique(k // (2 * MX_BLOCK))}
        arrays: dict[str, Array] = {}
        for name, array in operands.arrays.items():
            for axis, letter in enumerate(self.axes.get(name, "")):
                indices = chosen.get(letter)
                if indices is not None:
                    array = _take_axis(operands, name, array, axis, indices)
            arrays[name] = array
        if counts is not None:
            arrays["group_list"] = counts if operands.attributes.group_list_type == 1 else np.cumsum(counts)
        cut = rebuild(operands, arrays)
        return with_compensation(cut) if k is not None and self.recompute_bias else cut


def _of_units(units: Sequence[int], width: int, length: int) -> Indices:
    indices = (np.asarray(units, np.int64)[:, None] * width + np.arange(width)).reshape(-1)
    return indices[indices < length]


def _take_axis(operands: Operands, name: str, array: Array, axis: int, indices: Indices) -> Array:
    """Select logical ``indices`` along one axis; the order of axes in memory stays."""
    spec = operands.problem.spec(name)
    shared = 1
    if number_format(spec.dtype).per_byte == 2 and packed_axis(array) == axis:
        shared = 2
    elif name == "x2" and spec.dtype == "int32" and axis == 2:
        shared = 8
    taken = np.take(array, np.unique(indices // shared) if shared > 1 else indices, axis=axis)
    order = sorted(range(array.ndim), key=lambda position: -array.strides[position])
    return np.asarray(np.ascontiguousarray(taken.transpose(order)).transpose(np.argsort(order)))


def counts_of(operands: Operands) -> Indices:
    """Rows per expert."""
    entries = np.asarray(operands.arrays["group_list"], np.int64)
    return entries if operands.attributes.group_list_type == 1 else to_count(entries)


def owners(operands: Operands) -> Indices:
    """The expert of each row of x1; e for an unassigned row."""
    counts = counts_of(operands)
    owner = np.full(operands.problem.m, len(counts), np.int64)
    owner[: counts.sum()] = np.repeat(np.arange(len(counts)), counts)
    return owner


def with_compensation(operands: Operands) -> Operands:
    """The same with the W4A8 bias recomputed from its weights and scales."""
    bias = make_bias(operands.arrays["x2"], operands.arrays["scale"])
    return rebuild(operands, {**operands.arrays, "bias": bias})


def rebuild(operands: Operands, arrays: dict[str, Array], **changes: Any) -> Operands:
    """A call like ``operands`` with other arrays (None: left out), batch and attributes."""
    call: dict[str, Any] = {
        field.name: getattr(operands.attributes, field.name) for field in fields(Attributes)
    }
    call.update({"batch": operands.batch, **changes})
    present = {name: array for name, array in arrays.items() if array is not None}
    shared = present.get("shared_input")
    if shared is None or not len(shared):
        present.pop("shared_input", None)
        call.update({"shared_input_weight": 1.0, "shared_input_offset": 0})
    if call["tuning_config"]:
        rows = len(present["x1"])
        call["tuning_config"] = tuple(min(entry, rows) for entry in call["tuning_config"])
    dtypes = {name: operands.problem.spec(name).dtype for name in present if _needs_hint(operands, name)}
    call.update(present)
    return Operands.from_arrays(platform=operands.problem.platform, dtypes=dtypes, **call)


def _needs_hint(operands: Operands, name: str) -> bool:
    return bool(operands.arrays[name].dtype == np.uint8) and operands.problem.spec(name).dtype != "uint8"


Cut = Callable[[Operands, Sequence[int]], Operands]

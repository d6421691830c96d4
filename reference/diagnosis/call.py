"""A call reduced to some columns of the output, and its recomputation with something changed.

Real weights take seconds to multiply, and there are dozens of mistakes to try: they are tried on a few
columns first.  Products of rows with weights are kept, so that a change of routing, bias, logit or shared
input costs no matmul.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reference.contribution import Contribution
from reference.golden_mx import MxExpert, MxProduct
from reference.golden_operator import Golden, initial, make_expert, routing_of, scatter_add
from reference.golden_w4a8 import W4a8Expert, W4a8Product
from reference.judging import Judge
from reference.operands import Array, Operands
from reference.problem import Problem, TensorSpec

#: Rows of x1 that one expert processes.
Segment = tuple[int, slice]
Scatter = Literal["add", "store", "store_sum", "add_once"]
Expert = MxExpert | W4a8Expert
Maker = Callable[[Operands], Expert]
#: A mistake in words (empty: the hypothesis says it all) and the result that it gives.
Outcome = tuple[str, Golden]

#: Output columns come in groups that no packing splits: int4 has eight values in a word.
COLUMN_GROUP = 8
_FLOAT64 = np.dtype(np.float64)


class Call:
    """``whole``: the call; ``columns``: the output columns looked at; ``out``: the result to explain;
    ``clean``: the golden of the whole call."""

    def __init__(self, whole: Operands, columns: NDArray[np.int64], out: NDArray[Any], clean: Golden) -> None:
        self.whole = whole
        self.columns = columns
        self.operands = reduce_columns(whole, columns)
        self.out = out[:, columns]
        self.is_w4a8 = whole.problem.platform_row.family == "a2a3"
        self.counts, self.targets = routing_of(whole)
        self.total = len(self.targets)
        self._products: dict[tuple[int, int, int], MxProduct | W4a8Product] = {}
        self.clean = golden_columns(clean, columns)
        self.off_clean = judge_all(self.out, self.clean)

    @property
    def arrays(self) -> dict[str, Array]:
        """The reduced arrays."""
        return dict(self.operands.arrays)

    @property
    def segments(self) -> list[Segment]:
        """Which expert processes which rows, as the call asks for it."""
        bounds = np.concatenate([[0], np.cumsum(self.counts)]).tolist()
        return [(g, slice(bounds[g], bounds[g + 1])) for g in range(len(self.counts)) if self.counts[g]]

    def changed(
        self,
        arrays: Mapping[str, Array | None] | None = None,
        *,
        attributes: dict[str, Any] | None = None,
        dtypes: dict[str, str] | None = None,
        **named: Array | None,
    ) -> Operands:
        """The reduced call with other arrays (None leaves one out), attributes or element formats."""
        return change(self.operands, {**(arrays or {}), **named}, attributes, dtypes)

    def reduced(self, name: str, array: Array) -> Array:
        """The looked-at columns of a changed whole ``array`` of argument ``name``."""
        return take_columns(self.whole.problem, name, array, self.columns)

    def initial(self, operands: Operands | None = None) -> Golden:
        """Out before the scatter."""
        return initial(operands or self.operands, _FLOAT64, magnitudes=True)

    def run(
        self,
        operands: Operands | None = None,
        *,
        segments: Sequence[Segment] | None = None,
        scatter: Scatter = "add",
        maker: Maker | None = None,
    ) -> Golden:
        """The golden of ``operands`` with other segments, another scatter or another computation of rows."""
        operands = operands or self.operands
        expert = make_expert(operands, _FLOAT64, magnitudes=True) if maker is None else maker(operands)
        keep = maker is None and self._same_products(operands)
        result = self.initial(operands)
        before = result.out.copy() if scatter == "store_sum" else result.out
        row_index = np.asarray(operands.arrays["row_index"], np.int64)
        with np.errstate(all="ignore"):
            for group, part in self.segments if segments is None else segments:
                if part.start >= part.stop:
                    continue
                contribution = self._contribution(expert, group, part, keep)
                targets = row_index[part]
                legal = (targets >= 0) & (targets < operands.batch)
                if not legal.all():
                    contribution, targets = _chosen(contribution, legal), targets[legal]
                store(result, targets, contribution, scatter, before)
        return result

    def _contribution(self, expert: Expert, group: int, part: slice, keep: bool) -> Contribution:
        key = (group, part.start, part.stop)
        product = self._products.get(key) if keep else None
        if product is None:
            product = expert.product(group, part)
            if keep:
                self._products[key] = product
        return expert.finish(group, part, product.copy())  # type: ignore[arg-type]

    def _same_products(self, operands: Operands) -> bool:
        """Whether the products of rows with weights are those of the unchanged call."""
        names = ("x1", "x2") if self.is_w4a8 else ("x1", "x2", "scale", "pertoken_scale")
        same = all(operands.arrays[name] is self.operands.arrays[name] for name in names)
        return same and all(operands.problem.spec(n) == self.operands.problem.spec(n) for n in names)


def judge_all(out: NDArray[Any], golden: Golden) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Differences of ``out`` from ``golden`` (0 where both are the same NaN or infinity), and which are
    beyond the bound."""
    off, beyond = np.empty(golden.out.shape), np.empty(golden.out.shape, bool)
    for part in Judge(golden).judge(out, golden.out):
        rows = slice(part.first, part.first + len(part.a))
        beyond[rows] = part.ratio > 1.0
        off[rows] = part.difference
        if not part.finite:
            special = ~np.isfinite(part.difference)
            off[rows][special] = np.where(beyond[rows][special], np.inf, 0.0)
    return off, beyond


def golden_columns(golden: Golden, columns: NDArray[np.int64]) -> Golden:
    """Some columns of a golden with magnitudes."""
    if len(columns) == golden.out.shape[1]:
        return golden
    magnitude = None if golden.magnitude is None else golden.magnitude[:, columns]
    rounding = None if golden.rounding is None else golden.rounding[:, columns]
    return replace(golden, out=golden.out[:, columns], magnitude=magnitude, rounding=rounding)


def store(
    result: Golden, targets: NDArray[np.int64], part: Contribution, scatter: Scatter, before: NDArray[Any]
) -> None:
    """Bring a contribution into ``result``; every way but ``add`` is a mistake.

    ``store`` overwrites, ``store_sum`` overwrites with the initial value plus the row, ``add_once`` adds
    only the last of an expert's rows that hit the same row of out.
    """
    if scatter == "add":
        scatter_add(result, targets, part)
        return
    kept = result.out.copy()
    scatter_add(result, targets, part)
    result.out[...] = kept
    if scatter == "add_once":
        result.out[targets] += part.value
    else:
        result.out[targets] = part.value + (before[targets] if scatter == "store_sum" else 0.0)


def _chosen(part: Contribution, rows: NDArray[np.bool_]) -> Contribution:
    magnitude = None if part.magnitude is None else part.magnitude[rows]
    rounding = None if part.rounding is None else part.rounding[rows]
    return Contribution(part.value[rows], magnitude, rounding, part.terms)


def change(
    operands: Operands,
    arrays: Mapping[str, Array | None],
    attributes: dict[str, Any] | None = None,
    dtypes: dict[str, str] | None = None,
) -> Operands:
    """``operands`` with some arrays, attributes or element formats replaced; nothing is checked."""
    problem = operands.problem
    specs = dict(problem.arguments)
    for name, dtype in (dtypes or {}).items():
        specs[name] = replace(problem.spec(name), dtype=dtype)
    for name, array in arrays.items():
        if array is None:
            specs[name] = None
    merged = {name: array for name, array in {**operands.arrays, **arrays}.items() if array is not None}
    settings = replace(problem.attributes, **(attributes or {}))
    return Operands(Problem(problem.platform, specs, settings), merged)


def reduce_columns(operands: Operands, columns: NDArray[np.int64]) -> Operands:
    """The call for some columns of out: whole groups of ``COLUMN_GROUP``, in ascending order."""
    problem = operands.problem
    if len(columns) == problem.n:
        return operands
    names = [name for name in ("x2", "scale", "bias", "offset", "shared_input") if operands[name] is not None]
    arrays = {name: take_columns(problem, name, operands.arrays[name], columns) for name in names}
    specs: dict[str, TensorSpec | None] = dict(problem.arguments)
    for name in (*names, "out"):
        specs[name] = _reduced_spec(problem, name, len(columns))
    return Operands(
        Problem(problem.platform, specs, problem.attributes), {**operands.arrays, **arrays}, operands.recorded
    )


def _reduced_spec(problem: Problem, name: str, n: int) -> TensorSpec:
    spec = problem.spec(name)
    shape = list(spec.shape)
    axis = _column_axis(problem, name)
    shape[axis] = n // 8 if spec.dtype == "int32" else n
    return replace(spec, shape=tuple(shape), strides=None, storage_shape=None)


def _column_axis(problem: Problem, name: str) -> int:
    if name in ("bias", "shared_input", "out"):
        return 1
    return 1 if name in ("x2", "scale") and problem.x2_is_transposed else 2


def take_columns(problem: Problem, name: str, array: Array, columns: NDArray[np.int64]) -> Array:
    """Some columns of one argument; packed values stay packed along the axis that they were."""
    axis = _column_axis(problem, name)
    if name == "x2":
        swapped = not array.flags.c_contiguous and array.swapaxes(1, 2).flags.c_contiguous
        per = problem.n // array.shape[axis]
        index = columns[::per] // per
        if swapped:
            kept: Array = np.take(array.swapaxes(1, 2), index, axis=3 - axis).swapaxes(1, 2)
            return kept
        columns = index
    taken: Array = np.take(array, columns, axis=axis)
    return taken

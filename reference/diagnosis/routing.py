"""Mistakes in who works on what: group list, rows, scatter, logit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reference.diagnosis.call import Call, Outcome, Segment
from reference.golden_operator import Golden
from reference.judging import Judge
from reference.operands import Array


def counts_as_totals(call: Call) -> Iterator[Outcome]:
    """Counts read as running totals."""
    if call.operands.attributes.group_list_type != 1:
        return
    yield from _totals(call, call.arrays["group_list"].tolist())


def _totals(call: Call, entries: list[int]) -> Iterator[Outcome]:
    m = call.operands.problem.m
    before, windows = 0, list[Segment]()
    for group, entry in enumerate(entries):
        if before < entry <= m:
            windows.append((group, slice(before, entry)))
        before = entry
    yield "expert g takes rows list[g-1] to list[g]", call.run(segments=windows)
    done, running = 0, list[Segment]()
    for group, entry in enumerate(entries):
        if done < entry <= m:
            running.append((group, slice(done, entry)))
            done = entry
    yield "expert g takes rows up to list[g]", call.run(segments=running)


def totals_as_counts(call: Call) -> Iterator[Outcome]:
    """Running totals read as counts, up to the last row of x1."""
    if call.operands.attributes.group_list_type == 0:
        yield "", call.run(segments=_consecutive(call, call.arrays["group_list"].tolist()))


def count_without_first(call: Call) -> Iterator[Outcome]:
    """Totals turned into counts by differences without a leading 0: expert 0 gets expert 1's count."""
    counts = call.counts.tolist()
    if len(counts) > 1 and counts[0] != counts[1]:
        yield "", call.run(segments=_consecutive(call, [counts[1], *counts[1:]]))


def _consecutive(call: Call, counts: list[int]) -> list[Segment]:
    start, segments = 0, list[Segment]()
    for group, count in enumerate(counts):
        stop = min(start + count, call.operands.problem.m)
        if stop > start:
            segments.append((group, slice(start, stop)))
        start = stop
    return segments


def group_boundary_shifted(call: Call) -> Iterator[Outcome]:
    """Boundaries between experts one row off; the first and the last stay."""
    inner = np.cumsum(call.counts)[:-1]
    for step in (1, -1):
        moved = np.where((inner > 0) & (inner < call.total), inner + step, inner)
        bounds = np.concatenate([[0], np.clip(moved, 0, call.total), [call.total]]).tolist()
        segments = [
            (g, slice(bounds[g], bounds[g + 1])) for g in range(len(call.counts)) if bounds[g + 1] > bounds[g]
        ]
        yield f"by {step:+d}", call.run(segments=segments)


def rows_shifted(call: Call) -> Iterator[Outcome]:
    """Row i computed from row i ± 1 of x1, with or without its scale."""
    for step in (1, -1):
        x1 = _moved(call, call.arrays["x1"], step)
        scale = _moved(call, call.arrays["pertoken_scale"], step)
        yield f"x1 by {step:+d}", call.run(call.changed(x1=x1))
        yield f"x1 and pertoken_scale by {step:+d}", call.run(call.changed(x1=x1, pertoken_scale=scale))
        yield f"pertoken_scale by {step:+d}", call.run(call.changed(pertoken_scale=scale))


def _moved(call: Call, array: Array, step: int) -> Array:
    """Processed rows of ``array`` moved by ``step``, the rest as it is."""
    return np.concatenate([np.roll(array[: call.total], -step, axis=0), array[call.total :]])


def tail_rows_included(call: Call) -> Iterator[Outcome]:
    """Rows behind sum(group_list) processed too, by the last expert or the last one with rows."""
    m, batch = call.operands.problem.m, call.operands.batch
    tail = call.arrays["row_index"][call.total :]
    if not ((tail >= 0) & (tail < batch)).any():
        return
    busy = np.flatnonzero(call.counts)
    for group in sorted({len(call.counts) - 1, int(busy[-1]) if busy.size else 0}):
        yield f"as rows of expert {group}", call.run(segments=[*call.segments, (group, slice(call.total, m))])


def row_index_reversed(call: Call) -> Iterator[Outcome]:
    """row_index read from the end."""
    for what, length in (("of the processed rows", call.total), ("of all rows", call.operands.problem.m)):
        rows = call.arrays["row_index"].copy()
        rows[:length] = rows[:length][::-1]
        yield what, call.run(call.changed(row_index=rows))


def row_index_left_out(call: Call) -> Iterator[Outcome]:
    """Rows written where they stand, or where rows in token order would belong."""
    batch, rows = call.operands.batch, np.arange(call.operands.problem.m)
    yield "row i to row i of out", call.run(call.changed(row_index=rows))
    yield "row i to row i modulo batch", call.run(call.changed(row_index=rows % max(1, batch)))
    if batch and call.total and call.total % batch == 0:
        yield "row i to row i // topk", call.run(call.changed(row_index=rows // (call.total // batch)))
    yield "every row to row 0", call.run(call.changed(row_index=np.zeros_like(rows)))


def row_index_inverted(call: Call) -> Iterator[Outcome]:
    """The inverse permutation in place of row_index."""
    rows = call.arrays["row_index"][: call.total]
    order = np.argsort(rows, kind="stable")
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    for what, wrong in (("argsort(row_index)", order), ("its inverse", inverse)):
        yield (
            what,
            call.run(call.changed(row_index=np.concatenate([wrong, call.arrays["row_index"][call.total :]]))),
        )


def last_write_wins(call: Call) -> Iterator[Outcome]:
    """Rows of out overwritten instead of added to."""
    yield "each row overwrites", call.run(scatter="store")
    yield "each row overwrites with the initial value plus itself", call.run(scatter="store_sum")
    yield "among equal row indices of one expert only the last is added", call.run(scatter="add_once")


def accumulated_into_old(call: Call) -> Iterator[Outcome]:
    """Out not cleared before: the result of an earlier run, or a constant, is still in it."""
    clean, shared = call.clean, _shared_rows(call)
    twice = scaled(clean, 2.0)
    yield "it held this call's result already", twice
    if shared.stop > shared.start:
        out = twice.out.copy()
        out[shared] = clean.out[shared]
        yield "it held this call's result, shared rows were set again", replace(twice, out=out)
        out = twice.out - call.initial().out
        yield "it held this call's result, shared rows were not added again", replace(twice, out=out)
    for constant in _constants(call):
        old = np.full_like(clean.out, constant)
        yield f"it held {constant:.6g} everywhere", _added(clean, old)
        old[shared] = 0.0
        yield f"it held {constant:.6g} outside the shared rows", _added(clean, old)


def _added(golden: Golden, old: NDArray[np.float64]) -> Golden:
    """``golden`` with one more term in each sum."""
    magnitude = None if golden.magnitude is None else golden.magnitude + np.abs(old).astype(np.float32)
    terms = None if golden.terms is None else golden.terms + 1
    return replace(golden, out=golden.out + old, magnitude=magnitude, terms=terms, exact=False)


def scaled(golden: Golden, factor: float) -> Golden:
    """``golden`` times a constant, with its bounds."""
    size = np.float32(abs(factor))
    magnitude = None if golden.magnitude is None else golden.magnitude * size
    rounding = None if golden.rounding is None else golden.rounding * size
    return replace(golden, out=golden.out * factor, magnitude=magnitude, rounding=rounding)


def _constants(call: Call) -> list[float]:
    """What is left of the result without the golden, where that is most certain, and rounded."""
    if not call.out.size:
        return []
    with np.errstate(all="ignore"):
        residual = (call.out - call.clean.out).reshape(-1)
    allowed = Judge(call.clean).bound(slice(None)).reshape(-1)
    certain = residual[np.argsort(allowed, kind="stable")[: max(1, residual.size // 20)]]
    estimate = float(np.median(certain))
    if not np.isfinite(estimate) or estimate == 0.0:
        return []
    return [float(f"{estimate:.2g}"), estimate]


def _shared_rows(call: Call) -> slice:
    start, shared = call.operands.attributes.shared_input_offset, call.operands["shared_input"]
    return slice(start, start + (0 if shared is None else len(shared)))


def expert_missing(call: Call) -> Iterator[Outcome]:
    """One expert's rows never added."""
    for group, _ in call.segments:
        yield f"expert {group}", call.run(segments=[s for s in call.segments if s[0] != group])


def edge_rows_missing(call: Call) -> Iterator[Outcome]:
    """The first or the last row of every expert never added."""
    yield "the last", call.run(segments=[(g, slice(p.start, p.stop - 1)) for g, p in call.segments])
    yield "the first", call.run(segments=[(g, slice(p.start + 1, p.stop)) for g, p in call.segments])


def logit_left_out(call: Call) -> Iterator[Outcome]:
    """Logit not applied, or applied twice."""
    logit = call.arrays["logit"]
    yield "not applied", call.run(call.changed(logit=np.ones_like(logit)))
    yield "applied twice", call.run(call.changed(logit=logit * logit))


def logit_order(call: Call) -> Iterator[Outcome]:
    """Logit taken in another order than the rows'."""
    yield from factor_order(call, "logit")


def factor_order(call: Call, name: str) -> Iterator[Outcome]:
    """A factor per row (logit, pertoken_scale) read in another order."""
    values, rows = call.arrays[name], call.arrays["row_index"][: call.total]
    order = np.argsort(rows, kind="stable")
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    taken = {
        "in token order, rows are in expert order": order,
        "in expert order, this result has it in token order": inverse,
        "reversed": np.arange(call.total)[::-1],
        "by row_index": np.minimum(rows, max(0, len(values) - 1)),
        "of the next row": np.roll(np.arange(call.total), -1),
        "of the row before": np.roll(np.arange(call.total), 1),
        "of row 0 for every row": np.zeros(call.total, np.int64),
    }
    for what, index in taken.items():
        changed = np.concatenate([values[index], values[call.total :]])
        yield what, call.run(call.changed({name: changed}))

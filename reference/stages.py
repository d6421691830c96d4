"""The golden's intermediate stages, for finding the step at which a kernel goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.golden_operands import check_operands
from reference.golden_operator import initial, make_expert, occurrences, routing_of
from reference.operands import Operands

#: What the golden's experts fill in on the way.
Stages = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class GoldenStages:
    """The steps of one call, or of one expert's share of it, in float64.

    For the processed rows, in x1's order: ``rows`` their numbers in x1, ``experts`` and ``targets`` (their
    row_index), and (rows, n) each ``matmul`` (dequantised products; W4A8: s · (Σ x·w − 8·Σ w)), ``bias``
    (after bias and, in W4A8, offset), ``logit`` (after logit and, in W4A8, pertoken_scale: what the row
    adds to out).  ``shared`` (batch, n) is out before the scatter, ``scatter`` (batch, n) after it.
    """

    rows: NDArray[np.int64]
    experts: NDArray[np.int64]
    targets: NDArray[np.int64]
    matmul: NDArray[np.float64]
    bias: NDArray[np.float64]
    logit: NDArray[np.float64]
    shared: NDArray[np.float64]
    scatter: NDArray[np.float64]


def golden_stages(operands: Operands, expert: int | None = None) -> GoldenStages:
    """Compute a call and keep every step; ``expert`` leaves the rows of all other experts out.

    Raises ``ValueError`` where the golden does, and for an expert that x2 does not have.
    """
    check_operands(operands)
    counts, targets = routing_of(operands)
    if expert is not None and not 0 <= expert < len(counts):
        raise ValueError(f"expert: expected 0 ≤ expert < {len(counts)}, got {expert}")
    experts = np.repeat(np.arange(len(counts)), counts)
    rows = np.arange(len(experts)) if expert is None else np.flatnonzero(experts == expert)
    starts = np.concatenate([[0], np.cumsum(counts)])
    shape = (len(rows), operands.problem.n)
    steps: Stages = {name: np.zeros(shape) for name in ("matmul", "bias", "logit")}
    maker = make_expert(operands, np.dtype(np.float64), magnitudes=False)
    done = 0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for group in np.unique(experts[rows]).tolist():
            part = slice(int(starts[group]), int(starts[group + 1]))
            kept: Stages = {}
            kept["logit"] = maker.rows(group, part, kept).value
            for name, values in kept.items():
                steps[name][done : done + part.stop - part.start] = values
            done += part.stop - part.start
        shared = initial(operands, np.dtype(np.float64), magnitudes=False).out
        scatter = shared.copy()
        for chosen in occurrences(targets[rows]):
            scatter[targets[rows][chosen]] += steps["logit"][chosen]
    return GoldenStages(rows, experts[rows], targets[rows], **steps, shared=shared, scatter=scatter)

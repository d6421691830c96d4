"""Routings for test data: which expert serves which token, as the operator receives it.

Rows of x1 are sorted by expert; the first ``sum(counts)`` rows are assigned, the rest is an unassigned tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: A row index that no output has: a tail row that is read by mistake fails loudly.
POISON_ROW = 2**40


@dataclass(frozen=True)
class Routing:
    """``counts`` (e,) rows per expert; ``row_index`` (m,) and ``logit`` (m,) float32 of the rows of x1."""

    counts: NDArray[np.int64]
    row_index: NDArray[np.int64]
    logit: NDArray[np.float32]


def route_tokens(rng: np.random.Generator, batch: int, topk: int, e: int, skew: float = 0.5) -> Routing:
    """Each token picks ``topk`` different experts, popular ones more often; weights sum to 1 per token."""
    popularity = -skew * np.log(np.arange(1, e + 1))
    scores = rng.gumbel(size=(batch, e)) + rng.permutation(popularity)
    chosen = np.argsort(-scores, axis=1, kind="stable")[:, :topk]
    raw = rng.random((batch, topk)) + 0.1
    weights = (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)
    order = np.argsort(chosen.reshape(-1), kind="stable")
    counts = np.bincount(chosen.reshape(-1), minlength=e).astype(np.int64)
    return Routing(counts, (order // topk).astype(np.int64), weights.reshape(-1)[order])


def route_counts(rng: np.random.Generator, counts: Sequence[int], m: int, batch: int) -> Routing:
    """Given rows per expert: random tokens and weights for assigned rows, poison in the tail rows."""
    rows = rng.integers(0, max(batch, 1), m, dtype=np.int64)
    logit = (rng.random(m, dtype=np.float32) + 0.1).astype(np.float32)
    total = int(sum(counts))
    rows[total:] = POISON_ROW
    logit[total:] = np.nan
    return Routing(np.asarray(counts, np.int64), rows, logit)


def zipf_counts(total: int, e: int, exponent: float = 1.2) -> list[int]:
    """``total`` rows over ``e`` experts, the i-th most popular one getting a share of i**-exponent."""
    share = np.arange(1, e + 1, dtype=np.float64) ** -exponent
    bounds = np.rint(np.cumsum(share) / share.sum() * total).astype(int)
    return [int(count) for count in np.diff(bounds, prepend=0)]

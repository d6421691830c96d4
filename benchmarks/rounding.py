"""How large the rounding errors of plain float32 sums are, in units of √terms · 2^-24 · Σ|terms|.

The comparator allows C of these units (reference.judging).  This script sums terms in float32 in several
orders and prints the largest error seen, for random data, for products of quantised values as the operator
forms them, and for constant data, whose rounding errors are not random.

    python benchmarks/rounding.py [--trials 40] [--seed 0]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reference.formats import decode_table
from reference.judging import C

Terms = NDArray[np.float32]
LENGTHS = (3, 10, 32, 100, 1000, 8192, 65536)
#: Sums computed side by side.
WIDTH = 256


def sequential(terms: Terms) -> Terms:
    """One after the other, each column a sum of its own."""
    total = np.zeros(terms.shape[1], np.float32)
    for row in terms:
        total += row
    return total


def reversed_order(terms: Terms) -> Terms:
    """From the end."""
    return sequential(terms[::-1])


def sorted_ascending(terms: Terms) -> Terms:
    """Sorted by value: of mixed signs the worst order, the negative ones come first."""
    return sequential(np.sort(terms, axis=0))


def blocked(terms: Terms) -> Terms:
    """Blocks of 32, then the blocks' sums, as matmul tiles do."""
    pad = -len(terms) % 32
    padded = np.concatenate([terms, np.zeros((pad, terms.shape[1]), np.float32)])
    return sequential(
        sequential(np.moveaxis(padded.reshape(-1, 32, terms.shape[1]), 1, 0).reshape(32, -1)).reshape(
            -1, terms.shape[1]
        )
    )


def pairwise(terms: Terms) -> Terms:
    """Halves, recursively."""
    while len(terms) > 1:
        if len(terms) % 2:
            terms = np.concatenate([terms, np.zeros((1, terms.shape[1]), np.float32)])
        terms = terms[0::2] + terms[1::2]
    return terms[0]


def shuffled(terms: Terms) -> Terms:
    """A random order, as atomic adds have it."""
    return sequential(terms[np.random.default_rng(len(terms)).permutation(len(terms))])


ORDERS: dict[str, Callable[[Terms], Terms]] = {
    "sequential": sequential,
    "reversed": reversed_order,
    "sorted": sorted_ascending,
    "shuffled": shuffled,
    "blocked": blocked,
    "pairwise": pairwise,
}


def one_sign(rng: np.random.Generator, length: int) -> Terms:
    """Uniform in (0, 1]."""
    return 1 - rng.random((length, WIDTH), dtype=np.float32)


def mixed_signs(rng: np.random.Generator, length: int) -> Terms:
    """Normal."""
    return rng.standard_normal((length, WIDTH), dtype=np.float32)


def wide_range(rng: np.random.Generator, length: int) -> Terms:
    """Both signs, magnitudes over many binades."""
    sign = rng.choice(np.float32([-1, 1]), (length, WIDTH))
    return (sign * np.exp(rng.normal(0, 3, (length, WIDTH)))).astype(np.float32)


def products(rng: np.random.Generator, length: int) -> Terms:
    """E4M3 times E4M3, one power of two for 32 terms: what the operator sums."""
    table = decode_table("float8_e4m3fn")
    values = table[np.isfinite(table)]
    scale = np.exp2(rng.integers(-7, 8, (-(-length // 32), WIDTH)))
    terms = rng.choice(values, (length, WIDTH)) * rng.choice(values, (length, WIDTH))
    return (terms * np.repeat(scale, 32, axis=0)[:length]).astype(np.float32)


def scattered(rng: np.random.Generator, length: int) -> Terms:
    """One-signed rows times a logit of 24 bits: what the scatter sums."""
    logit = rng.random((length, 1), dtype=np.float32)
    return logit * (1 + rng.random((length, WIDTH), dtype=np.float32))


def constant(rng: np.random.Generator, length: int) -> Terms:
    """The same number again and again: errors of one sign, not random."""
    return np.broadcast_to(rng.random(WIDTH, dtype=np.float32), (length, WIDTH))


DATA: dict[str, Callable[[np.random.Generator, int], Terms]] = {
    "one sign": one_sign,
    "mixed signs": mixed_signs,
    "wide range": wide_range,
    "E4M3 products": products,
    "scattered rows": scattered,
    "constant": constant,
}


def largest_ratio(terms: Terms, order: Callable[[Terms], Terms]) -> float:
    """The largest error of the columns' sums, in units of √terms · 2^-24 · Σ|terms|."""
    wide = terms.astype(np.float64)
    unit = np.sqrt(len(terms)) * 2.0**-24 * np.abs(wide).sum(axis=0)
    error = np.abs(order(terms) - wide.sum(axis=0))
    return float((error / np.where(unit == 0, 1, unit)).max())


def main() -> None:
    """Print the largest ratio by data and order, over all lengths."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'':16}" + "".join(f"{name:>12}" for name in ORDERS) + f"{'at length':>12}")
    worst_random = 0.0
    for name, make in DATA.items():
        best = dict.fromkeys(ORDERS, (0.0, 0))
        for length in LENGTHS:
            for trial in range(max(1, min(options.trials, 400_000 // length))):
                terms = make(np.random.default_rng([options.seed, length, trial]), length)
                for order, add in ORDERS.items():
                    best[order] = max(best[order], (largest_ratio(terms, add), length))
        print(
            f"{name:16}"
            + "".join(f"{value:12.3f}" for value, _ in best.values())
            + f"{max(best.values())[1]:12}",
            flush=True,
        )
        if make is not constant:
            worst_random = max(worst_random, *(value for value, _ in best.values()))
    print(f"largest for random data {worst_random:.3f}; the comparator allows C = {C:g}")


if __name__ == "__main__":
    main()

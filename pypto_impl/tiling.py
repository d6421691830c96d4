"""Tile shapes of the kernels: chosen from the expected tokens per expert, checked against on-chip memory.

The choice starts from the rules of the public PyPTO sample (PyPTO-Gym, grouped_matmul_finalize_routing):
narrow row tiles up to 64 tokens per expert, wide ones from 1024 on. The sizes of the buffers are those of
the platform files in the PyPTO 0.2.0 wheel (A2/A3) and of its Ascend 950 platform. This module needs no
PyPTO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

FRACTAL = 16  # rows of the smallest matrix block the cube unit multiplies
ALIGNMENT = 32  # bytes of the smallest on-chip block

Pair = tuple[int, int]


class TilingError(ValueError):
    """Tiles that the architecture cannot hold or that do not fit each other."""


@dataclass(frozen=True)
class Buffers:
    """On-chip memory of one core, in bytes."""

    ub: int
    l0a: int
    l0b: int
    l0c: int
    l1: int


BUFFERS: dict[str, Buffers] = {
    "DAV_2201": Buffers(ub=196608, l0a=65536, l0b=65536, l0c=131072, l1=524288),
    "DAV_3510": Buffers(ub=253952, l0a=65536, l0b=65536, l0c=262144, l1=524288),
}


@dataclass(frozen=True)
class Tiles:
    """Tile shapes in elements.

    ``rows`` is the height of one step over an expert's rows. ``cube_m``, ``cube_k`` and ``cube_n`` are (L0,
    L1) pairs of the matrix product. ``vector`` is the (rows, columns) tile of the element-wise steps.
    """

    rows: int
    cube_m: Pair
    cube_k: Pair
    cube_n: Pair
    vector: Pair


@dataclass(frozen=True)
class Rule:
    """One row of the sample's table: limits that apply up to ``tokens`` per expert."""

    tokens: int
    rows: int
    cube_k: Pair
    cube_n: Pair


RULES: tuple[Rule, ...] = (
    Rule(tokens=64, rows=64, cube_k=(256, 512), cube_n=(256, 512)),
    Rule(tokens=1023, rows=128, cube_k=(256, 256), cube_n=(256, 256)),
    Rule(tokens=2**31 - 1, rows=128, cube_k=(512, 512), cube_n=(128, 256)),
)


def round_up(value: int, step: int) -> int:
    """The smallest multiple of ``step`` that is at least ``value``."""
    return -(-value // step) * step


def choose_tiles(family: str, m: int, k: int, n: int, e: int, expected: int = 0) -> Tiles:
    """Tiles for a call of ``m`` rows, ``e`` experts and products [rows, k] x [k, n] of one-byte elements.

    ``expected`` is the number of tokens per expert if the caller knows it (the operator's tuning_config[0]);
    otherwise m // e is taken. ``k`` must be a multiple of 64.
    """
    tokens = expected if expected > 0 else max(1, m // max(1, e))
    rule = next(rule for rule in RULES if tokens <= rule.tokens)
    rows = min(rule.rows, round_up(tokens, FRACTAL))
    k0 = largest_divisor(k, rule.cube_k[0])
    k1 = max(step for step in range(k0, max(k0, rule.cube_k[1]) + 1, k0) if k % step == 0)
    n0 = min(rule.cube_n[0], round_up(n, ALIGNMENT))
    n1 = min(rule.cube_n[1] // n0 * n0, round_up(n, n0))
    return Tiles(rows, (rows, rows), (k0, k1), (n0, n1), vector_tile(family, rows, n))


def largest_divisor(k: int, limit: int) -> int:
    """The largest power of two from 64 up to ``limit`` that divides ``k``."""
    divisor = 64
    while divisor * 2 <= limit and k % (divisor * 2) == 0:
        divisor *= 2
    return divisor


def vector_tile(family: str, rows: int, n: int) -> Pair:
    """Rows and columns of an element-wise step on float32.

    A tile spans whole rows of ``out`` where the unified buffer holds them: the scatter-add stores row by row.
    Three operands are reckoned, and half of the buffer, so that two tiles can be in flight.
    """
    elements = BUFFERS[family].ub // (2 * 3 * 4)
    columns = round_up(n, ALIGNMENT)
    if columns > elements:
        return 1, elements // ALIGNMENT * ALIGNMENT
    return max(1, min(rows, elements // columns)), columns


def override_tiles(tiles: Tiles, override: Tiles | Mapping[str, int | Sequence[int]] | None) -> Tiles:
    """``tiles`` with the fields of ``override`` in their place; unknown names and wrong shapes raise."""
    if override is None:
        return tiles
    if isinstance(override, Tiles):
        return override
    merged: dict[str, int | Sequence[int]] = asdict(tiles)
    for name, value in override.items():
        if name not in merged:
            known = ", ".join(field.name for field in fields(Tiles))
            raise TilingError(f"tiles: there is no tile {name!r}; known: {known}")
        merged[name] = value
    return tiles_from(merged)


def tiles_from(values: Mapping[str, int | Sequence[int]]) -> Tiles:
    """Tiles from plain values, such as JSON gives."""
    pairs = {name: as_pair(name, values[name]) for name in ("cube_m", "cube_k", "cube_n", "vector")}
    rows = values["rows"]
    if not isinstance(rows, int) or isinstance(rows, bool):
        raise TilingError(f"tiles.rows: expected an int, got {rows!r}")
    return Tiles(rows=rows, **pairs)


def as_pair(name: str, value: int | Sequence[int]) -> Pair:
    """Two ints, or a :class:`TilingError` that says what came."""
    if isinstance(value, int) or len(value) != 2 or not all(type(part) is int for part in value):
        raise TilingError(f"tiles.{name}: expected two ints, got {value!r}")
    return value[0], value[1]


def check_tiles(tiles: Tiles, family: str, k: int, n: int) -> None:
    """Raise :class:`TilingError` with every rule that ``tiles`` break for one-byte elements on ``family``."""
    values = [tiles.rows, *tiles.cube_m, *tiles.cube_k, *tiles.cube_n, *tiles.vector]
    if min(values) < 1:
        raise TilingError(f"tiles: expected positive sizes, got {tiles}")
    broken = [*find_misfits(tiles), *find_overflows(tiles, family)]
    if broken:
        raise TilingError(f"tiles for k {k}, n {n} on {family}: " + "; ".join(broken))


def find_misfits(tiles: Tiles) -> list[str]:
    """Rules between the sizes themselves (PyPTO's matmul and scaled_mm checks)."""
    (m0, m1), (k0, k1), (n0, n1) = tiles.cube_m, tiles.cube_k, tiles.cube_n
    rules = [
        (m0 % FRACTAL == 0, f"cube_m L0 {m0} must be a multiple of {FRACTAL}"),
        (k0 % 64 == 0, f"cube_k L0 {k0} must be a multiple of 64"),
        (n0 % ALIGNMENT == 0, f"cube_n L0 {n0} must be a multiple of {ALIGNMENT}"),
        (m1 % m0 == 0, f"cube_m L1 {m1} must be a multiple of its L0 {m0}"),
        (k1 % k0 == 0, f"cube_k L1 {k1} must be a multiple of its L0 {k0}"),
        (n1 % n0 == 0, f"cube_n L1 {n1} must be a multiple of its L0 {n0}"),
        (tiles.vector[1] % 8 == 0, f"vector columns {tiles.vector[1]} must be a multiple of 8 float32"),
    ]
    return [text for holds, text in rules if not holds]


def find_overflows(tiles: Tiles, family: str) -> list[str]:
    """Buffers that the tiles overflow."""
    (m0, m1), (k0, k1), (n0, n1) = tiles.cube_m, tiles.cube_k, tiles.cube_n
    buffers = BUFFERS[family]
    needs = [
        ("L0A", m0 * k0, buffers.l0a),
        ("L0B", k0 * n0, buffers.l0b),
        ("L0C", m0 * n0 * 4, buffers.l0c),
        ("L1", m1 * k1 + k1 * n1, buffers.l1),
        ("UB", tiles.vector[0] * tiles.vector[1] * 4 * 3, buffers.ub),
    ]
    return [f"{name} needs {need} bytes and has {size}" for name, need, size in needs if need > size]

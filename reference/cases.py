"""The named cases: calls that everyone can name, with operands from a seed.

Sources: ``case1`` to ``registered2`` are the shapes of the published PyPTO sample of this operator;
``w4a8_doc`` is torch_npu's documented call; ``w0``, ``w1`` and ``m0`` are small calls whose results are
known by hand; ``c1`` to ``c18`` are shapes of real models and edge cases cut down to test size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reference.case_data import HAND_MADE, mx_operands, w4a8_operands
from reference.operands import Operands


@dataclass(frozen=True)
class Case:
    """One named case: ``path`` is ``mxfp8``, ``mxfp4`` or ``w4a8``; ``options`` go to its generator."""

    name: str
    path: str
    m: int
    k: int
    n: int
    e: int
    batch: int
    note: str = ""
    platform: str = "ascend950"
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, seed: int = 0) -> Operands:
        """The operands of this case, the same for the same seed."""
        if self.name in HAND_MADE:
            return HAND_MADE[self.name]()
        rng = np.random.Generator(np.random.SFC64([seed, *self.name.encode()]))
        generate: Callable[..., Operands] = w4a8_operands if self.path == "w4a8" else mx_operands
        return generate(rng, self)


def _w4a8(name: str, m: int, k: int, n: int, e: int, batch: int, note: str = "", **options: Any) -> Case:
    platform = options.pop("platform", "atlas_a2")
    return Case(name, "w4a8", m, k, n, e, batch, note, platform, options)


def _mxfp8(name: str, m: int, k: int, n: int, e: int, batch: int, note: str = "", **options: Any) -> Case:
    return Case(name, "mxfp8", m, k, n, e, batch, note, options=options)


def _mxfp4(name: str, m: int, k: int, n: int, e: int, batch: int, note: str = "", **options: Any) -> Case:
    return Case(name, "mxfp4", m, k, n, e, batch, note, options=options)


_SHARED = {"shared_rows": 2, "shared_offset": 1, "shared_weight": 0.5}

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        _mxfp8("case1", 768, 6144, 4096, 32, 128, "large k, 32 experts", shared_rows=128),
        _mxfp8("case2", 768, 8192, 4096, 32, 256, "largest k", shared_rows=256),
        _mxfp8("case3", 128, 5120, 4096, 8, 64, "few rows, 8 experts", shared_rows=64),
        _mxfp8(
            "case4",
            256,
            7168,
            4096,
            16,
            64,
            "E5M2 on both sides",
            shared_rows=64,
            x1="float8_e5m2",
            x2="float8_e5m2",
        ),
        _mxfp8("registered1", 32, 7168, 4096, 8, 4, "every token visits every expert", shared_rows=4),
        _mxfp8("registered2", 1024, 7168, 4096, 8, 128, "128 rows per expert", shared_rows=128),
        _w4a8(
            "w4a8_doc",
            576,
            2048,
            7168,
            8,
            72,
            "the documented k and n, shared rows of the third of four ranks",
            shared_rows=18,
            shared_offset=36,
            tuning_config=(72,),
        ),
        _w4a8("w0", 4, 256, 128, 2, 2, "hand-made: -64 and -224"),
        _w4a8("w1", 4, 256, 128, 2, 2, "w0 with columns that differ"),
        _mxfp8("m0", 1, 64, 64, 1, 1, "hand-made: 64 everywhere"),
        _w4a8("c1", 4, 256, 128, 2, 2, "the same call as w0"),
        _w4a8("c2", 4, 192, 72, 2, 2, "smallest k and n that the checks accept"),
        _w4a8("c3", 64, 256, 128, 4, 16, "one heavy expert", counts=(61, 1, 1, 1), platform="atlas_a3"),
        _w4a8("c4", 24, 320, 136, 9, 8, "a redundant expert; n divisible by 8 only", group_list_type=0),
        _w4a8("c5", 28, 256, 128, 14, 7, "14 experts", offset=True, **_SHARED),
        _w4a8("c6", 1, 256, 128, 1, 1, "one row"),
        _w4a8("c7", 33, 2048, 7168, 2, 17, "documented k and n", counts=(20, 13), platform="atlas_a3"),
        _mxfp8("c8", 8, 64, 64, 2, 4, "integers: exact in float32", integers=True),
        _mxfp8("c9", 8, 32, 64, 2, 4, "NaN bytes in the padding slots", padding=255),
        _mxfp8("c10", 12, 96, 72, 3, 5, "three groups, tokens hit 0 to 3 times", counts=(5, 0, 7), bias=True),
        _mxfp8("c11", 16, 352, 128, 4, 8, "11 groups", group_list_type=0, **_SHARED),
        _mxfp8("c12", 8, 128, 64, 2, 4, "transposed weights", transpose_x2=True, bias=True),
        _mxfp8("c13", 4, 4096, 64, 1, 2, "transposed, k/64 equals n", transpose_x2=True),
        _mxfp8("c14", 8, 64, 64, 2, 4, "E5M2 times E4M3", x1="float8_e5m2"),
        _mxfp4("c15", 8, 64, 64, 2, 4, "FP4"),
        _mxfp4("c16", 8, 176, 66, 2, 4, "FP4, last group partial", transpose_x2=True, bias=True),
        _mxfp8("c17", 0, 64, 64, 2, 4, "a rank without rows", shared_rows=2, shared_offset=1),
        _w4a8("c18_w4a8", 8, 256, 128, 2, 4, "shared rows at offset 1", **_SHARED),
        _mxfp8("c18_mxfp8", 8, 64, 128, 2, 4, "shared rows at offset 1", counts=(3, 2), **_SHARED),
    )
}


def find_case(name: str) -> Case:
    """The case called ``name`` (case-insensitive); ``KeyError`` lists the names."""
    try:
        return CASES[name.lower()]
    except KeyError:
        raise KeyError(f"case {name!r} is unknown; known: {', '.join(CASES)}") from None


def make_case(name: str, seed: int = 0) -> Operands:
    """The operands of the case called ``name``."""
    return find_case(name).make(seed)

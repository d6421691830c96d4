"""Tile choice and its limits: plain Python, no PyPTO."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto_impl.tiling import BUFFERS, Tiles, TilingError, check_tiles, choose_tiles, override_tiles


@pytest.mark.parametrize(
    ("tokens", "rows", "cube_k", "cube_n"),
    [
        (1, 16, (256, 512), (256, 512)),
        (16, 16, (256, 512), (256, 512)),
        (17, 32, (256, 512), (256, 512)),
        (64, 64, (256, 512), (256, 512)),
        (65, 80, (256, 256), (256, 256)),
        (200, 128, (256, 256), (256, 256)),
        (1023, 128, (256, 256), (256, 256)),
        (1024, 128, (512, 512), (128, 256)),
    ],
)
def test_tokens_per_expert_choose_the_samples_tiles(
    tokens: int, rows: int, cube_k: tuple[int, int], cube_n: tuple[int, int]
) -> None:
    tiles = choose_tiles("DAV_3510", m=8 * tokens, k=5120, n=4096, e=8)
    assert (tiles.rows, tiles.cube_m) == (rows, (rows, rows))
    assert (tiles.cube_k, tiles.cube_n) == (cube_k, cube_n)


def test_expected_tokens_replace_the_average() -> None:
    tiles = choose_tiles("DAV_2201", m=64, k=2048, n=7168, e=16, expected=100)
    assert tiles.rows == 112


@pytest.mark.parametrize(
    ("k", "cube_k"), [(64, (64, 64)), (192, (64, 192)), (384, (128, 384)), (2880, (64, 320))]
)
def test_k_tiles_divide_k(k: int, cube_k: tuple[int, int]) -> None:
    assert choose_tiles("DAV_3510", m=16, k=k, n=128, e=2).cube_k == cube_k


@pytest.mark.parametrize(
    ("family", "n", "vector"),
    [
        ("DAV_3510", 66, (16, 96)),
        ("DAV_3510", 4096, (2, 4096)),
        ("DAV_2201", 7168, (1, 7168)),
        ("DAV_2201", 65535, (1, 8192)),
        ("DAV_3510", 65535, (1, 10560)),
    ],
)
def test_a_vector_tile_spans_whole_rows_while_they_fit(family: str, n: int, vector: tuple[int, int]) -> None:
    assert choose_tiles(family, m=16, k=64, n=n, e=1).vector == vector


@given(
    family=st.sampled_from(sorted(BUFFERS)),
    m=st.integers(1, 200_000),
    k=st.integers(1, 1023).map(lambda pairs: 64 * pairs),
    n=st.integers(1, 65535),
    e=st.integers(1, 1024),
)
def test_chosen_tiles_are_always_legal(family: str, m: int, k: int, n: int, e: int) -> None:
    tiles = choose_tiles(family, m, k, n, e)
    check_tiles(tiles, family, k, n)
    assert k % tiles.cube_k[1] == 0


def test_an_override_replaces_single_tiles() -> None:
    chosen = choose_tiles("DAV_3510", m=64, k=256, n=128, e=2)
    assert override_tiles(chosen, {"rows": 16, "cube_k": [64, 128]}) == replace(
        chosen, rows=16, cube_k=(64, 128)
    )
    assert override_tiles(chosen, None) == chosen


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"cube_q": 1}, "tiles: there is no tile 'cube_q'; known: rows, cube_m, cube_k, cube_n, vector"),
        ({"cube_k": 64}, "tiles.cube_k: expected two ints, got 64"),
        ({"vector": [16, 32, 1]}, "tiles.vector: expected two ints, got [16, 32, 1]"),
        ({"rows": True}, "tiles.rows: expected an int, got True"),
    ],
)
def test_a_wrong_override_says_what_is_wrong(override: dict[str, object], message: str) -> None:
    with pytest.raises(TilingError) as caught:
        override_tiles(choose_tiles("DAV_3510", m=64, k=256, n=128, e=2), override)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_every_broken_rule_is_named() -> None:
    tiles = Tiles(rows=24, cube_m=(24, 24), cube_k=(96, 160), cube_n=(2048, 2048), vector=(64, 1028))
    with pytest.raises(TilingError) as caught:
        check_tiles(tiles, "DAV_2201", 2048, 7168)
    assert str(caught.value) == (
        "tiles for k 2048, n 7168 on DAV_2201: cube_m L0 24 must be a multiple of 16; "
        "cube_k L0 96 must be a multiple of 64; cube_k L1 160 must be a multiple of its L0 96; "
        "vector columns 1028 must be a multiple of 8 float32; L0B needs 196608 bytes and has 65536; "
        "L0C needs 196608 bytes and has 131072; UB needs 789504 bytes and has 196608"
    )


def test_the_larger_accumulator_of_ascend_950_is_used() -> None:
    tiles = Tiles(rows=128, cube_m=(128, 128), cube_k=(128, 128), cube_n=(512, 512), vector=(8, 512))
    check_tiles(tiles, "DAV_3510", 128, 512)
    with pytest.raises(TilingError, match="L0C needs 262144 bytes and has 131072"):
        check_tiles(tiles, "DAV_2201", 128, 512)

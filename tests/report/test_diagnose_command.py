"""The command diagnose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import golden, make_case
from reference.safetensors_file import write_tensors

Gmmfr = Callable[..., Any]


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Any], Path]:
    """Save an output as a results file."""

    def save(out: Any) -> Path:
        path = tmp_path / "out.safetensors"
        write_tensors(path, {"out": np.ascontiguousarray(out, np.float32)}, {})
        return path

    return save


def test_names_a_mistake(gmmfr: Gmmfr, saved: Callable[[Any], Path]) -> None:
    out = np.tile(np.float32([[-1408, 1856], [-2288, 2976]]), 64)
    done = gmmfr("diagnose", "w1", saved(out))
    assert done.code == 1
    assert "nibbles-swapped: 4-bit values read high nibble first (of x2): explains every element" in done.out
    assert "rows (tokens): 2 of 2 differ: 0-1" in done.out
    assert "rows of x1: 1, 2; experts: 0, 1" in done.out
    assert done.out.rstrip().endswith("FAIL")


def test_json(gmmfr: Gmmfr, saved: Callable[[Any], Path]) -> None:
    out = np.tile(np.float32([[-1408, 1856], [-2288, 2976]]), 64)
    document = gmmfr("diagnose", "W1", saved(out), "--json").json
    assert document["verdict"] == "FAIL"
    assert document["explanations"][0]["name"] == "nibbles-swapped"
    assert document["explanations"][0]["share"] == 1.0
    assert document["where"]["rows_differ"] == 2
    assert document["comparison"]["mismatches"] == 256
    assert document["tried"] > 50


def test_right_result(gmmfr: Gmmfr, saved: Callable[[Any], Path]) -> None:
    done = gmmfr("diagnose", "c4", saved(golden(make_case("c4")).out))
    assert done.code == 0
    assert "agrees with the golden: all 1088 elements are within" in done.out


def test_nothing_explains_it(gmmfr: Gmmfr, saved: Callable[[Any], Path]) -> None:
    out = golden(make_case("c4")).out
    out[3, 5] += 100
    done = gmmfr("diagnose", "c4", saved(out))
    assert done.code == 1
    assert "variants of classic mistakes gives this result" in done.out
    assert "columns: 1 of 136 differ: 5" in done.out


def test_another_seed_is_another_call(gmmfr: Gmmfr, saved: Callable[[Any], Path]) -> None:
    path = saved(golden(make_case("c4", seed=1)).out)
    assert gmmfr("diagnose", "c4", path, "--seed", 1).code == 0
    assert gmmfr("diagnose", "c4", path).code == 1


def test_wrong_shape(gmmfr: Gmmfr, saved: Callable[[Any], Path]) -> None:
    done = gmmfr("diagnose", "w0", saved(np.zeros((3, 128))))
    assert done.code == 1
    assert "expected (2, 128), got (3, 128)" in done.out


@pytest.mark.parametrize("case", ["nobody", "none.safetensors"])
def test_unknown_names(gmmfr: Gmmfr, saved: Callable[[Any], Path], case: str) -> None:
    done = gmmfr("diagnose", case, saved(np.zeros((2, 128))))
    assert done.code == 2
    assert case in done.err

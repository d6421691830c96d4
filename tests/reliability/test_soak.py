"""A short soak: what .ci/long does for minutes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def load() -> Any:
    spec = importlib.util.spec_from_file_location("soak", Path(__file__).with_name("soak.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mixed_calls_leave_memory_as_it_was() -> None:
    program = load()
    measured = program.soak(4.0)
    assert measured["calls"] > 20
    assert program.complaints(measured, long=False) == []


def test_growth_slowness_and_left_objects_are_complaints() -> None:
    program = load()
    fine = {
        "live_before": {"liveTensors": 0},
        "live_after": {"liveTensors": 0},
        "resident_first": 100 << 20,
        "resident_last": 101 << 20,
        "median_first": 0.01,
        "median_last": 0.011,
        "message": None,
    }
    assert program.complaints(fine, long=True) == []
    for change in (
        {"live_after": {"liveTensors": 1}},
        {"resident_last": 200 << 20},
        {"median_last": 0.05},
        {"message": "EZ9999: left"},
    ):
        assert len(program.complaints({**fine, **change}, long=True)) == 1

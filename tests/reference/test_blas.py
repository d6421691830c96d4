"""One BLAS thread inside the block, what it was before afterwards, also when blocks overlap."""

from __future__ import annotations

import numpy as np
import pytest

from reference import golden, make_case
from reference.blas import _controls, single_threaded_blas


def test_threads_are_one_inside_and_restored_after() -> None:
    controls = _controls()
    if controls is None:
        pytest.skip("this NumPy's BLAS has no control of its threads")
    _, count = controls
    before = count()
    with single_threaded_blas() as outer:
        assert outer
        with single_threaded_blas():
            assert count() == 1
        assert count() == 1
    assert count() == before


def test_the_golden_does_not_depend_on_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("c11", "c4", "c15"):
        parallel = golden(make_case(name), magnitudes=True)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
        serial = golden(make_case(name), magnitudes=True)
        monkeypatch.undo()
        np.testing.assert_array_equal(parallel.out, serial.out)
        np.testing.assert_array_equal(parallel.magnitude, serial.magnitude)

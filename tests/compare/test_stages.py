"""The golden's stages, by hand and against the golden."""

from __future__ import annotations

import numpy as np
import pytest

from reference import golden, golden_stages, make_case


def test_w0_by_hand() -> None:
    """Rows 1 … 4 times 256 weights: matmul s·(Σ x·w - 8·Σ w), then bias ±1024, then logit."""
    stages = golden_stages(make_case("w0"))
    assert stages.experts.tolist() == [0, 0, 1, 1]
    assert stages.targets.tolist() == [0, 1, 1, 0]
    assert stages.matmul[:, 5].tolist() == [-896, -768, 640, 512]
    assert stages.bias[:, 5].tolist() == [128, 256, -384, -512]
    assert stages.logit[:, 5].tolist() == [64, 64, -288, -128]
    assert stages.scatter[:, 5].tolist() == [-64, -224]
    assert not stages.shared.any()


def test_one_expert_of_w0() -> None:
    stages = golden_stages(make_case("w0"), expert=1)
    assert stages.rows.tolist() == [2, 3]
    assert stages.scatter[:, 0].tolist() == [-128, -288]


@pytest.mark.parametrize("name", ["c4", "c5", "c10", "c12", "c16", "c17", "c18_mxfp8"])
def test_last_stage_is_the_golden(name: str) -> None:
    call = make_case(name)
    stages = golden_stages(call)
    np.testing.assert_array_equal(stages.scatter, golden(call).out)
    experts = sum(golden_stages(call, g).scatter - stages.shared for g in range(call.problem.e))
    np.testing.assert_allclose(experts + stages.shared, stages.scatter, rtol=1e-12, atol=1e-9)


def test_expert_out_of_range() -> None:
    with pytest.raises(ValueError, match="expert: expected 0 ≤ expert < 2, got 2"):
        golden_stages(make_case("w0"), expert=2)

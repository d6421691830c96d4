"""The output's memory before a run: what the operator leaves as it was can be told."""

from __future__ import annotations

import numpy as np
import pytest

import aclnn_bindings
from reference import make_case
from reference.sentinel import sentinel_filled, unwritten


def test_what_a_run_leaves_unwritten_can_be_told() -> None:
    """The memory holds the preset until a run, and nothing of it after one."""
    operands = make_case("c18_mxfp8")
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    with aclnn_bindings.Plan(operands.problem, operands.arrays, library=library) as plan:
        plan.preset(sentinel_filled((4, 128)))
        assert unwritten(plan.result()).all()
        assert not unwritten(plan.run()).any()
        with pytest.raises(ValueError, match="out: expected a writable array float32"):
            plan.preset(np.zeros((4, 127), np.float32))

"""Random calls over all paths, layouts, routings and strides: golden and simulator agree within the bound."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference import Operands
from reference.operands import describe_carrier

EXAMPLES = int(os.environ.get("GMMFR_EXAMPLES", "150"))


@st.composite
def calls(draw: Any, recipe: Any) -> Operands:
    """One random valid call."""
    path = draw(st.sampled_from(["mxfp8", "mxfp4", "w4a8"]))
    m, e, batch = draw(st.integers(1, 40)), draw(st.integers(1, 6)), draw(st.integers(1, 12))
    counts = draw_counts(draw, m, e)
    options: dict[str, Any] = {"group_list_type": draw(st.sampled_from([0, 1]))}
    shared = draw(st.integers(0, batch))
    if shared:
        options |= {
            "shared_rows": shared,
            "shared_offset": draw(st.integers(0, batch - shared)),
            "shared_weight": draw(st.sampled_from([1.0, 0.5, 0.0, -2.0])),
        }
    if path == "w4a8":
        k, n = 64 * draw(st.integers(3, 6)), 8 * draw(st.integers(9, 20))
        options |= {"offset": k % 256 == 0 and draw(st.booleans())}
        batch = min(batch, m) if not shared else batch
        m = max(m, batch)
        return recipe(path, m, k, n, e, batch, counts, draw(st.integers(0, 99)), options=options).make()
    step = 2 if path == "mxfp4" else 1
    k, n = step * draw(st.integers(2, 150 // step)), step * draw(st.integers(1, 80 // step))
    options |= {
        "transpose_x2": draw(st.booleans()),
        "bias": draw(st.booleans()),
        "padding": draw(st.sampled_from([127, 255, 0])),
    }
    if path == "mxfp8":
        kinds = st.sampled_from(["float8_e4m3fn", "float8_e5m2"])
        options |= {"x1": draw(kinds), "x2": draw(kinds)}
    m = max(m, batch)
    operands = recipe(path, m, k, n, e, batch, counts, draw(st.integers(0, 99)), options=options).make()
    return strided(operands) if draw(st.booleans()) else operands


def draw_counts(draw: Any, m: int, e: int) -> list[int]:
    bounds = sorted(draw(st.lists(st.integers(0, m), min_size=e, max_size=e)))
    return np.diff(bounds, prepend=0).tolist()


def strided(operands: Operands) -> Operands:
    """The same call with weight and scale as transposed views instead of by flag, or the reverse."""
    arrays = dict(operands.arrays)
    arrays["x2"] = arrays["x2"].transpose(0, 2, 1)
    arrays["scale"] = arrays["scale"].transpose(0, 2, 1, 3)
    flags = {key: getattr(operands.attributes, key) for key in operands.attributes.__dataclass_fields__}
    flags["transpose_x2"] = False
    if not operands.attributes.transpose_x2:  # only a view that ends as (e, k, n) is read as transposed
        return operands
    dtypes = {name: operands.problem.spec(name).dtype for name in ("x1", "x2")}
    assert describe_carrier(arrays["x2"], dtypes["x2"]).shape == (
        operands.problem.e,
        operands.problem.k,
        operands.problem.n,
    )
    return Operands.from_arrays(platform="ascend950", batch=operands.batch, dtypes=dtypes, **arrays, **flags)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_golden_and_simulator_agree(recipe: Any, agrees: Callable[[Operands], None], data: Any) -> None:
    agrees(data.draw(calls(recipe)))

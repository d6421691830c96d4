"""A cut call is what is left of the call: its golden is the golden of the whole, cut the same way."""

from __future__ import annotations

import numpy as np
import pytest

from gmmfr.shrinking.cuts import Cutter, counts_of, owners
from gmmfr.shrinking.values import simplifications
from reference import Operands, golden, make_case, validate

CASES = ("w1", "c2", "c4", "c5", "c10", "c11", "c12", "c15", "c16", "c18_mxfp8", "c18_w4a8")
#: Largest of all cases where summing in another order may show.
TIGHT = 1e-12


def _strided(operands: Operands) -> Operands:
    """The same call with x2 and scale as transposed views, without the flag."""
    flags = {"group_list_type": operands.attributes.group_list_type}
    arrays = {**operands.arrays}
    arrays["x2"], arrays["scale"] = arrays["x2"].swapaxes(1, 2), arrays["scale"].swapaxes(1, 2)
    dtypes = {name: operands.problem.spec(name).dtype for name in ("x1", "x2")}
    return Operands.from_arrays(platform="ascend950", batch=operands.batch, dtypes=dtypes, **arrays, **flags)


def _calls() -> list[pytest.param]:  # type: ignore[valid-type]
    named = [pytest.param(make_case(name), id=name) for name in CASES]
    return [
        *named,
        *(pytest.param(_strided(make_case(name)), id=f"{name}-strided") for name in ("c12", "c16")),
    ]


@pytest.fixture(params=_calls())
def call(request: pytest.FixtureRequest) -> Operands:
    operands: Operands = request.param
    return operands


def _out(operands: Operands) -> np.ndarray:
    return golden(operands).out


def _close(left: np.ndarray, right: np.ndarray) -> bool:
    return bool(np.allclose(left, right, rtol=TIGHT, atol=TIGHT * max(1.0, np.abs(right).max(initial=0))))


def test_columns(call: Operands) -> None:
    cutter = Cutter.of(call)
    units = list(range(0, -(-call.problem.n // cutter.n_unit), 2))
    cut = cutter.columns(call, units)
    columns = (np.array(units)[:, None] * cutter.n_unit + np.arange(cutter.n_unit)).reshape(-1)
    assert cut.problem.n == columns.size
    assert _close(_out(cut), _out(call)[:, columns])


def test_parts_of_k_add_up_to_the_whole(call: Operands) -> None:
    """Without what does not depend on k: shared rows, and on MX the bias."""
    keep = ("shared_input", "bias") if call.problem.platform_row.family == "950" else ("shared_input",)
    plain = call
    for change in simplifications(call, False):
        if any(change.words == f"without {name}" for name in keep):
            plain = change.apply(plain) or plain
    cutter = Cutter.of(plain)
    parts = -(-call.problem.k // cutter.k_unit)
    cuts = [cutter.parts_of_k(plain, [part]) for part in range(parts)]
    assert sum(cut.problem.k for cut in cuts) == call.problem.k
    total = sum(_out(cut) for cut in cuts)
    assert np.allclose(total, _out(plain), rtol=1e-5, atol=1e-5 * np.abs(_out(plain)).max())


def test_experts_keep_their_rows(call: Operands) -> None:
    cutter = Cutter.of(call)
    experts = list(range(0, call.problem.e, 2))
    cut = cutter.experts(call, experts)
    assert counts_of(cut).tolist() == counts_of(call)[experts].tolist()
    others = [expert for expert in range(call.problem.e) if expert not in experts]
    if call.shared_input is None and others and cut.batch == call.batch:
        rest = cutter.experts(call, others)
        if rest.batch == call.batch:
            assert _close(_out(cut) + _out(rest), _out(call))


def test_tokens_keep_their_result(call: Operands) -> None:
    tokens = list(range(0, call.batch, 2))
    cut = Cutter.of(call).tokens(call, tokens)
    assert cut.batch == len(tokens)
    assert _close(_out(cut), _out(call)[tokens])


def test_rows_left_out_are_missing_from_the_sum(call: Operands) -> None:
    cutter = Cutter.of(call)
    total = int(counts_of(call).sum())
    first, second = np.arange(0, total, 2), np.arange(1, total, 2)
    halves = [cutter._rows(call, part) for part in (first, second)]
    assert [half.problem.m for half in halves] == [first.size, second.size]
    shared = cutter._rows(call, first[:0])
    assert _close(_out(halves[0]) + _out(halves[1]) - _out(shared), _out(call))


def test_idle_tokens_go_but_for_one() -> None:
    call = make_case("c10")
    only = Cutter.of(call).tokens(call, range(call.batch))
    target = call.arrays["row_index"]
    rows = np.flatnonzero(target == target[0])
    cut = Cutter.of(only).rows(only, rows)
    assert cut.batch == (2 if rows.size > 1 else 1)


def test_layouts_in_memory_stay() -> None:
    for name in ("c12", "c16"):
        call = _strided(make_case(name))
        cut = Cutter.of(call).columns(call, [0, 2])
        for argument in ("x2", "scale"):
            assert cut.problem.spec(argument).is_transposed or argument == "scale"
            order = np.argsort(-np.array(call.arrays[argument].strides), kind="stable")
            assert np.array_equal(np.argsort(-np.array(cut.arrays[argument].strides), kind="stable"), order)


def test_unassigned_rows_can_be_left_out() -> None:
    call = make_case("c18_mxfp8")
    owner = owners(call)
    assert np.count_nonzero(owner == call.problem.e) == 3
    cut = Cutter.of(call).rows(call, np.flatnonzero(owner < call.problem.e))
    assert cut.problem.m == 5
    assert _close(_out(cut), _out(call)[np.flatnonzero(_busy(call))])


def _busy(call: Operands) -> np.ndarray:
    busy = np.zeros(call.batch, bool)
    busy[call.arrays["row_index"][: counts_of(call).sum()]] = True
    start = call.attributes.shared_input_offset
    busy[start : start + len(call.arrays["shared_input"])] = True
    return busy


def test_simpler_values_give_legal_calls(call: Operands) -> None:
    words = []
    for change in simplifications(call, True):
        simpler = change.apply(call)
        if simpler is not None:
            words.append(change.words)
            assert validate(simpler.problem, simpler.arrays).ok, change.words
            assert change.apply(simpler) is None, f"{change.words}: nothing is left to change"
    assert {"logit 1", "x2 of -1, 0 and 1"} <= set(words)

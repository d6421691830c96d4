"""Rules that Atlas A2/A3 and Ascend 950 test alike, each in its own order."""

from __future__ import annotations

from reference.problem import TensorSpec
from reference.rules.build import experts_by_argument, join_hints
from reference.rules.call import Call
from reference.rules.model import (
    Findings,
    Path,
    Rule,
    Unchecked,
    describe,
    describe_weight,
    one,
    show,
    unknown,
)
from reference.status import INVALID

_ROWS = "it counts rows of out (rank * batch/dp), not elements"
_SHARED_FORM = (
    "shared_input is (batch/dp, n); an older documentation page shows (e), no implementation takes that"
)


def check_group_list_type(call: Call) -> Findings:
    kind = call.attributes.group_list_type
    if kind in (0, 1):
        return None
    return one(
        "group_list_type", "0 (running totals) or 1 (counts)", str(kind), "group_list holds one or the other"
    )


def check_offset_sign(call: Call) -> Findings:
    offset = call.attributes.shared_input_offset
    return None if offset >= 0 else one("shared_input_offset", "0 or more", str(offset), _ROWS)


def check_offset_within(call: Call) -> Findings:
    offset, batch = call.attributes.shared_input_offset, call.batch
    if batch is None:
        return unknown(call, "batch")
    if offset <= batch:
        return None
    return one(
        "shared_input_offset",
        f"at most batch = {batch}",
        str(offset),
        f"{_ROWS}; tested without shared_input too",
    )


def check_shared_rows(call: Call) -> Findings:
    shared, batch = call.shared_input, call.batch
    if shared is None:
        return None
    if len(shared.shape) != 2:
        return Unchecked("shared_input has a wrong rank")
    if batch is None:
        return unknown(call, "batch")
    if shared.shape[0] <= batch:
        return None
    return one(
        "shared_input", f"at most batch = {batch} rows", show(shared.shape), "one row per token of this rank"
    )


def check_shared_columns(call: Call) -> Findings:
    shared, n = call.shared_input, call.n
    if shared is None:
        return None
    if len(shared.shape) != 2:
        return Unchecked("shared_input has a wrong rank")
    if n is None:
        return unknown(call, "n")
    if shared.shape[1] == n:
        return None
    return one("shared_input", f"n = {n} columns", show(shared.shape), _SHARED_FORM)


def check_shared_range(call: Call) -> Findings:
    """offset + rows <= batch, added in 64 bits: a sum that wraps passes (rule shared-range-wrap)."""
    offset, batch, shared = call.attributes.shared_input_offset, call.batch, call.shared_input
    if batch is None:
        return unknown(call, "batch")
    if shared is None:
        rows = 0
    elif len(shared.shape) == 2:
        rows = shared.shape[0]
    else:
        return Unchecked("shared_input has a wrong rank")
    end = offset + rows
    if end <= batch or end > 2**63 - 1:
        return None
    if offset < 0 or rows > batch or (call.on_950 and offset > batch):
        return Unchecked("shared_input_offset or the rows of shared_input are out of range on their own")
    return one(
        "shared_input_offset",
        f"offset + rows at most batch = {batch}",
        f"{offset} + {rows} = {end}",
        _ROWS,
    )


def check_out_columns(call: Call) -> Findings:
    out, n = call.out, call.n
    if out is None:
        return None
    if len(out.shape) != 2:
        return Unchecked("out has a wrong rank")
    if n is None:
        return unknown(call, "n")
    if out.shape[1] == n:
        return None
    words = "; n counts INT4 values, not INT32 words" if call.packed and out.shape[1] * 8 == n else ""
    return one("out", f"n = {n} columns", show(out.shape), f"out is (batch, n){words}")


def check_inner(call: Call) -> Findings:
    if call.k is None or call.k2 is None:
        return unknown(call, "k", "k2")
    if call.k == call.k2:
        return None
    return one("x2", f"k = {call.k} as in x1", f"k = {call.k2}", _weight_axes(call))


def _weight_axes(call: Call) -> str:
    x1 = f"x1 is {describe(call.x1)}" if call.x1 is not None else ""
    hint = f"{x1}, x2 is {describe_weight(call)}"
    if call.on_950 and call.k == call.n:
        hint += "; is transpose_x2 right?" if call.x2_transposed else "; is x2 (e, n, k)? then transpose_x2"
    return hint


def check_group_list_length(call: Call) -> Findings:

    groups = call.group_list
    if groups is None:
        return None
    if len(groups.shape) != 1:
        return Unchecked("group_list has a wrong rank")
    if call.e is None:
        return unknown(call, "e")
    length = groups.shape[0]
    if length == call.e:
        return None
    slicing = f"x2 has {call.e} experts (axis 0)"
    if length > call.e:
        slicing += ": slice group_list to this rank's experts [start, end)"
    return one(
        "group_list", show((call.e,)), show(groups.shape), join_hints(slicing, experts_by_argument(call))
    )


def hint_experts(call: Call, spec: TensorSpec) -> str:
    return join_hints(f"x2 is {describe_weight(call)}", experts_by_argument(call))


def hint_rows(call: Call, spec: TensorSpec) -> str:
    return f"one entry per row of x1 {show(call.x1.shape)}" if call.x1 is not None else ""


#: One row each, to be given its paths and source by a platform's table.
_TEMPLATES = {
    "group-list-type": ("group_list_type is 0 or 1", "", check_group_list_type, 55),
    "shared-offset-sign": ("shared_input_offset is not negative", "", check_offset_sign, 55),
    "shared-offset-range": ("shared_input_offset is at most batch", "", check_offset_within, 55),
    "shared-rows": ("shared_input has at most batch rows", "shape", check_shared_rows, 50),
    "shared-columns": ("shared_input has n columns", "shape", check_shared_columns, 50),
    "shared-range": ("shared_input_offset + rows is at most batch", "", check_shared_range, 55),
    "out-columns": ("out has n columns", "shape", check_out_columns, 50),
    "k-match": ("x1 and x2 have the same k", "shape", check_inner, 45),
    "group-list-length": ("group_list has one entry per expert of x2", "shape", check_group_list_length, 46),
}


def common(name: str, paths: tuple[Path, ...], source: str) -> Rule:
    """The shared rule called ``name`` as a row for ``paths``, with the source that tests it there."""
    title, topic, check, importance = _TEMPLATES[name]
    return Rule(name, title, topic, "rejected", INVALID, source, paths, "checker", check, importance)

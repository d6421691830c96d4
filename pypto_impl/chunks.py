"""A call cut into runs of experts, so that the interpreter's memory stays bounded.

The interpreter keeps a copy of every tensor that a tile reads until the run ends, the weights of all
experts of the run among them. Experts are cut into equal runs; every run adds into the ``out`` of the one
before, so the runs share one compiled kernel. How a call is cut depends on its shapes alone, never on its
routing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pypto_impl.call import Array, KernelArgument, KernelCall

BUDGET = 3 << 30  # bytes that one run may be expected to keep
#: Bytes the interpreter keeps for each tile of rows, per weight element: for every expert of the run, and
#: once.
KEPT: dict[str, tuple[float, float]] = {"mx": (1.0, 5.0), "w4a8_host": (2.0, 5.0), "w4a8_planes": (0.5, 40.0)}
ROWS = ("x1", "pertoken_scale", "logit", "row_index")
EXPERTS = ("x2", "scale", "bias", "offset", "shift", "counts", "starts")
SHARED = ("shared_input", "shared_weight", "shared_rows")


def experts_per_run(call: KernelCall) -> int:
    """The largest divisor of e whose runs are expected to stay within the budget; at least 1."""
    spec = call.spec
    m = find_argument(call, "x1").shape[0]
    each, once = KEPT[spec.kernel]
    fitting = [1]
    for experts in range(2, spec.e + 1):
        tiles = experts + m // spec.tiles.rows
        kept = tiles * (spec.k * spec.n * (experts * each + once) + m * spec.k + 4 * spec.batch * spec.n)
        if spec.e % experts == 0 and kept <= BUDGET:
            fitting.append(experts)
    return fitting[-1]


def find_argument(call: KernelCall, name: str) -> Array:
    """The array of an argument."""
    return next(argument.array for argument in call.arguments if argument.name == name)


def split_call(call: KernelCall) -> Iterator[KernelCall]:
    """The runs of a call; each but the first lacks its ``out``, which is the result of the one before."""
    experts = experts_per_run(call)
    if experts == call.spec.e:
        yield call
        return
    counts = find_argument(call, "counts")
    for first in range(0, call.spec.e, experts):
        if first == 0 or counts[first : first + experts].any():
            yield take_experts(call, first, experts)


def take_experts(call: KernelCall, first: int, experts: int) -> KernelCall:
    """The run of ``experts`` experts from ``first`` on, with their rows; the shared input goes with the
    first run.
    """
    counts = find_argument(call, "counts")[first : first + experts]
    begin = int(find_argument(call, "starts")[first])
    rows = find_argument(call, "x1").shape[0]
    begin = min(begin, rows - 1)  # a run without rows keeps one, which nothing reads
    end = max(begin + int(counts.sum()), begin + 1)
    arguments = []
    for argument in call.arguments:
        array = argument.array
        if argument.name in ROWS:
            array = slice_rows(array, rows, begin, end)
        elif argument.name in EXPERTS and array.shape[0] >= call.spec.e:
            each = array.shape[0] // call.spec.e
            array = array[first * each : (first + experts) * each]
        elif argument.name in SHARED and first > 0:
            array = np.zeros((1, *array.shape[1:]), array.dtype)
        if argument.name == "starts":
            array = array - np.int32(begin)
        arguments.append(KernelArgument(argument.name, array, argument.dtype))
    return KernelCall(replace(call.spec, e=experts), tuple(arguments))


def slice_rows(array: Array, rows: int, begin: int, end: int) -> Array:
    """Rows ``begin`` to ``end`` of an argument that holds ``rows`` of them, once or once per plane."""
    planes = array.reshape(-1, rows, *array.shape[1:])[:, begin:end]
    return np.ascontiguousarray(planes.reshape(-1, *array.shape[1:]))


def with_out(call: KernelCall, out: Array) -> KernelCall:
    """The call with another initial ``out``."""
    last = call.arguments[-1]
    return KernelCall(call.spec, (*call.arguments[:-1], KernelArgument(last.name, out, last.dtype)))

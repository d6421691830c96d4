"""How much memory a call takes to compute, worked out from its shapes before any of it is taken.

A few bytes of a file can ask for any number of output rows; a call that cannot fit into this machine's memory
is refused by name instead of being killed half-way.
"""

from __future__ import annotations

import os
from pathlib import Path

from gmmfr.cli_support import UsageFailure
from reference.formats import number_format
from reference.problem import Problem, TensorSpec

#: Bytes that one element of the output takes at most at one time: float64 result, sum of magnitudes, rounding
#: and allowance of the golden, float32 results of two backends.
_BYTES_PER_RESULT = 40
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def needed_bytes(problem: Problem) -> int:
    """A lower bound of what computing takes: operands on host and device, and the output in every form."""
    specs = [spec for spec in problem.arguments.values() if spec is not None]
    stored = sum(_stored_bytes(spec) for spec in specs)
    out = problem.arguments.get("out")
    return 2 * stored + (0 if out is None else out.size * _BYTES_PER_RESULT)


def _stored_bytes(spec: TensorSpec) -> int:
    """Bytes from the first to the last element of a view."""
    if spec.size == 0:
        return 0
    steps = zip(spec.shape, spec.element_strides, strict=True)
    span = 1 + sum((length - 1) * abs(step) for length, step in steps)
    return number_format(spec.dtype).nbytes(abs(spec.offset) + span)


def memory_of_machine() -> int:
    """Bytes that this process can have at most: the machine's memory, or less in a container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _LIMITS:
        try:
            words = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if words.isdigit():  # "max" where there is no limit
            total = min(total, int(words))
    return total


def check_memory(problem: Problem, source: str) -> None:
    """Raise :class:`UsageFailure` for a call that cannot be computed in this machine's memory."""
    needed, there = needed_bytes(problem), memory_of_machine()
    if needed <= there:
        return
    out = problem.arguments.get("out")
    shape = "" if out is None else f" (out {out.dtype} {list(out.shape)})"
    raise UsageFailure(
        f"{source}: computing this call takes at least {needed} bytes{shape}; this machine has {there}. "
        "Check its shapes with gmmfr validate, or take a machine with more memory"
    )

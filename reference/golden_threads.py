"""The golden's experts, several at once: a thread for each decodes and multiplies with buffers of its own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from reference.blas import single_threaded_blas

if TYPE_CHECKING:
    from reference.contribution import Contribution
    from reference.golden_mx import MxExpert
    from reference.golden_w4a8 import W4a8Expert


def contributions(
    make: Callable[[], MxExpert | W4a8Expert], parts: dict[int, slice]
) -> Iterator[tuple[slice, Contribution]]:
    """The contribution of each expert with rows, in order; several experts at once where that pays.

    ``make`` gives an expert of a thread's own, with its buffers.
    """
    sizes = [part.stop - part.start for part in parts.values()]
    if len(parts) < 2 or 2 * max(sizes) > sum(sizes):
        # One expert has most of the work: threads inside its matmul are better.
        expert = make()
        for group, part in parts.items():
            yield part, _compute(expert, group, part)
        return
    with single_threaded_blas() as single:
        workers = min(len(parts), len(os.sched_getaffinity(0)) if single else 1)
        yield from _in_parallel([make() for _ in range(workers)], parts)


def _in_parallel(
    experts: list[MxExpert | W4a8Expert], parts: dict[int, slice]
) -> Iterator[tuple[slice, Contribution]]:
    """Compute ``parts`` on as many threads as there are ``experts``; at most one result waits per thread."""
    idle: SimpleQueue[MxExpert | W4a8Expert] = SimpleQueue()
    for expert in experts:
        idle.put(expert)

    def task(group: int, part: slice) -> Contribution:
        expert = idle.get()
        try:
            return _compute(expert, group, part)
        finally:
            idle.put(expert)

    waiting: deque[tuple[slice, Future[Contribution]]] = deque()
    with ThreadPoolExecutor(len(experts)) as pool:
        for group, part in parts.items():
            if len(waiting) > len(experts):
                first, future = waiting.popleft()
                yield first, future.result()
            waiting.append((part, pool.submit(task, group, part)))
        for first, future in waiting:
            yield first, future.result()


def _compute(expert: MxExpert | W4a8Expert, group: int, part: slice) -> Contribution:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # infinities and NaNs are results
        return expert.rows(group, part)

"""One call of the operator through the PyPTO kernels: choose, pack, compute, unpack."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pypto_impl.call import KernelCall, KernelSpec
from pypto_impl.capability import FP4, refusal
from pypto_impl.chunks import split_call, with_out
from pypto_impl.environment import availability, device_reason
from pypto_impl.pack_mx import describe_mx, pack_mx
from pypto_impl.pack_w4a8 import describe_w4a8, join_planes, pack_w4a8
from pypto_impl.session import Reply, Session, session
from pypto_impl.tiling import Tiles, check_tiles, choose_tiles, override_tiles, round_up
from reference.operands import Operands
from reference.problem import Problem

Where = Literal["auto", "interpreter", "npu"]
Unpack = Literal["host", "kernel"]
TileOverride = Tiles | Mapping[str, int | Sequence[int]] | None


class NotAvailableError(RuntimeError):
    """The kernels cannot run here, or not where they were asked to; the text is the reason."""


class RefusedError(ValueError):
    """PyPTO cannot compute this call; the text names what it does not take."""


@dataclass(frozen=True)
class Result:
    """What a call gave.

    ``out`` is float32 (batch, n). ``device`` says where it was computed, ``seconds`` how long the
    computation alone took. ``launched`` is False where there was nothing to multiply and ``out`` is the
    initial value. ``statistics`` counts the compiles, traces, runs and scaled products of the process so
    far and gives its peak memory in KiB.
    """

    out: NDArray[np.float32]
    device: str
    seconds: float
    launched: bool = True
    tiles: Tiles | None = None
    statistics: Mapping[str, int] = field(default_factory=dict)


def run(
    operands: Operands,
    *,
    tiles: TileOverride = None,
    timeout: float = 600.0,
    on: Where = "auto",
    unpack: Unpack = "host",
    progress: Callable[[str], None] | None = None,
) -> Result:
    """Compute the operator with PyPTO.

    ``on``: ``npu``, ``interpreter`` (PyPTO's own, on the CPU) or ``auto``, which takes an NPU where CANN's
    toolkit and torch_npu are installed. ``unpack`` says where W4A8 weights are unpacked. ``tiles`` replaces
    some or all tile shapes. ``timeout`` is in seconds; ``progress`` is told of every step. Raises
    :class:`NotAvailableError`, :class:`RefusedError`, ``ValueError`` for routing values out of range,
    :class:`~pypto_impl.tiling.TilingError` and :class:`~pypto_impl.session.KernelError`.
    """
    problem = operands.problem
    if reason := refusal(problem):
        raise RefusedError(f"PyPTO: {reason}")
    engine = choose_engine(problem, on)
    if engine == "npu" and problem.spec("x1").dtype == FP4:
        raise RefusedError(
            "PyPTO: MXFP4 on an NPU needs packed activations, which PyPTO 0.2.0 does not describe"
        )
    if problem.m == 0 or problem.n == 0 or problem.batch == 0:
        return Result(initial_value(operands), "numpy (nothing to launch)", 0.0, launched=False)
    call = prepare(operands, tiles=tiles, unpack=unpack)
    opened = session(engine)
    opened.progress = progress
    opened.start()
    if engine == "npu":
        check_device(problem, opened.label)
        return compute([call], opened, timeout)
    return compute(split_call(call), opened, timeout)


def compute(calls: Iterable[KernelCall], opened: Session, timeout: float) -> Result:
    """Run the calls one after another, each adding into the ``out`` of the one before."""
    deadline = time.monotonic() + timeout
    seconds, reply, spec = 0.0, None, None
    for call in calls:
        call = call if reply is None else with_out(call, reply.out)
        reply, spec = opened.run(call, max(0.0, deadline - time.monotonic())), call.spec
        seconds += reply.seconds
    assert reply is not None
    assert spec is not None
    statistics = {**reply.counters, "peak_kib": reply.peak_kib}
    return Result(unpack_out(spec, reply), opened.label, seconds, True, spec.tiles, statistics)


def choose_engine(problem: Problem, on: Where) -> str:
    """The session to use: ``npu`` or the architecture that the interpreter simulates."""
    if on not in ("auto", "interpreter", "npu"):
        raise ValueError(f"on: expected auto, interpreter or npu, got {on!r}")
    reason = device_reason()
    if on == "npu" and reason:
        raise NotAvailableError(reason)
    if on != "interpreter" and reason is None:
        return "npu"
    if reason := availability(problem.platform):
        raise NotAvailableError(reason)
    return problem.platform_row.pypto_arch


def choose_kernel(problem: Problem, unpack: Unpack) -> str:
    """The kernel module for a problem that is not refused."""
    if problem.platform_row.pypto_arch == "DAV_3510":
        return "mx"
    names = {"host": "w4a8_host", "kernel": "w4a8_planes"}
    if unpack not in names:
        raise ValueError(f"unpack: expected host or kernel, got {unpack!r}")
    return names[unpack]


def prepare(operands: Operands, *, tiles: TileOverride = None, unpack: Unpack = "host") -> KernelCall:
    """The kernel's spec and arguments for operands that are not refused; needs no PyPTO."""
    problem = operands.problem
    kernel, family = choose_kernel(problem, unpack), problem.platform_row.pypto_arch
    width = problem.n // 4 if kernel == "w4a8_planes" else problem.n
    k = round_up(problem.k, 64)
    hint = problem.attributes.tuning_config
    chosen = choose_tiles(family, problem.m, k, width, problem.e, hint[0] if hint else 0)
    chosen = override_tiles(chosen, tiles)
    check_tiles(chosen, family, k, width)
    if kernel == "mx":
        return pack_mx(operands, describe_mx(operands, chosen))
    return pack_w4a8(operands, describe_w4a8(operands, chosen, kernel))


def check_device(problem: Problem, label: str) -> None:
    """Raise :class:`NotAvailableError` when the NPU is not of the call's platform."""
    soc = label.partition("(")[2].partition(",")[0]
    if not problem.platform_row.has_soc(soc):
        raise NotAvailableError(f"the call is for {problem.platform}, the NPU is {soc}")


def unpack_out(spec: KernelSpec, reply: Reply) -> NDArray[np.float32]:
    """``out`` (batch, n) from the kernel's last argument."""
    return join_planes(reply.out, spec.batch) if spec.kernel == "w4a8_planes" else reply.out


def initial_value(operands: Operands) -> NDArray[np.float32]:
    """``out`` before anything is added: zeros, and the weighted shared input at its offset."""
    problem = operands.problem
    out = np.zeros((problem.batch, problem.n), np.float32)
    shared = operands.arrays.get("shared_input")
    if shared is not None:
        first = problem.attributes.shared_input_offset
        weight = np.float32(problem.attributes.shared_input_weight)
        out[first : first + shared.shape[0]] = shared.astype(np.float32) * weight
    return out

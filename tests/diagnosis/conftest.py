"""A plain float32 kernel, written row by row from the operator's definition, that makes mistakes on order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from reference import CASES, Operands

Array = NDArray[Any]

#: Cases small enough to run every mistake on: all but the shapes of real models.
SMALL = [name for name, case in CASES.items() if case.k * case.n * case.e < 2_000_000]
#: Of these the ones on which naming is tried in every run; .ci/long tries all.
NAMED = ["w1", "c2", "c10", "c16", "c18_w4a8", "c18_mxfp8"]

#: The mistakes, by what the kernel calls them, and the name that diagnose has for each.
MISTAKES = {
    "nibbles of w": "nibbles-swapped",
    "nibbles of x": "nibbles-swapped",
    "nibbles of x and w": "nibbles-swapped",
    "nibbles of w and bias": "nibbles-swapped",
    "weights of the next expert": "weights-of-other-expert",
    "scales of the next expert": "scales-of-other-expert",
    "bias of the next expert": "bias-of-other-expert",
    "x slots": "scale-slots",
    "w slots": "scale-slots",
    "slots of x and w": "scale-slots",
    "scale sides": "scale-sides",
    "scale transposed": "scale-layout",
    "linear": "scale-linear",
    "byte + 1": "scale-off-by-one",
    "byte - 1": "scale-off-by-one",
    "no scale": "scale-left-out",
    "scale cast": "scale-bits",
    "counts as totals": "counts-as-totals",
    "totals as counts": "totals-as-counts",
    "boundary + 1": "group-boundary",
    "boundary - 1": "group-boundary",
    "x row + 1": "rows-shifted",
    "tail": "tail-rows",
    "row_index reversed": "row-index-reversed",
    "row_index ignored": "row-index-left-out",
    "last write": "last-write-wins",
    "twice": "old-output",
    "old constant": "old-output",
    "no logit": "logit-left-out",
    "logit in token order": "logit-order",
    "logit reversed": "logit-order",
    "pertoken reversed": "pertoken-order",
    "no bias": "bias-left-out",
    "bias / 8": "bias-factor",
    "bias * 2": "bias-factor",
    "bias without scale": "bias-without-scale",
    "bias after logit": "bias-after-logit",
    "no shared": "shared-left-out",
    "shared weight 1": "shared-weight",
    "shared offset 0": "shared-offset",
    "shared through row_index": "shared-scatter",
    "truncation": "nibble-split",
    "second run": "x1-destroyed",
    "no -8": "compensation-left-out",
    "last 64 of k": "tail-of-k",
    "expert missing": "expert-missing",
    "last rows missing": "edge-rows-missing",
}


class NotApplicable(Exception):  # noqa: N818 - it is an answer, no error
    """The call has nothing that this mistake could change."""


class PlainKernel:
    """Computes ``out`` (batch, n) float32 of a call, with ``mistake`` (empty: none)."""

    def __init__(self, call: Operands, mistake: str = "") -> None:
        self.call, self.mistake = call, mistake
        problem = call.problem
        self.m, self.k, self.n, self.e, self.batch = problem.m, problem.k, problem.n, problem.e, problem.batch
        self.w4a8 = problem.platform != "ascend950"
        self.counts = np.asarray(call.arrays["group_list"])
        if call.attributes.group_list_type == 0:
            self.counts = np.diff(self.counts, prepend=0)
        self.total = int(self.counts.sum())
        #: What an output that was not cleared holds: a power of two near the largest result.
        largest = (
            float(np.abs(PlainKernel(call).run()).max(initial=1.0)) if mistake == "old constant" else 1.0
        )
        self.old = np.float32(2.0 ** np.rint(np.log2(largest)))
        self._weights = {g: self._weight(g) for g in range(self.e)}

    def has(self, *names: str) -> bool:
        """Whether the mistake is one of ``names``."""
        return self.mistake in names

    def need(self, condition: bool) -> None:
        """Give up where the mistake does not apply."""
        if not condition:
            raise NotApplicable(self.mistake)

    # --- operands -----------------------------------------------------------------------------------

    def _weight(self, g: int) -> Array:
        """Weights (k, n) of expert ``g`` as float32."""
        codes = self.call.arrays["x2"][g]
        if self.w4a8:
            shifts = 4 * np.arange(8)
            if self.has("nibbles of w", "nibbles of w and bias"):
                shifts = shifts.reshape(4, 2)[:, ::-1].reshape(-1)
            nibbles = (codes.astype(np.int64)[:, :, None] >> shifts) & 15
            return np.where(nibbles > 7, nibbles - 16, nibbles).reshape(self.k, self.n).astype(np.float32)
        swap = self.has("nibbles of w", "nibbles of x and w")
        values = self._values(codes, self.call.problem.spec("x2").dtype, swap)
        return values.T if self.call.attributes.transpose_x2 else values

    def _values(self, codes: Array, kind: str, swap: bool) -> Array:
        if kind != "float4_e2m1fn":
            return codes.astype(np.float32)
        pair = [codes >> 4, codes & 15] if swap else [codes & 15, codes >> 4]
        nibbles = np.stack(pair, axis=-1).reshape(*codes.shape[:-1], 2 * codes.shape[-1]).astype(np.uint8)
        return nibbles.view(ml_dtypes.float4_e2m1fn).astype(np.float32)

    def activations(self) -> Array:
        """x1 as numbers, (m, k)."""
        x1 = self.call.arrays["x1"]
        if self.w4a8:
            x = x1.astype(np.int64)
            if self.has("second run"):
                x[: self.total] = overwritten(x[: self.total])
        else:
            swap = self.has("nibbles of x", "nibbles of x and w")
            x = self._values(x1, self.call.problem.spec("x1").dtype, swap)
        if self.has("x row + 1"):
            x = np.concatenate([np.roll(x[: self.total], -1, axis=0), x[self.total :]])
        return x

    def e8m0(self, codes: Array) -> Array:
        """Scale bytes as numbers."""
        raw = np.ascontiguousarray(codes).view(np.uint8).astype(np.int64)
        if self.has("linear"):
            return raw.astype(np.float32)
        if self.has("no scale"):
            return np.ones(raw.shape, np.float32)
        step = {"byte + 1": 1, "byte - 1": -1}.get(self.mistake, 0)
        return np.where(raw == 255, np.nan, np.exp2(raw - 127.0 + step)).astype(np.float32)

    def mx_scales(self) -> tuple[Array, Array]:
        """Scale bytes of x1 (m, k/64, 2) and of x2 (e, k/64, n, 2)."""
        x, w = self.call.arrays["pertoken_scale"], self.call.arrays["scale"]
        if self.has("scale sides"):
            flat = [np.ascontiguousarray(side).view(np.uint8).reshape(-1) for side in (x, w)]
            x, w = np.resize(flat[1], x.shape), np.resize(flat[0], w.shape)
        if self.has("scale transposed"):
            w = np.ascontiguousarray(w).reshape(w.shape[0], w.shape[2], w.shape[1], 2).swapaxes(1, 2)
        if self.has("x slots", "slots of x and w"):
            x = x[..., ::-1]
        if self.has("w slots", "slots of x and w"):
            w = w[..., ::-1]
        return x, w.swapaxes(1, 2) if self.call.attributes.transpose_x2 else w

    # --- rows ---------------------------------------------------------------------------------------

    def rows(self) -> Iterator[tuple[int, int]]:
        """Expert and row of x1, for every processed row in order."""
        counts = self.counts.tolist()
        bounds = np.concatenate([[0], np.cumsum(counts)]).tolist()
        if self.has("counts as totals"):
            self.need(self.call.attributes.group_list_type == 1)
            for g, stop in enumerate(counts):
                start = counts[g - 1] if g else 0
                yield from ((g, i) for i in range(start, stop))
            return
        if self.has("totals as counts"):
            self.need(self.call.attributes.group_list_type == 0)
            bounds = np.minimum(
                np.concatenate([[0], np.cumsum(self.call.arrays["group_list"])]), self.m
            ).tolist()
        step = {"boundary + 1": 1, "boundary - 1": -1}.get(self.mistake, 0)
        for g in range(1, self.e):
            if step and 0 < bounds[g] < self.total:
                bounds[g] = min(self.total, max(0, bounds[g] + step))
        self.need(self.total > 0 or not self.has("expert missing"))
        missing = next(g for g in range(self.e) if counts[g]) if self.has("expert missing") else None
        for g in range(self.e):
            stop = bounds[g + 1] - (1 if self.has("last rows missing") and counts[g] else 0)
            if g != missing:
                yield from ((g, i) for i in range(bounds[g], stop))
        if self.has("tail"):
            self.need(self.total < self.m)
            yield from ((self.e - 1, i) for i in range(self.total, self.m))

    def product(self, x: Array, scales: tuple[Array, Array] | None, g: int, i: int) -> Array:
        """One row before bias."""
        other = (g + 1) % self.e
        w = self._weights[other if self.has("weights of the next expert") else g]
        s = other if self.has("scales of the next expert") else g
        if self.has("last 64 of k"):
            self.need(self.k > 64)
            w = np.concatenate([w[:-64], np.zeros_like(w[-64:])])
        if scales is None:
            return self.w4a8_product(x[i], w, s)
        index = np.arange(self.k)
        xs = self.e8m0(scales[0][i])[index // 64, index // 32 % 2]
        ws = self.e8m0(scales[1][s])[index // 64, :, index // 32 % 2]
        return np.asarray((x[i] * xs) @ (w * ws), np.float32)

    def w4a8_product(self, x: Array, w: Array, s: int) -> Array:
        high = np.trunc(x / 16).astype(np.int64) if self.has("truncation") else x >> 4
        low = (x & 15) - (0 if self.has("no -8") else 8)
        stored = self.call.arrays["scale"][s, 0]
        scale = (stored & 0xFFFFE000).astype(np.uint32).view(np.float32)
        if self.has("scale cast"):
            scale = stored.astype(np.float32)
        if self.has("no scale"):
            scale = np.ones_like(scale)
        halves = [((part @ w.astype(np.int64)) * scale).astype(np.float32) for part in (high, low)]
        with np.errstate(over="ignore", invalid="ignore"):
            if np.abs(halves).max(initial=0.0) < 60000:  # beyond that half precision hides the mistake
                halves = [half.astype(np.float16).astype(np.float32) for half in halves]
            return np.asarray(16 * halves[0] + halves[1], np.float32)

    def bias(self, g: int) -> Array | float:
        """Bias of expert ``g``, (n,)."""
        if self.call["bias"] is None:
            self.need(not (self.mistake.startswith("bias") or self.has("no bias")))
            return 0.0
        bias = self.call["bias"][(g + 1) % self.e if self.has("bias of the next expert") else g]
        values = bias.astype(np.float32)
        if self.has("bias without scale", "nibbles of w and bias"):
            self.need(self.w4a8)
            scale = (self.call.arrays["scale"][g, 0] & 0xFFFFE000).astype(np.uint32).view(np.float32)
            sums = 8 * self._weights[g].sum(axis=0)
            return np.asarray(sums if self.has("bias without scale") else sums * scale, np.float32)
        return values * np.float32({"no bias": 0, "bias / 8": 0.125, "bias * 2": 2}.get(self.mistake, 1))

    def factors(self) -> Array:
        """logit of each row, times pertoken_scale in W4A8."""
        logit = self.call.arrays["logit"].copy()
        order = np.argsort(self.call.arrays["row_index"][: self.total], kind="stable")
        if self.has("logit in token order"):
            logit[: self.total] = logit[order]
        if self.has("logit reversed"):
            logit[: self.total] = logit[: self.total][::-1].copy()
        if self.has("no logit"):
            logit[:] = 1
        if not self.w4a8:
            self.need(not self.has("pertoken reversed"))
            return logit
        pertoken = self.call.arrays["pertoken_scale"].copy()
        if self.has("pertoken reversed"):
            pertoken[: self.total] = pertoken[: self.total][::-1].copy()
        return np.asarray(logit * pertoken, np.float32)

    def initial(self) -> Array:
        """Out before the scatter."""
        out = np.zeros((self.batch, self.n), np.float32)
        if self.has("old constant"):
            out += self.old
        shared = self.call["shared_input"]
        self.need(shared is not None or "shared" not in self.mistake)
        if shared is None or self.has("no shared"):
            return out
        weight = np.float32(1 if self.has("shared weight 1") else self.call.attributes.shared_input_weight)
        start = 0 if self.has("shared offset 0") else self.call.attributes.shared_input_offset
        values = shared.astype(np.float32) * weight
        if self.has("shared through row_index"):
            self.need(len(shared) <= self.total)
            np.add.at(out, self.call.arrays["row_index"][: len(shared)], values)
        elif self.has("old constant"):
            out[start : start + len(shared)] += values
        else:
            out[start : start + len(shared)] = values
        return out

    def run(self) -> Array:
        """The output."""
        x, scales = self.activations(), None if self.w4a8 else self.mx_scales()
        factor, out, offset = self.factors(), self.initial(), self.call["offset"]
        rows = self.call.arrays["row_index"].copy()
        if self.has("row_index reversed"):
            rows[: self.total] = rows[: self.total][::-1].copy()
        if self.has("row_index ignored"):
            rows = np.arange(self.m) % self.batch
        for g, i in self.rows():
            value = self.product(x, scales, g, i)
            extra = 0.0 if offset is None else offset[g, 0] * np.float32(x[i].sum())
            bias = self.bias(g)
            if self.has("bias after logit"):
                value = (value + extra) * factor[i] + bias
            else:
                value = (value + bias + extra) * factor[i]
            if not 0 <= rows[i] < self.batch:
                self.need(not self.has("tail"))
                continue
            if self.has("last write"):
                out[rows[i]] = value
            else:
                out[rows[i]] += value * (2 if self.has("twice") else 1)
        if self.has("twice") and self.call["shared_input"] is not None:
            out += self.initial()
        return np.asarray(out, np.float32)


def overwritten(x: Array) -> Array:
    """Rows of x1 after a run on A2/A3: bytes of packed high halves, then of packed low ones."""
    result = np.zeros_like(x)
    for part, nibbles in enumerate(((x >> 4) & 15, ((x & 15) - 8) & 15)):
        packed = nibbles[:, 0::2] + 16 * nibbles[:, 1::2]
        result[:, part * packed.shape[1] :][:, : packed.shape[1]] = packed
    return np.where(result > 127, result - 256, result)


@pytest.fixture(scope="session")
def plain_kernel() -> Callable[..., Array | None]:
    """``plain_kernel(call, mistake)``: the kernel's output, None where the mistake does not apply."""

    def run(call: Operands, mistake: str = "") -> Array | None:
        try:
            with np.errstate(all="ignore"):
                return PlainKernel(call, mistake).run()
        except NotApplicable:
            return None

    return run


@pytest.fixture(scope="session")
def all_mistakes() -> dict[str, str]:
    """Every mistake of the plain kernel, and its name in diagnose."""
    return MISTAKES


@pytest.fixture(scope="session")
def small_cases() -> list[str]:
    """The cases on which every mistake is tried."""
    return SMALL


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests take ``mistake`` with its ``title`` in diagnose, ``small_case`` and ``named_case``."""
    if "mistake" in metafunc.fixturenames:
        metafunc.parametrize(("mistake", "title"), MISTAKES.items(), ids=MISTAKES)
    for name, cases in (("small_case", SMALL), ("named_case", NAMED)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, cases)

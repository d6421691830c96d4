"""Rules that read arrays: scale words, E8M0 bytes, bias, shared input, logit.  NumPy comes when called."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from reference.problem import ProblemError
from reference.rules.build import join_hints, row
from reference.rules.call import Call
from reference.rules.model import EVERYWHERE, MX, MXA8W4, W4A8, Finding, Findings, Rule, one
from reference.rules.routing import Routing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BIT_46 = 0x4000  # in the high word; converters to the quantisation vector set it


def read_array(call: Call, name: str, dtype: str) -> Any:
    """The array of ``name`` in its argument's shape; None where it is missing or of another dtype."""
    value, spec = call.values.get(name), getattr(call, name)
    if value is None or spec is None or spec.dtype != dtype or not hasattr(value, "reshape"):
        return None
    if value.size != spec.size:
        raise ProblemError(f"values {name}: {value.size} given, the argument holds {spec.size}")
    return value if value.shape == spec.shape else value.reshape(spec.shape)


def _scale_words(call: Call) -> tuple[NDArray[np.uint64], str] | None:
    """The scale as words, and what they look like instead of float32 bits: 'float64', 'cast' or ''."""
    facts = call.routing.facts
    if "words" not in facts:
        facts["words"] = _look_at_words(call)
    found: tuple[NDArray[np.uint64], str] | None = facts["words"]
    return found


def _look_at_words(call: Call) -> tuple[NDArray[np.uint64], str] | None:
    import numpy as np

    array = read_array(call, "scale", "int64")
    if array is None or array.size == 0:
        return None
    words = np.ascontiguousarray(array).view(np.uint64)
    if (words & np.uint64((0xFFFFFFFF ^ _BIT_46) << 32)).any():
        return words, "float64"
    return words, "cast" if int(words.max()) < 1 << 23 else ""


def check_float64(call: Call) -> Findings:
    found = _scale_words(call)
    if found is None or found[1] != "float64":
        return None
    first = f"{int(found[0].reshape(-1)[0]):#018x} at 0"
    hint = "looks like a float64 view or int64 numbers: pack_scale_int64() puts float32 bits in the low half"
    return one("scale", "float32 bits in the low half, nothing in the high half but bit 46", first, hint)


def check_cast(call: Call) -> Findings:
    found = _scale_words(call)
    if found is None or found[1] != "cast":
        return None
    hint = "looks like a cast, not a bit copy: as float32 all are 0 or subnormal; use pack_scale_int64()"
    return one("scale", "float32 bits in the low half", f"words of at most {int(found[0].max())}", hint)


def check_decoded(call: Call) -> Findings:
    import numpy as np

    found = _scale_words(call)
    if found is None or found[1]:
        return None
    words = found[0]
    decoded = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32).reshape(-1)
    wrong = np.flatnonzero(~np.isfinite(decoded) | (decoded < 0))
    if not wrong.size:
        return None
    got = f"{decoded[wrong[0]]} at {wrong[0]} ({wrong.size} of {decoded.size})"
    hints = []
    if not np.isfinite(decoded).all():
        hints.append("NaN or inf spreads over the expert's column")
    if (decoded < 0).any():
        hints.append("a negative factor turns the sign of its column: keep the sign in the weights")
    return one("scale", "finite factors of 0 or more", got, join_hints(*hints))


def check_low_bits(call: Call) -> Findings:
    import numpy as np

    found = _scale_words(call)
    if found is None or found[1]:
        return None
    words = found[0]
    lost = int(np.count_nonzero(words & np.uint64(0x1FFF)))
    if not lost:
        return None
    hint = (
        "the unit reads sign, exponent and 10 mantissa bits: relative error up to 2^-10; "
        'pack_scale_int64(scale, rounding="nearest") halves it'
    )
    return one("scale", "the low 13 bits 0", f"{lost} of {words.size} have more bits", hint)


def _factor_bytes(call: Call, name: str) -> Any:
    """E8M0 bytes as (rows, 32-groups): per expert and column for scale, per row for pertoken_scale."""
    import numpy as np

    array = read_array(call, name, "float8_e8m0fnu")
    if array is None or call.groups is None or call.k is None or array.size == 0:
        return None
    codes = np.asarray(array).view(np.uint8)
    if name == "pertoken_scale":
        return codes.reshape(len(codes), -1) if codes.shape[1:] == (call.groups, 2) else None
    if codes.ndim != 4 or call.n is None:
        return None
    if call.scale_turned:
        codes = codes.swapaxes(1, 2)
    if not call.x2_transposed:
        codes = codes.swapaxes(1, 2)
    return codes.reshape(len(codes), call.n, -1) if codes.shape[1:] == (call.n, call.groups, 2) else None


def _extremes(call: Call, name: str) -> tuple[int, int]:
    """The lowest and the highest E8M0 byte of the whole array, read or not: one quick pass."""
    import numpy as np

    facts = call.routing.facts
    if name not in facts:
        array = read_array(call, name, "float8_e8m0fnu")
        codes = (
            np.zeros(1, np.uint8) if array is None or array.size == 0 else np.asarray(array).view(np.uint8)
        )
        facts[name] = int(codes.min()), int(codes.max())
    found: tuple[int, int] = facts[name]
    return found


def _read_bytes(call: Call, name: str) -> Any:
    """The bytes that the kernels read: experts with rows, processed rows."""
    codes = _factor_bytes(call, name)
    routing: Routing = call.routing
    if codes is None or not routing.sound:
        return codes
    if name == "pertoken_scale":
        return codes[: routing.total]
    counts = routing.counts(call)
    return codes[[count > 0 for count in counts]] if len(counts) == len(codes) else codes


def _nan_findings(call: Call, padding: bool) -> Findings:
    import numpy as np

    findings = []
    used = -(-(call.k or 0) // 32)
    for name in ("scale", "pertoken_scale"):
        codes = _read_bytes(call, name) if _extremes(call, name)[1] == 255 else None
        if codes is None:
            continue
        part = codes[..., used:] if padding else codes[..., :used]
        count = int(np.count_nonzero(part == 255))
        if not count:
            continue
        if padding:
            hint = "0 times NaN is NaN where hardware multiplies the padding: write 127 (1.0) there"
            findings.append(
                Finding(name, "finite factors behind k", f"byte 255 (NaN) in {count} padding slots", hint)
            )
        else:
            hint = "every product of the block is NaN; real factors lie near 127 (1.0)"
            findings.append(
                Finding(name, "bytes below 255", f"byte 255 (NaN) in {count} of {part.size}", hint)
            )
    return findings or None


def check_nan(call: Call) -> Findings:
    return _nan_findings(call, padding=False)


def check_nan_padding(call: Call) -> Findings:
    return _nan_findings(call, padding=True)


def check_spread(call: Call) -> Findings:
    """Factors that span more than float32 can hold look like random bytes."""
    findings = []
    for name in ("scale", "pertoken_scale"):
        lowest, highest = _extremes(call, name)
        codes = _read_bytes(call, name) if highest - lowest > 128 else None
        if codes is None or not codes.size:
            continue
        low, high = int(codes.min()), int(codes.max())
        if high - low <= 128 or high == 255:
            continue
        hint = "looks like random bytes: products overflow or vanish; real factors lie near 127 (1.0)"
        findings.append(
            Finding(name, "factors within 2^128 of each other", f"bytes from {low} to {high}", hint)
        )
    return findings or None


def check_zero_bias(call: Call) -> Findings:
    bias = read_array(call, "bias", "float32")
    if bias is None or bias.size == 0 or bias.any():
        return None
    hint = "W4A8 needs 8*sum_k(w*scale) here, or every result is off by it: make_bias() computes it"
    return one("bias", "8*sum_k(w*scale)", "0 everywhere", hint)


def check_shared_finite(call: Call) -> Findings:
    import numpy as np

    if call.attributes.shared_input_weight != 0:
        return None
    shared = read_array(call, "shared_input", "bfloat16")
    if shared is None or shared.size == 0:
        return None
    bits = np.ascontiguousarray(shared).view(np.uint16)
    count = int(np.count_nonzero((bits & 0x7F80) == 0x7F80))
    if not count:
        return None
    hint = "0 times inf or NaN is NaN: pass null instead of a buffer that is not meant to count"
    return one("shared_input", "finite values with weight 0", f"{count} of {bits.size} are inf or NaN", hint)


def check_logit_finite(call: Call) -> Findings:
    """NaN and infinities among the logits of processed rows; those behind them are never read."""
    import numpy as np

    logit = read_array(call, "logit", "float32")
    if logit is None or logit.size == 0:
        return None
    routing: Routing = call.routing
    read = logit.reshape(-1)[: routing.total if routing.sound else None]
    wrong = np.flatnonzero(~np.isfinite(read.astype(np.float64)))
    if not wrong.size:
        return None
    got = f"{float(read[wrong[0]])} at {wrong[0]} ({wrong.size} of {read.size})"
    hint = "the whole row becomes NaN or inf, and with it the row of out that it is added into"
    return one("logit", "finite values", got, hint)


_warning = partial(row, level="warning", status=0, stage="values")
_VECTOR = "quantisation vector: sign, 8 exponent and 10 mantissa bits"
_OCP = "OCP MX 1.0: E8M0 255 is NaN"

RULES: tuple[Rule, ...] = (
    _warning(
        "e8m0-nan", "E8M0 factors of real blocks are not NaN", "values", check_nan, _OCP, (*MX, *MXA8W4), 91
    ),
    _warning(
        "e8m0-nan-padding",
        "the padding slot behind an odd block is not NaN",
        "values",
        check_nan_padding,
        f"{_OCP}; hardware in padding not established",
        (*MX, *MXA8W4),
        94,
    ),
    _warning(
        "e8m0-spread",
        "E8M0 factors do not look random",
        "values",
        check_spread,
        "a guess from the values",
        (*MX, *MXA8W4),
        94,
    ),
    _warning(
        "scale-float64",
        "scale words do not look like float64",
        "values",
        check_float64,
        f"a guess from the values; {_VECTOR}",
        W4A8,
        94,
    ),
    _warning(
        "scale-cast",
        "scale words do not look like a numeric cast",
        "values",
        check_cast,
        f"a guess from the values; {_VECTOR}",
        W4A8,
        94,
    ),
    _warning(
        "scale-decoded",
        "scale factors are finite and not negative",
        "values",
        check_decoded,
        _VECTOR,
        W4A8,
        94,
    ),
    _warning(
        "scale-low-bits", "scale factors fit 10 mantissa bits", "values", check_low_bits, _VECTOR, W4A8, 95
    ),
    _warning(
        "bias-zero",
        "the W4A8 bias is not 0",
        "values",
        check_zero_bias,
        "documentation page, biasOptional: 8 * w * scale; kernel (A2/A3)",
        W4A8,
        94,
    ),
    _warning(
        "shared-input-finite",
        "shared_input is finite where its weight is 0",
        "values",
        check_shared_finite,
        "kernels multiply without a short cut",
        (*W4A8, *MX, *MXA8W4),
        94,
    ),
    _warning(
        "logit-finite",
        "logit of processed rows is finite",
        "values",
        check_logit_finite,
        "kernels multiply without a short cut",
        EVERYWHERE,
        94,
    ),
)

"""The one table of number formats: names, bit layouts, carriers and the vendor's numbers.

Names are those of ``ml_dtypes`` and NumPy.  Nothing else in the project spells an ``aclDataType``
number or a bit width.  Importing this module imports neither NumPy nor ml_dtypes: the validator
needs the table alone.

Sources: ``aclDataType`` from the ACL headers (acl_base.h); element formats from the OCP 8-bit
floating point (OFP8) and OCP Microscaling (MX) v1.0 specifications.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["float", "scale", "int", "uint", "bool"]
Specials = Literal["ieee", "nan_only", "none"]


@dataclass(frozen=True)
class NumberFormat:
    """One number format.

    ``bits`` counts one element.  ``exponent``, ``mantissa`` and ``bias`` describe floats; ``specials``
    says what the top exponent holds: infinities and NaNs (``ieee``), a NaN alone (``nan_only``), or
    ordinary numbers (``none``).  ``carrier`` is the NumPy type that holds the bytes, ``safetensors``
    the dtype tag of a bundle, ``pypto`` the name of PyPTO's data type, ``acl`` the vendor's number.
    """

    name: str
    bits: int
    kind: Kind
    acl_name: str
    acl: int
    carrier: str
    safetensors: str | None = None
    pypto: str | None = None
    exponent: int = 0
    mantissa: int = 0
    bias: int = 0
    specials: Specials = "ieee"

    @property
    def per_byte(self) -> int:
        """Elements that share one byte: 2 for the 4-bit formats, otherwise 1."""
        return 2 if self.bits == 4 else 1

    @property
    def itemsize(self) -> int:
        """Bytes of one element of the carrier (1 for a 4-bit format, which packs two in it)."""
        return max(1, self.bits // 8)

    def nbytes(self, elements: int) -> int:
        """Bytes that ``elements`` packed elements take."""
        return (
            elements * self.bits // 8 if self.bits >= 8 else (elements + self.per_byte - 1) // self.per_byte
        )


def _float(
    name: str, bits: int, acl_name: str, acl: int, carrier: str, layout: tuple[int, int, int], **rest: Any
) -> NumberFormat:
    exponent, mantissa, bias = layout
    return NumberFormat(
        name, bits, "float", acl_name, acl, carrier, exponent=exponent, mantissa=mantissa, bias=bias, **rest
    )


_ROWS = (
    _float("float32", 32, "ACL_FLOAT", 0, "float32", (8, 23, 127), safetensors="F32", pypto="DT_FP32"),
    _float("float16", 16, "ACL_FLOAT16", 1, "float16", (5, 10, 15), safetensors="F16", pypto="DT_FP16"),
    NumberFormat("int8", 8, "int", "ACL_INT8", 2, "int8", "I8", "DT_INT8"),
    NumberFormat("int32", 32, "int", "ACL_INT32", 3, "int32", "I32", "DT_INT32"),
    NumberFormat("uint8", 8, "uint", "ACL_UINT8", 4, "uint8", "U8", "DT_UINT8"),
    NumberFormat("int16", 16, "int", "ACL_INT16", 6, "int16", "I16", "DT_INT16"),
    NumberFormat("uint16", 16, "uint", "ACL_UINT16", 7, "uint16", "U16", "DT_UINT16"),
    NumberFormat("uint32", 32, "uint", "ACL_UINT32", 8, "uint32", "U32", "DT_UINT32"),
    NumberFormat("int64", 64, "int", "ACL_INT64", 9, "int64", "I64", "DT_INT64"),
    NumberFormat("uint64", 64, "uint", "ACL_UINT64", 10, "uint64", "U64", "DT_UINT64"),
    _float("float64", 64, "ACL_DOUBLE", 11, "float64", (11, 52, 1023), safetensors="F64"),
    NumberFormat("bool", 8, "bool", "ACL_BOOL", 12, "bool", "BOOL", "DT_BOOL"),
    _float("bfloat16", 16, "ACL_BF16", 27, "bfloat16", (8, 7, 127), safetensors="BF16", pypto="DT_BF16"),
    NumberFormat("int4", 4, "int", "ACL_INT4", 29, "uint8"),
    NumberFormat("hifloat8", 8, "float", "ACL_HIFLOAT8", 34, "uint8", pypto="DT_HF8"),
    _float(
        "float8_e5m2",
        8,
        "ACL_FLOAT8_E5M2",
        35,
        "float8_e5m2",
        (5, 2, 15),
        safetensors="F8_E5M2",
        pypto="DT_FP8E5M2",
    ),
    _float(
        "float8_e4m3fn",
        8,
        "ACL_FLOAT8_E4M3FN",
        36,
        "float8_e4m3fn",
        (4, 3, 7),
        safetensors="F8_E4M3",
        pypto="DT_FP8E4M3",
        specials="nan_only",
    ),
    NumberFormat(
        "float8_e8m0fnu",
        8,
        "scale",
        "ACL_FLOAT8_E8M0",
        37,
        "float8_e8m0fnu",
        "F8_E8M0",
        "DT_FP8E8M0",
        exponent=8,
        bias=127,
        specials="nan_only",
    ),
    _float(
        "float4_e2m1fn",
        4,
        "ACL_FLOAT4_E2M1",
        40,
        "uint8",
        (2, 1, 1),
        safetensors="F4",
        pypto="DT_FP4_E2M1X2",
        specials="none",
    ),
)

FORMATS: dict[str, NumberFormat] = {row.name: row for row in _ROWS}
BY_SAFETENSORS: dict[str, NumberFormat] = {row.safetensors: row for row in _ROWS if row.safetensors}

#: The element formats that the operator multiplies on Ascend 950.
MX_ELEMENTS = ("float8_e5m2", "float8_e4m3fn", "float4_e2m1fn")
#: Elements that share one E8M0 scale (OCP MX v1.0, 5.1).
MX_BLOCK = 32


def number_format(name: str) -> NumberFormat:
    """Return the format called ``name``; ``ValueError`` lists the known names otherwise."""
    try:
        return FORMATS[name]
    except KeyError:
        raise ValueError(f"dtype {name!r} is unknown; known: {', '.join(FORMATS)}") from None


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of the carrier of format ``name`` (``uint8`` for packed 4-bit formats)."""
    import ml_dtypes
    import numpy as np

    carrier = number_format(name).carrier
    return np.dtype(getattr(ml_dtypes, carrier, carrier))


def _decode_code(fmt: NumberFormat, code: int) -> float:
    """The value of one bit pattern of a float of at most 16 bits, from the format's definition."""
    if fmt.kind == "scale":  # E8M0: 2^(code-127), no zero; 255 is NaN
        return float("nan") if code == 255 else 2.0 ** (code - fmt.bias)
    sign = -1.0 if code >> (fmt.bits - 1) else 1.0
    exponent = (code >> fmt.mantissa) & ((1 << fmt.exponent) - 1)
    fraction = code & ((1 << fmt.mantissa) - 1)
    top = exponent == (1 << fmt.exponent) - 1
    if top and fmt.specials == "ieee":
        return sign * float("inf") if fraction == 0 else float("nan")
    if top and fmt.specials == "nan_only" and fraction == (1 << fmt.mantissa) - 1:
        return float("nan")
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - fmt.bias - fmt.mantissa)
    return sign * (1 + fraction * 2.0**-fmt.mantissa) * 2.0 ** (exponent - fmt.bias)


@cache
def decode_table(name: str) -> NDArray[np.float64]:
    """Values of all bit patterns of a 4- or 8-bit float format, indexed by code; shape ``(2**bits,)``."""
    import numpy as np

    fmt = number_format(name)
    if fmt.kind not in ("float", "scale") or fmt.bits > 8 or fmt.exponent == 0:
        raise ValueError(
            f"dtype {name!r} has no decode table: expected a float of 4 or 8 bits with a known layout"
        )
    table = np.array([_decode_code(fmt, code) for code in range(1 << fmt.bits)])
    table.setflags(write=False)
    return table

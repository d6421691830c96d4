"""The call without its data: shapes, dtypes, layouts, flags and platform of one operator call.

A :class:`Problem` is what the validator, every backend and the comparator read.  It is frozen, holds no
arrays and imports no NumPy.  Argument names are the operator's own in snake case without "Optional".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import gcd, prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from reference.acl import TENSOR_FORMATS
from reference.formats import FORMATS
from reference.platforms import Platform, find_platform
from reference.problem_values import (
    ProblemError,
    default_to,
    read_boolean,
    read_dims,
    read_integer,
    read_number,
    read_text,
    read_tuning_config,
)

if TYPE_CHECKING:
    from typing_extensions import Self

#: Tensor arguments in the order of the operator's prototype, with the prototype's spelling.
C_NAMES: dict[str, str] = {
    "x1": "x1",
    "x2": "x2",
    "scale": "scaleOptional",
    "bias": "biasOptional",
    "offset": "offsetOptional",
    "antiquant_scale": "antiquantScaleOptional",
    "antiquant_offset": "antiquantOffsetOptional",
    "pertoken_scale": "pertokenScaleOptional",
    "group_list": "groupListOptional",
    "shared_input": "sharedInputOptional",
    "logit": "logitOptional",
    "row_index": "rowIndexOptional",
    "out": "out",
}
ARGUMENTS: tuple[str, ...] = tuple(C_NAMES)
INPUTS: tuple[str, ...] = ARGUMENTS[:-1]


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of ``shape``, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


@dataclass(frozen=True)
class TensorSpec:
    """One tensor as ``aclCreateTensor`` gets it; all counts in elements (4-bit types: logical elements)."""

    shape: tuple[int, ...]
    dtype: str
    format: str = "ND"
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.dtype not in FORMATS:
            raise ProblemError(f"dtype {self.dtype!r} is unknown; known: {', '.join(FORMATS)}")
        if self.format not in TENSOR_FORMATS:
            raise ProblemError(f"format {self.format!r} is unknown; known: {', '.join(TENSOR_FORMATS)}")
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise ProblemError(f"strides {list(self.strides)} do not match shape {list(self.shape)}")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the view."""
        return prod(self.shape)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides, filled in with compact ones where the description left them out."""
        return compact_strides(self.shape) if self.strides is None else self.strides

    @property
    def is_contiguous(self) -> bool:
        """Whether the view is row-major; strides of axes of length 1 do not count."""
        compact = compact_strides(self.shape)
        return self.size == 0 or all(
            length == 1 or got == want
            for length, got, want in zip(self.shape, self.element_strides, compact, strict=True)
        )

    @property
    def is_transposed(self) -> bool:
        """Whether the last two axes of an otherwise compact view are swapped in memory."""
        if self.rank < 2 or self.is_contiguous:
            return False
        return self.swap_last_axes().is_contiguous

    @property
    def runs_forwards(self) -> bool:
        """Whether no axis steps backwards in memory; axes of length 1 do not step."""
        return self.strides is None or not any(
            length > 1 and step < 0 for length, step in zip(self.shape, self.strides, strict=True)
        )

    @property
    def overlaps(self) -> bool:
        """Whether two elements share memory, for steps of 0 or more.

        Exact for up to two axes longer than 1; beyond that each axis must step over what the shorter steps
        cover.
        """
        if self.strides is None or self.size == 0:
            return False
        axes = [(step, length) for step, length in zip(self.strides, self.shape, strict=True) if length > 1]
        if any(step == 0 for step, _ in axes):
            return True
        if len(axes) == 2:
            (first, rows), (second, columns) = axes
            common = gcd(first, second)
            return abs(second) // common < rows and abs(first) // common < columns
        reach = 0
        for step, length in sorted(axes):
            if step <= reach:
                return True
            reach += step * (length - 1)
        return False

    def swap_last_axes(self) -> TensorSpec:
        """The same memory seen with the last two axes exchanged."""
        shape, strides = list(self.shape), list(self.element_strides)
        shape[-2:], strides[-2:] = shape[:-3:-1], strides[:-3:-1]
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def describe(self) -> str:
        """Dtype, format and view shape, and strides, offset or storage shape where they say more."""
        text = f"{self.dtype} {self.format} {list(self.shape)}"
        if self.strides is not None and not self.is_contiguous:
            text += f" strides {list(self.strides)}"
        if self.offset:
            text += f" offset {self.offset}"
        if self.storage_shape is not None and self.storage_shape != self.shape:
            text += f" storage {list(self.storage_shape)}"
        return text

    @classmethod
    def from_json(cls, name: str, value: Any) -> Self:
        """Read one argument object of a problem file."""
        if not isinstance(value, Mapping):
            raise ProblemError(f"argument {name}: expected null or an object, got {type(value).__name__}")
        unknown = sorted(set(value) - {f.name for f in fields(cls)})
        if unknown:
            known = ", ".join(f.name for f in fields(cls))
            raise ProblemError(f"argument {name}: unknown key {unknown[0]!r}; known: {known}")
        missing = [key for key in ("shape", "dtype") if key not in value]
        if missing:
            raise ProblemError(f"argument {name}: key {missing[0]!r} is missing")
        try:
            return cls(
                shape=read_dims(value["shape"], "shape", minimum=0),
                dtype=read_text(value["dtype"], "dtype"),
                format=read_text(default_to(value.get("format"), "ND"), "format"),
                strides=None if value.get("strides") is None else read_dims(value["strides"], "strides"),
                offset=read_integer(default_to(value.get("offset"), 0), "offset", minimum=0),
                storage_shape=(
                    None
                    if value.get("storage_shape") is None
                    else read_dims(value["storage_shape"], "storage_shape", minimum=0)
                ),
            )
        except ProblemError as error:
            raise ProblemError(f"argument {name}: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """The argument object of a problem file, defaults left out."""
        value: dict[str, Any] = {"shape": list(self.shape), "dtype": self.dtype, "format": self.format}
        if self.strides is not None:
            value["strides"] = list(self.strides)
        if self.offset:
            value["offset"] = self.offset
        if self.storage_shape is not None:
            value["storage_shape"] = list(self.storage_shape)
        return value


@dataclass(frozen=True)
class Attributes:
    """The scalar arguments of the operator, with the defaults of a problem file."""

    dtype: int = 0
    shared_input_weight: float = 1.0
    shared_input_offset: int = 0
    transpose_x1: bool = False
    transpose_x2: bool = False
    group_list_type: int = 1
    tuning_config: tuple[int, ...] | None = None

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read the ``attributes`` object of a problem file."""
        if not isinstance(value, Mapping):
            raise ProblemError(f"attributes: expected an object, got {type(value).__name__}")
        unknown = sorted(set(value) - {f.name for f in fields(cls)})
        if unknown:
            raise ProblemError(
                f"attributes: unknown key {unknown[0]!r}; known: {', '.join(f.name for f in fields(cls))}"
            )
        try:
            read: dict[str, Any] = {key: _ATTRIBUTE_READERS[key](entry, key) for key, entry in value.items()}
            return cls(**read)
        except ProblemError as error:
            raise ProblemError(f"attributes: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """The ``attributes`` object of a problem file, every key written."""
        value = {f.name: getattr(self, f.name) for f in fields(self)}
        value["tuning_config"] = None if self.tuning_config is None else list(self.tuning_config)
        return value


@dataclass(frozen=True)
class Problem:
    """One call: ``platform`` name, ``arguments`` (a :class:`TensorSpec` or None each) and ``attributes``."""

    platform: str
    arguments: Mapping[str, TensorSpec | None]
    attributes: Attributes = field(default_factory=Attributes)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.arguments) - set(ARGUMENTS))
        if unknown:
            raise ProblemError(f"argument {unknown[0]!r} is unknown; known: {', '.join(ARGUMENTS)}")
        try:
            object.__setattr__(self, "platform", find_platform(self.platform).name)
        except ValueError as error:
            raise ProblemError(str(error)) from None
        complete = {name: self.arguments.get(name) for name in ARGUMENTS}
        object.__setattr__(self, "arguments", MappingProxyType(complete))

    def __hash__(self) -> int:
        return hash((self.platform, tuple(self.arguments.values()), self.attributes))

    def __getstate__(self) -> dict[str, Any]:
        return {"platform": self.platform, "arguments": dict(self.arguments), "attributes": self.attributes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    @property
    def platform_row(self) -> Platform:
        """The row of the platform table."""
        return find_platform(self.platform)

    def spec(self, name: str) -> TensorSpec:
        """The description of a present argument; ``ProblemError`` where it is null."""
        spec = self.arguments[name]
        if spec is None:
            raise ProblemError(f"argument {name} is null")
        return spec

    @property
    def x2_is_transposed(self) -> bool:
        """Whether x2's view is (e, n, k): the flag says so. A strided view stays (e, k, n)."""
        return self.attributes.transpose_x2

    @property
    def m(self) -> int:
        """Rows of x1."""
        return self.spec("x1").shape[0]

    @property
    def k(self) -> int:
        """Columns of x1, logical elements."""
        return self.spec("x1").shape[1]

    @property
    def e(self) -> int:
        """Experts: first axis of x2."""
        return self.spec("x2").shape[0]

    @property
    def n(self) -> int:
        """Output columns, logical elements: INT32 words of x2 hold eight INT4 values each."""
        x2 = self.spec("x2")
        n = x2.shape[1] if self.x2_is_transposed else x2.shape[2]
        return n * 8 if x2.dtype == "int32" else n

    @property
    def batch(self) -> int:
        """Rows of out."""
        return self.spec("out").shape[0]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read one problem object; unknown argument and attribute keys raise :class:`ProblemError`."""
        if not isinstance(value, Mapping):
            raise ProblemError(f"problem: expected an object, got {type(value).__name__}")
        if "platform" not in value:
            raise ProblemError("problem: key 'platform' is missing")
        arguments = value.get("arguments", {})
        if not isinstance(arguments, Mapping):
            raise ProblemError(f"arguments: expected an object, got {type(arguments).__name__}")
        unknown = sorted(set(arguments) - set(ARGUMENTS))
        if unknown:
            raise ProblemError(f"arguments: unknown key {unknown[0]!r}; known: {', '.join(ARGUMENTS)}")
        specs = {
            name: None if entry is None else TensorSpec.from_json(name, entry)
            for name, entry in arguments.items()
        }
        given = value.get("attributes")
        attributes = Attributes() if given is None else Attributes.from_json(given)
        return cls(read_text(value["platform"], "platform"), specs, attributes)

    def to_json(self) -> dict[str, Any]:
        """The problem object of a problem file."""
        return {
            "platform": self.platform,
            "arguments": {
                name: None if spec is None else spec.to_json() for name, spec in self.arguments.items()
            },
            "attributes": self.attributes.to_json(),
        }

    @classmethod
    def from_arrays(cls, **call: Any) -> Problem:
        """Describe a call by its arrays: see :meth:`reference.operands.Operands.from_arrays`.

        Tensors on a device are described as they lie there; nothing is copied.
        """
        from reference.operands import describe_call

        return describe_call(**call)[0]


_ATTRIBUTE_READERS = {
    "dtype": read_integer,
    "shared_input_weight": read_number,
    "shared_input_offset": read_integer,
    "transpose_x1": read_boolean,
    "transpose_x2": read_boolean,
    "group_list_type": read_integer,
    "tuning_config": read_tuning_config,
}

__all__ = [
    "ARGUMENTS",
    "C_NAMES",
    "INPUTS",
    "Attributes",
    "Problem",
    "ProblemError",
    "TensorSpec",
    "compact_strides",
]

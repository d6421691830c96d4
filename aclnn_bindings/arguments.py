"""What a caller may pass: each argument is checked before anything is done with it, and converted never.

A wrong type raises ``TypeError``, a wrong value ``ValueError``; both name the argument, what was expected
and what came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from aclnn_bindings.libraries import Library
from aclnn_bindings.sources import Array, DeviceAddress, carrier_dtype
from reference.formats import number_format
from reference.problem import Problem, TensorSpec
from reference.torch_tensors import is_tensor

if TYPE_CHECKING:
    from reference.platforms import Platform

#: What a host array must be: the type of its elements, and its shape.
Carrier = tuple["np.dtype[Any]", tuple[int, ...]]


def check_types(
    problem: Any, sources: Any, library: Any, out: Any, device: Any, stream: Any, deterministic: Any
) -> None:
    """Raise ``TypeError`` for an argument of a plan that is of another kind than it must be."""
    if type(sources) is not dict and not isinstance(sources, Mapping):
        _refuse("sources", "a mapping of arguments to their data", sources, "operands.arrays is one")
    check_problem(problem)
    check_library(library)
    if device is not None and not is_integer(device):
        _refuse("device", "the number of a device, an int, or None", device)
    if stream is not None and not is_integer(stream):
        _refuse("stream", "the address of a stream, an int, or None", stream)
    if deterministic is not None and not isinstance(deterministic, bool):
        _refuse("deterministic", "True, False or None", deterministic)
    if not (out is None or isinstance(out, (np.ndarray, DeviceAddress)) or is_tensor(out)):
        _refuse("out", "an array to write into, a DeviceAddress, a tensor or None", out)


def check_problem(problem: Any) -> None:
    """Raise ``TypeError`` for anything but the description of a call."""
    if not isinstance(problem, Problem):
        _refuse(
            "problem", "a Problem", problem, "make one with Problem.from_arrays, or take operands.problem"
        )


def check_library(library: Any) -> None:
    """Raise ``TypeError`` for anything but an opened library."""
    if not isinstance(library, Library):
        _refuse("library", "a Library", library, "open one with find_library(path) or simulator(soc)")


def is_integer(value: Any) -> bool:
    """Whether ``value`` is an integer of Python or NumPy; True and False are none here."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _refuse(name: str, expected: str, got: Any, hint: str = "") -> NoReturn:
    came = repr(got) if isinstance(got, (str, int, float)) or got is None else "an object"
    kind = "" if got is None else f" ({type(got).__name__})"
    raise TypeError(f"{name}: expected {expected}, got {came}{kind}{f'; {hint}' if hint else ''}")


def check_platform(platform: Platform, library: Library) -> None:
    """Raise ``ValueError`` for a call that is described for another platform than the library's device."""
    there = library.platform
    if there is platform:
        return
    simulated = library.provider == "simulator"
    other = f"pass library=aclnn_bindings.simulator({platform.default_soc!r})"
    raise ValueError(
        f"library: expected one of {platform.title}, which the problem is described for "
        f"(platform {platform.name!r}), got {library.soc}, which is {there.title} "
        f"(platform {there.name!r}); describe the call with platform={there.name!r}, or "
        + (other if simulated else f"run it on {platform.title}")
    )


def carrier_of(spec: TensorSpec) -> Carrier:
    """What a host array of an argument must be.

    The memory of private formats is opaque: its array has the storage shape.  4-bit values share bytes
    along the axis whose neighbours are adjacent in memory.
    """
    dtype = carrier_dtype(spec.dtype)
    if spec.format != "ND" and spec.storage_shape is not None:
        shape, steps = list(spec.storage_shape), None
    else:
        shape, steps = list(spec.shape), spec.element_strides
    if number_format(spec.dtype).per_byte == 2 and shape:
        last = len(shape) - 1
        axis = last if steps is None else next((i for i in range(last, -1, -1) if steps[i] == 1), last)
        shape[axis] = (shape[axis] + 1) // 2
    return dtype, tuple(shape)


def check_array(name: str, array: Array, spec: TensorSpec, carrier: Carrier) -> None:
    """Raise ``ValueError`` for an array of another type, byte order or shape than the call describes.

    Bytes (uint8) stand for values of any 8-bit float: they are what the device reads.
    """
    dtype, shape = carrier
    if array.shape == shape and array.dtype == dtype:
        return
    same = array.dtype == np.uint8 and number_format(spec.dtype).kind in ("float", "scale")
    if array.shape == shape and same and dtype.itemsize == 1:
        return
    what = dtype.name if dtype.name == spec.dtype else f"{dtype.name} (bytes of {spec.dtype})"
    raise ValueError(
        f"{name}: expected an array {what} {list(shape)}, got {type_text(array.dtype)} {list(array.shape)}; "
        "nothing is converted: pass values of this type and shape, or describe the call by these arrays "
        "with Problem.from_arrays"
    )


def check_out(out: Array, spec: TensorSpec) -> None:
    """Raise ``ValueError`` for an array that the result cannot be written into as it is."""
    if out.shape == spec.shape and out.dtype == carrier_dtype(spec.dtype) and out.flags.writeable:
        return
    got = f"{'' if out.flags.writeable else 'read-only '}{type_text(out.dtype)} {list(out.shape)}"
    raise ValueError(f"out: expected a writable array {spec.dtype} {list(spec.shape)}, got {got}")


def type_text(dtype: np.dtype[Any]) -> str:
    """The name of an element type, with its byte order where that is not the machine's."""
    return dtype.name if dtype.isnative else f"{dtype.name} in the other byte order ({dtype.str})"


def check_layout(name: str, spec: TensorSpec) -> None:
    """Raise ``ValueError`` for a view that a plan's own memory cannot hold: negative steps, and for ``out``
    elements that overlap.  Holds whatever ``validate`` says."""
    if spec.strides is None or spec.size == 0:
        return
    if not spec.runs_forwards:
        raise ValueError(
            f"{name}: expected strides of 0 or more, got {spec.describe()}; pass a contiguous tensor"
        )
    if name == "out" and spec.overlaps:
        raise ValueError(
            f"out: expected elements that do not overlap, got {spec.describe()}; pass a contiguous tensor"
        )

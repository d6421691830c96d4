"""torch tensors as arguments: CPU tensors as views, NPU tensors by address on torch_npu's current stream.

torch is imported in one place, :func:`import_torch`, and only when needed: a caller with tensors has torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from aclnn_bindings.errors import BindingError
from aclnn_bindings.sources import Array, DeviceAddress
from reference.operands import host_array
from reference.problem import Problem, TensorSpec
from reference.torch_tensors import array_of, describe_tensor, is_device_tensor, is_tensor, tensor_of

#: A plan's argument: an array, device memory, or a tensor of torch.
Source = Array | DeviceAddress | Any

_ARRAYS = {np.ndarray}


def import_torch() -> Any:
    """The module torch; :class:`BindingError` says what to do where it cannot be imported."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise BindingError("torch is not installed: pip install torch==2.13.0") from None
    except RuntimeError as error:
        if "backend extension" not in str(error):
            raise
        cause = error.__cause__ or error
        raise BindingError(
            f"torch loads torch_npu by itself, and that failed: {cause}\n"
            "Without an NPU, set TORCH_DEVICE_BACKEND_AUTOLOAD=0 before torch is imported, or start the "
            "script with `gmmfr simulate -- python ...`; with one, source the toolkit's set_env.sh first."
        ) from error


@dataclass(slots=True)
class Adopted:
    """The arguments of a plan with every tensor turned into what the plan works on.

    ``device_of`` is the first NPU tensor, whose device and current stream the plan uses; ``result`` the
    tensor that the output goes to, if it is one; ``fresh`` says that this tensor is the plan's own;
    ``tensors`` that the caller speaks torch.
    """

    sources: dict[str, Array | DeviceAddress]
    out: Array | DeviceAddress | None
    stream: int | None
    device: int | None
    device_of: Any = None
    result: Any = None
    fresh: bool = False
    tensors: bool = False

    def flush(self) -> None:
        """Let torch_npu hand everything that it has queued on the host to the device."""
        if self.device_of is not None:
            current_stream(self.device_of)

    def with_output(self, out: Any) -> Adopted:
        """The same arguments with another output: a tensor, or device memory that the caller reads."""
        return replace(self, result=out if is_tensor(out) else None, fresh=False)

    def give(self, array: Array | None) -> Any:
        """The output as the caller wants it: ``array``, or the tensor that holds it."""
        if self.result is not None:
            return self.result.clone() if self.fresh else self.result
        return tensor_of(array) if self.tensors and array is not None else array


def adopt(
    problem: Problem,
    sources: Mapping[str, Source],
    out: Source | None,
    stream: int | None,
    device: int | None,
) -> Adopted:
    """Turn the tensors among a plan's arguments into arrays and addresses; everything else stays as it is."""
    if set(map(type, sources.values())) == _ARRAYS and (out is None or type(out) is np.ndarray):
        return Adopted(dict(sources), out, stream, device)
    plain = {
        name: as_source(name, source, problem.spec(name) if problem.arguments.get(name) else None)
        for name, source in sources.items()
        if source is not None
    }
    # an address that a tensor owns counts as that tensor
    values: list[Any] = [
        value.owner if isinstance(value, DeviceAddress) else value for value in (*sources.values(), out)
    ]
    on_device = [value for value in values if is_device_tensor(value) and value.device.type == "npu"]
    if not on_device:
        tensors = any(is_tensor(value) for value in values)
        array = out if out is None else as_source("out", out, problem.arguments["out"])
        return Adopted(plain, array, stream, device, result=out if is_tensor(out) else None, tensors=tensors)
    first = on_device[0]
    _check_same_device(on_device, device)
    target = new_output(first, problem) if out is None else out
    return Adopted(
        plain,
        as_source("out", target, problem.arguments["out"]),
        current_stream(first) if stream is None else stream,
        int(first.device.index),
        device_of=first,
        result=target if is_tensor(target) else None,
        fresh=out is None,
        tensors=True,
    )


def as_source(name: str, value: Source, spec: TensorSpec | None) -> Array | DeviceAddress:
    """One argument as the plan takes it; an NPU tensor must lie in memory as ``spec`` says."""
    if isinstance(value, (np.ndarray, DeviceAddress)):
        return value
    if not is_device_tensor(value):
        return array_of(name, value) if is_tensor(value) else host_array(name, value)
    address = _address_of(name, value)
    if spec is not None:
        _check_layout(name, describe_tensor(name, value, spec.dtype), spec)
    return address


def _address_of(name: str, tensor: Any) -> DeviceAddress:
    if tensor.device.type != "npu":
        raise ValueError(f"{name}: expected a tensor on the CPU or an NPU, got one on {tensor.device}")
    if tensor.is_neg():
        raise ValueError(
            f"{name}: expected values as they lie in memory, got a view that negates them; "
            "pass tensor.resolve_neg()"
        )
    return DeviceAddress(tensor.untyped_storage().data_ptr(), owner=tensor)


def in_place(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a call with addresses for its NPU tensors, which the call's problem was made from."""
    return {
        name: _address_of(name, value) if is_device_tensor(value) else value for name, value in inputs.items()
    }


def current_stream(tensor: Any) -> int:
    """Address of torch_npu's current stream on the tensor's device, after its host queue was handed over."""
    index, npu = tensor.device.index, import_torch().npu
    if npu.current_device() == index:
        return _stream_reader()(index)
    with npu.device(index):  # whatever stream is asked for, torch_npu hands over its current device's queue
        return _stream_reader()(index)


@cache
def _stream_reader() -> Callable[[int], int]:
    """torch_npu's own short way to a stream's address, which its compiled code takes; else the public one."""
    npu = import_torch().npu
    try:
        reader: Callable[[int], int] = importlib.import_module("torch_npu._C")._npu_getCurrentRawStream
    except (ImportError, AttributeError):
        return lambda index: int(npu.current_stream(index).npu_stream)
    return reader


def new_output(like: Any, problem: Problem) -> Any:
    """An uninitialised output tensor on the device of ``like``."""
    torch = import_torch()
    return torch.empty(problem.spec("out").shape, dtype=torch.float32, device=like.device)


def _check_same_device(tensors: list[Any], device: int | None) -> None:
    places = sorted({str(tensor.device) for tensor in tensors})
    if len(places) > 1:
        raise ValueError(f"tensors: expected all NPU tensors on one device, got {', '.join(places)}")
    if device is not None and device != tensors[0].device.index:
        raise ValueError(f"device: {device} given, the tensors are on {places[0]}")


def _check_layout(name: str, got: TensorSpec, expected: TensorSpec) -> None:
    same = (got.shape, got.dtype, got.format) == (expected.shape, expected.dtype, expected.format) and all(
        length <= 1 or ours == theirs
        for length, ours, theirs in zip(got.shape, got.element_strides, expected.element_strides, strict=True)
    )
    if not same or got.offset != expected.offset:
        raise ValueError(
            f"{name}: the tensor is {got.describe()}, the call says {expected.describe()}; "
            "describe the call with Problem.from_arrays and the same tensors"
        )

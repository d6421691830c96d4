"""Operands to the process of a kernel, with the strides that they have, and its answer back as plain data."""

from __future__ import annotations

import ctypes
import json
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.operands import Operands


def send_operands(link: Connection, operands: Operands) -> None:
    """Send the description, then each array's memory from its first to its last element."""
    layouts = {
        name: (array.dtype, array.shape, array.strides, *_span(array))
        for name, array in operands.arrays.items()
    }
    link.send((operands.problem, layouts))
    for name, (_, _, _, first, length) in layouts.items():
        start = operands.arrays[name].ctypes.data - first
        link.send_bytes(memoryview((ctypes.c_char * length).from_address(start)) if length else b"")


def receive_operands(link: Connection) -> Operands:
    """What :func:`send_operands` sent: arrays that nobody can write to."""
    problem, layouts = link.recv()
    arrays: dict[str, NDArray[Any]] = {}
    for name, (dtype, shape, strides, first, length) in layouts.items():
        memory = np.empty(length, np.uint8)
        if length:
            link.recv_bytes_into(memory)
        else:
            link.recv_bytes()
        array: NDArray[Any] = np.ndarray(shape, dtype, memory, first, strides)
        array.flags.writeable = False
        arrays[name] = array
    return Operands(problem, arrays)


def tag_of(dtype: np.dtype[Any]) -> str:
    """A text that names ``dtype`` on the other side; ``TypeError`` where there is none."""
    for tag in (str(dtype.str), str(dtype.name)):
        try:
            if np.dtype(tag) == dtype:
                return tag
        except TypeError:  # no type of that name
            continue
    raise TypeError(f"the kernel returned an array of dtype {dtype}; expected float32")


def send_answer(link: Connection, answer: dict[str, Any]) -> None:
    """Send the answer as JSON, then the memory of ``out`` where it holds one."""
    out: NDArray[Any] | None = answer.get("out")
    if out is None:
        link.send_bytes(json.dumps(answer).encode())
        return
    described = {**answer, "out": {"dtype": tag_of(out.dtype), "shape": out.shape}}
    link.send_bytes(json.dumps(described).encode())
    link.send_bytes(np.asarray(out, order="C").reshape(-1).view(np.uint8).data)


def receive_answer(link: Connection) -> dict[str, Any]:
    """What :func:`send_answer` sent."""
    answer: dict[str, Any] = json.loads(link.recv_bytes())
    if "out" in answer:
        dtype, shape = np.dtype(answer["out"]["dtype"]), tuple(answer["out"]["shape"])
        answer["out"] = np.frombuffer(bytearray(link.recv_bytes()), dtype).reshape(shape)
    return answer


def _span(array: NDArray[Any]) -> tuple[int, int]:
    """Bytes from the lowest address to the first element, and from the lowest to the end of the highest."""
    if not array.size:
        return 0, 0
    steps = [(length - 1) * step for length, step in zip(array.shape, array.strides, strict=True)]
    before = -sum(step for step in steps if step < 0)
    return before, before + sum(step for step in steps if step > 0) + array.itemsize

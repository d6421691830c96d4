"""Operands from one process to another, with the strides that they have."""

from __future__ import annotations

import ctypes
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


def _span(array: NDArray[Any]) -> tuple[int, int]:
    """Bytes from the lowest address to the first element, and from the lowest to the end of the highest."""
    if not array.size:
        return 0, 0
    steps = [(length - 1) * step for length, step in zip(array.shape, array.strides, strict=True)]
    before = -sum(step for step in steps if step < 0)
    return before, before + sum(step for step in steps if step > 0) + array.itemsize

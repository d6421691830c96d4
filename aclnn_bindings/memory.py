"""Device memory: owned blocks, and a pool that makes repeated calls cheap and constant in memory.

A block comes back to the pool only after the stream that used it was synchronised, so any stream of the
context may use it next.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.errors import OutOfDeviceMemoryError
from aclnn_bindings.handles import Handle, single

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aclnn_bindings.device import DeviceContext

Array: TypeAlias = "NDArray[Any]"

#: Blocks are multiples of this, as torch_npu's caching allocator makes them.
GRANULE = 512
#: Idle bytes that a pool keeps; larger blocks go straight back to the device.
DEFAULT_LIMIT = 256 << 20

# Found once: looking a type up by its name takes longer than making a small array.
_POINTER, _POINTERS = ffi.typeof("void *"), ffi.typeof("void *[]")
_ADDRESSES, _SIZES = ffi.typeof("uintptr_t[]"), ffi.typeof("uint64_t[]")
_STATUS = ffi.typeof("int *")
_DEVICE_TO_HOST = lib.ACL_MEMCPY_DEVICE_TO_HOST


@dataclass(frozen=True)
class MemoryStats:
    """Bytes of one pool: ``in_use`` by calls, ``idle`` in the pool, the ``peak`` of both, and how often a
    block was found (``hits``) or had to be allocated (``misses``)."""

    in_use: int
    idle: int
    peak: int
    hits: int
    misses: int


class DeviceMemory(Handle):
    """``nbytes`` of device memory."""

    __slots__ = ("address", "nbytes")
    needs_context = True

    def __init__(self, context: DeviceContext, nbytes: int, *, held: bool = False) -> None:
        functions = context.runtime.functions
        noun = f"device memory of {nbytes} bytes"
        super().__init__(context, ffi.new("void *[1]"), single(functions.aclrtFree), noun, held=held)
        self.nbytes = nbytes
        status = functions.aclrtMalloc(self._cell, nbytes, lib.ACL_MEM_MALLOC_HUGE_FIRST)
        context.runtime.check(status, f"aclrtMalloc of {nbytes} bytes")
        self.address = int(ffi.cast("uintptr_t", self._cell[0]))


def memory_of(array: Array) -> Any:
    """The host memory of a dense array as a C pointer that keeps the array alive."""
    if not array.flags.c_contiguous or not array.ndim:
        return ffi.cast("void *", array.ctypes.data)
    return dense_memory(array)


def dense_memory(array: Array) -> Any:
    """:func:`memory_of` an array in C order with at least one axis."""
    # Three times as fast as asking for the address; types of ml_dtypes have no buffer of their own.
    return ffi.from_buffer(array if array.dtype.isbuiltin == 1 else array.view(np.uint8))


class MemoryPool:
    """Idle blocks of one context by size."""

    def __init__(self, context: DeviceContext, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._context = context
        self._copy = context.runtime.functions.aclrtMemcpy
        self._blocks: dict[int, list[DeviceMemory]] = {}
        self._lock = threading.Lock()
        #: Every block of the pool, idle or not: one that an interrupt lost is freed, and counts no longer.
        self._all: weakref.WeakSet[DeviceMemory] = weakref.WeakSet()
        self._idle = self._peak = self._hits = self._misses = 0

    def acquire(self, nbytes: int) -> DeviceMemory:
        """A block of at least ``nbytes``, with whatever its last user left in it."""
        size = max(GRANULE, (nbytes + GRANULE - 1) & -GRANULE)
        with self._lock:
            blocks = self._blocks.get(size)
            if blocks:
                self._hits += 1
                self._idle -= size
                return blocks.pop()
        block = self._allocate(size)
        with self._lock:
            self._misses += 1
            self._all.add(block)
            self._peak = max(self._peak, self._total())
        return block

    def _total(self) -> int:
        return sum(block.nbytes for block in self._all if not block.closed)

    def _counts(self) -> tuple[int, int]:
        """Bytes in use, and idle ones."""
        idle = sum(size * len(blocks) for size, blocks in self._blocks.items())
        return self._total() - idle, idle

    def _allocate(self, size: int) -> DeviceMemory:
        try:
            return DeviceMemory(self._context, size, held=True)
        except OutOfDeviceMemoryError as error:
            if self._idle:
                self.clear()
                return self._allocate(size)
            raise OutOfDeviceMemoryError(error.code, error.message, error.what, self._free_note()) from None

    def _free_note(self) -> str:
        free, total = ffi.new("size_t *"), ffi.new("size_t *")
        functions = self._context.runtime.functions
        held = f"this process's calls hold {self._counts()[0]} bytes"
        if not functions.has("aclrtGetMemInfo") or functions.aclrtGetMemInfo(lib.ACL_HBM_MEM, free, total):
            return held
        return f"{held}; the device has {free[0]} of {total[0]} bytes free"

    def release(self, block: DeviceMemory, *, keep: bool = True) -> None:
        """Take a block back, which no work may still use; without ``keep`` the device gets it at once."""
        size = block.nbytes
        with self._lock:
            keep = keep and self._idle + size <= self.limit
            if keep:
                self._idle += size
                self._blocks.setdefault(size, []).append(block)
        if not keep:
            block.close()

    def upload(self, targets: Sequence[int], sizes: Sequence[int], images: Sequence[Any]) -> None:
        """Copy ``sizes[i]`` bytes of host memory ``images[i]`` to device address ``targets[i]``, for all
        i."""
        status = ffi.new(_STATUS)
        failed = lib.gmmfr_upload(
            self._context.runtime.functions.table,
            len(targets),
            ffi.new(_ADDRESSES, targets),
            ffi.new(_SIZES, sizes),
            ffi.new(_POINTERS, images),
            status,
        )
        if failed < len(targets):
            self._context.runtime.check(status[0], f"aclrtMemcpy of {sizes[failed]} bytes to the device")

    def download(self, address: int, array: Array) -> None:
        """Fill the memory of a contiguous array from the device."""
        nbytes = array.nbytes
        source = ffi.cast(_POINTER, address)
        status = self._copy(memory_of(array), nbytes, source, nbytes, _DEVICE_TO_HOST)
        if status:
            self._context.runtime.check(status, f"aclrtMemcpy of {nbytes} bytes from the device")

    def clear(self) -> None:
        """Give all idle blocks back to the device."""
        with self._lock:
            blocks = [block for same in self._blocks.values() for block in same]
            self._blocks.clear()
            self._idle = 0
        for block in blocks:
            block.close()

    def stats(self) -> MemoryStats:
        """What the pool holds now and how it did so far."""
        with self._lock:
            return MemoryStats(*self._counts(), self._peak, self._hits, self._misses)

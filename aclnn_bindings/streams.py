"""Streams: created when needed, kept idle for the next call of the same context."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aclnn_bindings._acl import ffi
from aclnn_bindings.handles import Handle, single

if TYPE_CHECKING:
    from aclnn_bindings.device import DeviceContext


class Stream(Handle):
    """A stream of its own for one user at a time."""

    __slots__ = ()
    needs_context = True

    def __init__(self, context: DeviceContext, *, held: bool = False) -> None:
        functions = context.runtime.functions
        destroy = single(functions.aclrtDestroyStream)
        super().__init__(context, ffi.new("aclrtStream[1]"), destroy, "stream", held=held)
        context.runtime.check(functions.aclrtCreateStream(self._cell), "aclrtCreateStream")


class BorrowedStream:
    """A stream that belongs to the caller; its address must stay valid while it is used."""

    __slots__ = ("pointer",)

    def __init__(self, address: int) -> None:
        self.pointer: Any = ffi.cast("void *", address)


class StreamPool:
    """Idle streams of one context.  A stream that failed or timed out never comes back here."""

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self._idle: list[Stream] = []

    def acquire(self) -> Stream:
        """An idle stream, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return Stream(self._context, held=True)

    def release(self, stream: Stream) -> None:
        """Take back a stream with no work on it."""
        self._idle.append(stream)

    def clear(self) -> None:
        """Destroy the idle streams."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().close()

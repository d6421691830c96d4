"""What a call holds on the device while it may still run: memory, descriptors, executor, stream.

The stream is synchronised before anything goes back.  Where that times out, everything stays reserved with
the context, which looks again at the next call.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, TypeVar

from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.errors import TIMEOUT_CODES, BindingError, SynchronizeTimeoutError
from aclnn_bindings.handles import Handle
from aclnn_bindings.memory import DeviceMemory
from aclnn_bindings.streams import BorrowedStream, Stream

if TYPE_CHECKING:
    from aclnn_bindings.device import DeviceContext

H = TypeVar("H", bound=Handle)

#: How long to wait for a stream that has already failed; after that its memory stays reserved.
_SETTLE_SECONDS = 10.0


def milliseconds(timeout: float | None) -> int:
    """A timeout in seconds as the runtime takes it: whole milliseconds rounded up, -1 for no limit."""
    if timeout is None:
        return -1
    if not isinstance(timeout, Real) or isinstance(timeout, bool):
        kind = type(timeout).__name__
        raise TypeError(f"timeout: expected seconds, a number, or None, got {timeout!r} ({kind})")
    if not 0 < timeout < 2**31 / 1000:
        raise ValueError(f"timeout: expected seconds above 0 and below {2**31 // 1000}, got {timeout!r}")
    return math.ceil(timeout * 1000)


class Resources:
    """Everything that one call borrowed; :meth:`close` gives it back once the stream is done with it."""

    def __init__(self, context: DeviceContext, stream: Stream | BorrowedStream | None) -> None:
        self.context = context
        self.stream = context.streams.acquire() if stream is None else stream
        self.pending = False
        self.broken = False
        self._stream_returned = False
        self.handles: list[Handle] = []
        self.retired: list[Handle] = []
        self.blocks: list[DeviceMemory] = []
        self.owners: list[object] = []

    def memory(self, nbytes: int) -> DeviceMemory:
        """A block from the pool that stays with this call."""
        block = self.context.memory.acquire(nbytes)
        self.blocks.append(block)
        return block

    def keep(self, handle: H) -> H:
        """Close ``handle`` together with this call."""
        self.handles.append(handle)
        return handle

    def retire(self, handle: Handle) -> None:
        """Close ``handle`` when the stream was synchronised next: queued work may still look at it."""
        self.handles = [other for other in self.handles if other is not handle and not other.closed]
        self.retired.append(handle)

    def synchronize(self, timeout: float | None) -> None:
        """Wait for the stream; a fault of queued work comes up here."""
        functions = self.context.runtime.functions
        if timeout is None:
            status = functions.aclrtSynchronizeStream(self.stream.pointer)
        else:
            status = functions.aclrtSynchronizeStreamWithTimeout(self.stream.pointer, milliseconds(timeout))
        if not status:
            self.pending = False
            while self.retired:
                self.retired.pop().close()
            return
        try:
            self.context.runtime.check(status, "synchronising the stream")
        except SynchronizeTimeoutError:
            raise
        except BindingError:
            self.settle()
            raise

    def settle(self) -> None:
        """After a failure wait once more: a fault has stopped the stream, a wait that failed has not."""
        runtime = self.context.runtime
        self.broken = True
        if runtime.functions.has("aclrtSynchronizeStreamWithTimeout"):
            wait = runtime.functions.aclrtSynchronizeStreamWithTimeout
            status = wait(self.stream.pointer, milliseconds(_SETTLE_SECONDS))
        else:
            status = runtime.functions.aclrtSynchronizeStream(self.stream.pointer)
        if status:
            runtime.forget_message()  # the first failure's is the one that counts
        self.pending = status in TIMEOUT_CODES

    def is_done(self) -> bool:
        """Whether the stream has finished, without waiting for it."""
        functions = self.context.runtime.functions
        cell = ffi.new("aclrtStreamStatus *")
        if not functions.has("aclrtStreamQuery"):
            return False
        failed = functions.aclrtStreamQuery(self.stream.pointer, cell)
        return bool(failed or cell[0] == lib.ACL_STREAM_STATUS_COMPLETE)

    def close(self, timeout: float | None = None) -> None:
        """Synchronise if work is queued, then give everything back; the first error is raised at the end."""
        if not self.context.runtime.usable:
            return
        scope = self.context.current()
        try:
            scope.__enter__()
        except BindingError:
            self.context.abandon(self)
            raise
        try:
            self._finish(timeout)
        finally:
            scope.__exit__()

    def _finish(self, timeout: float | None) -> None:
        errors: list[BindingError] = []
        if self.pending:
            try:
                self.synchronize(timeout)
            except SynchronizeTimeoutError:
                self.context.abandon(self)
                raise
            except BindingError as error:
                if self.pending:
                    self.context.abandon(self)
                    raise
                errors.append(error)
        errors += self.give_back()
        if errors:
            raise errors[0]

    def give_back(self) -> list[BindingError]:
        """Return handles, memory and stream; the errors of doing so."""
        errors: list[BindingError] = []
        self.owners.clear()
        for handles in (self.retired, self.handles):
            while handles:
                try:
                    handles.pop().close()
                except BindingError as error:
                    errors.append(error)
        while self.blocks:
            try:
                self.context.memory.release(self.blocks.pop(), keep=not self.broken)
            except BindingError as error:
                errors.append(error)
        stream = self.stream
        if isinstance(stream, Stream) and not stream.closed and not self._stream_returned:
            self._stream_returned = True
            try:
                if self.broken:
                    stream.close()
                else:
                    self.context.streams.release(stream)
            except BindingError as error:
                errors.append(error)
        return errors

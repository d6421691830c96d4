"""The runtime of one library: started once, bound to threads, shared politely with others in the process.

Whoever started the runtime first may still own it (torch_npu does): it is used and never ended here.  A
thread's current context and device are respected; a thread without one gets the device bound.  After a fork
the child cannot use a runtime that its parent started, and is told so.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from aclnn_bindings._acl import ffi
from aclnn_bindings.errors import AclError, BindingError, ForkedProcessError
from aclnn_bindings.functions import Functions
from aclnn_bindings.handles import exit_begun
from aclnn_bindings.memory import MemoryPool
from aclnn_bindings.streams import StreamPool

if TYPE_CHECKING:
    from aclnn_bindings.resources import Resources

_REPEAT_INITIALIZE = 100002
_FAILURE = 500001
_NO_CONTEXT = 107002
#: Modules whose runtime must outlive ours.
_OTHER_OWNERS = ("torch_npu", "acl")
_ADDRESS = ffi.typeof("uintptr_t")
_CONTEXT_CELL = ffi.typeof("aclrtContext *")

_started: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _has_other_owner() -> bool:
    return any(name in sys.modules for name in _OTHER_OWNERS)


def _mark_forked() -> None:
    for runtime in _started:
        runtime.forked = True


os.register_at_fork(after_in_child=_mark_forked)


class Token:
    """Lives as long as the runtime that holds it."""


class DeviceContext:
    """What belongs to one device context: idle streams and the memory pool."""

    def __init__(self, runtime: Runtime, context: Any, device: int) -> None:
        self.runtime = runtime
        self.context = context
        self.device = device
        self.memory = MemoryPool(self)
        self.streams = StreamPool(self)
        self._abandoned: list[Resources] = []

    def current(self) -> ContextScope:
        """A context manager in which this context is the calling thread's."""
        return ContextScope(self)

    def abandon(self, resources: Resources) -> None:
        """Keep what a call that timed out may still use."""
        self._abandoned.append(resources)

    def sweep(self) -> None:
        """Give back what timed out earlier and has finished since."""
        for resources in self._abandoned[:]:
            if resources.is_done():
                self._abandoned.remove(resources)
                resources.pending = False
                resources.give_back()

    def release(self) -> None:
        """Give streams and idle memory back to the device."""
        self.sweep()
        self.streams.clear()
        self.memory.clear()


class Runtime:
    """Starts ACL for a set of functions and binds threads to devices."""

    def __init__(self, functions: Functions, check: Callable[[int, str], None]) -> None:
        self.functions = functions
        self.check = check
        self.forked = False
        self.started = False
        self.ended = False
        #: False where someone else started the runtime first.
        self.owned = False
        self._token = Token()
        self._lock = threading.Lock()
        self._contexts: dict[int, DeviceContext] = {}
        self._devices: set[int] = set()

    @property
    def usable(self) -> bool:
        """Whether handles of this runtime can still be released.

        At exit another owner may have ended the runtime before us.
        """
        if exit_begun() and _has_other_owner():
            return False
        return self.started and not self.forked and not self.ended

    def start(self) -> None:
        """Call aclInit once; 100002 (already done by someone else) is as good as success."""
        if self.forked:
            raise ForkedProcessError(
                f"{self.functions.described_as}: the runtime was started before this process was forked, and "
                'a fork cannot use it; start workers with the "spawn" method, or before the first call'
            )
        if self.started:
            return
        with self._lock:
            if self.started:
                return
            status = self.functions.aclInit(ffi.NULL)
            if status != _REPEAT_INITIALIZE:
                self.check(status, "aclInit(NULL)")
                self.owned = True
            self.started = True
            _started.add(self)
            # Finalisers run newest first at exit: this one after those of every handle made from now on.
            weakref.finalize(self._token, self.end)

    def end(self) -> None:
        """At exit: release what is idle and take our count of aclInit back, if the runtime is ours alone."""
        if not self.usable:
            return
        if self.owned and not _has_other_owner():
            for context in self._contexts.values():
                with suppress(BindingError):  # a device that is lost takes nothing back
                    context.release()
            for device in self._devices:
                self.functions.aclrtResetDevice(device)
            if self.functions.has("aclFinalizeReference"):
                self.functions.aclFinalizeReference(ffi.new("uint64_t *"))
            else:
                self.functions.aclFinalize()
        self.ended = True

    def fail(self, what: str) -> NoReturn:
        """Raise for a call that failed without a status of its own."""
        self.check(_FAILURE, what)
        raise AssertionError("check() raises for every status but 0")

    def forget_message(self) -> None:
        """Read the message of a failure that is none, so that it does not turn up as another's."""
        if self.functions.has("aclGetRecentErrMsg"):
            self.functions.aclGetRecentErrMsg()

    def bind(self, device: int | None = None) -> Binding:
        """A context manager in which the calling thread has a context: ``device``'s, else its own or device
        0's."""
        self.start()
        return Binding(self, device)

    def current_context(self) -> Any:
        """The calling thread's context, NULL when it has none."""
        cell = ffi.new(_CONTEXT_CELL)
        status = self.functions.aclrtGetCurrentContext(cell)
        if status == _NO_CONTEXT:
            self.forget_message()
            return ffi.NULL
        if status:
            self.check(status, "aclrtGetCurrentContext")
        return cell[0]

    def set_device(self, device: int) -> None:
        """Bind the calling thread to ``device``; the message of a failure says which devices exist."""
        status = self.functions.aclrtSetDevice(device)
        if status:
            self._explain_device(status, device)
        self._devices.add(device)

    def _explain_device(self, status: int, device: int) -> None:
        try:
            self.check(status, f"aclrtSetDevice({device})")
        except AclError as error:
            count = ffi.new("uint32_t *")
            counted = self.functions.aclrtGetDeviceCount(count) == 0
            there = "how many there are is not known" if not counted else f"{count[0]} visible: "
            there += "" if not counted else "none" if count[0] == 0 else f"0 to {count[0] - 1}"
            note = f"device {device}: {there}; ASCEND_RT_VISIBLE_DEVICES hides and renumbers devices"
            raise type(error)(error.code, error.message, error.what, note) from None

    def context_of_thread(self, context: Any = None) -> DeviceContext:
        """The record of the calling thread's context, which must exist; ``context`` where it is known."""
        context = self.current_context() if context is None else context
        key = int(ffi.cast(_ADDRESS, context))
        found = self._contexts.get(key)
        if found is None:
            cell = ffi.new("int32_t *")
            self.check(self.functions.aclrtGetDevice(cell), "aclrtGetDevice")
            with self._lock:
                found = self._contexts.setdefault(key, DeviceContext(self, context, cell[0]))
        return found


class Binding:
    """Binds the calling thread for the length of a ``with`` block; ``as`` gives the
    :class:`DeviceContext`."""

    __slots__ = ("_device", "_previous", "_runtime")

    def __init__(self, runtime: Runtime, device: int | None) -> None:
        self._runtime = runtime
        self._device = device
        self._previous: Any = None

    def __enter__(self) -> DeviceContext:
        runtime, device = self._runtime, self._device
        current = runtime.current_context()
        if current == ffi.NULL:  # a thread without a context keeps the one it gets
            runtime.set_device(0 if device is None else device)
            return runtime.context_of_thread()
        context = runtime.context_of_thread(current)
        if device is None or device == context.device:
            return context
        self._previous = current
        runtime.set_device(device)
        return runtime.context_of_thread()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is not None:
            status = self._runtime.functions.aclrtSetCurrentContext(self._previous)
            if kind is None:
                self._runtime.check(status, "aclrtSetCurrentContext")


class ContextScope:
    """Makes a known context current for the length of a ``with`` block, and the thread's own one after it."""

    __slots__ = ("_context", "_previous")

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self._previous: Any = None

    def __enter__(self) -> None:
        context = self._context
        runtime = context.runtime
        if runtime.forked:
            runtime.start()  # raises
        current = runtime.current_context()
        if current != context.context:
            runtime.check(runtime.functions.aclrtSetCurrentContext(context.context), "aclrtSetCurrentContext")
            self._previous = current if current != ffi.NULL else None

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            self._context.runtime.functions.aclrtSetCurrentContext(self._previous)

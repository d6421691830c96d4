"""Owned handles: one small object for each thing the library hands out.

The finaliser is registered before the handle exists: the library writes the handle into a cell that the
finaliser already watches, so no interrupt can lose it.  Closing is idempotent; use after close raises.
"""

from __future__ import annotations

import atexit
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aclnn_bindings._acl import ffi
from aclnn_bindings.errors import BindingError, ClosedHandleError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from aclnn_bindings.device import DeviceContext, Runtime

Destroy = Callable[[Any], int]


class _Exit:
    """Whether the interpreter is on its way out: what is still open then is closed without a warning."""

    begun = False

    def begin(self) -> None:
        self.begun = True


_exit = _Exit()
# weakref registers its own exit function with the first finaliser; the one registered later runs earlier.
weakref.finalize(_exit, _Exit)
atexit.register(_exit.begin)


def exit_begun() -> bool:
    """Whether the interpreter runs its exit functions."""
    return _exit.begun


class Handle:
    """Handles of the library in one C cell, destroyed once: by :meth:`close`, by leaving a ``with`` block,
    or by the collector.

    ``destroy(cell)`` destroys what the cell holds, empties it and returns a status.  ``held`` handles
    belong to a larger thing that closes them, at exit too and in the right order.
    """

    __slots__ = ("__weakref__", "_cell", "_finalizer", "context", "noun")
    #: Whether the handle can only be destroyed in the context it came from.
    needs_context = False

    def __init__(
        self, context: DeviceContext, cell: Any, destroy: Destroy, noun: str, *, held: bool = False
    ) -> None:
        self.context = context
        self.noun = noun
        self._cell = cell
        scope = context if self.needs_context else None
        self._finalizer = weakref.finalize(self, _collect, context.runtime, scope, cell, destroy, noun)
        if held or not context.runtime.owned:
            self._finalizer.atexit = False

    @property
    def closed(self) -> bool:
        """Whether the handle was closed or given away."""
        return not self._finalizer.alive

    @property
    def pointer(self) -> Any:
        """The handle itself; :class:`ClosedHandleError` after :meth:`close`."""
        pointer = self._cell[0]
        if pointer == ffi.NULL:
            raise ClosedHandleError(f"{self.noun} is closed")
        return pointer

    def take(self) -> Any:
        """Give the handle away: the caller, or the library, destroys it from now on."""
        pointer = self.pointer
        self._cell[0] = ffi.NULL
        self._finalizer.detach()
        return pointer

    def close(self) -> None:
        """Destroy the handle; nothing happens the second time."""
        parts = self._finalizer.peek()
        if parts is None:
            return
        try:
            _release(*parts[2])
        except BindingError:
            self._finalizer.detach()
            raise
        self._finalizer.detach()  # not earlier: an interrupt before the handle is destroyed would lose it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def single(function: Callable[[Any], int]) -> Destroy:
    """The ``destroy`` of a cell with one handle, from the library's function."""

    def destroy(cell: Any) -> int:
        pointer = cell[0]
        if pointer == ffi.NULL:
            return 0
        cell[0] = ffi.NULL
        return function(pointer)

    return destroy


def _release(runtime: Runtime, scope: DeviceContext | None, cell: Any, destroy: Destroy, noun: str) -> None:
    if not runtime.usable:  # after a fork, or after its end, the library must not be called
        return
    if scope is None:
        status = destroy(cell)
    else:
        try:
            with scope.current():
                status = destroy(cell)
        except BindingError:  # the context could not be made current: it may well be, and there is no later
            destroy(cell)
            raise
    if status:
        runtime.check(status, f"destroying {noun}")


def warn_unclosed(noun: str) -> None:
    """Say that the collector had to close ``noun``; at exit that is nobody's mistake."""
    if not _exit.begun:
        warnings.warn(f"{noun} was never closed: use it in a with block", ResourceWarning, stacklevel=3)


def _collect(runtime: Runtime, scope: DeviceContext | None, cell: Any, destroy: Destroy, noun: str) -> None:
    if any(pointer != ffi.NULL for pointer in ffi.unpack(cell, len(cell))):
        warn_unclosed(noun)
    _release(runtime, scope, cell, destroy, noun)


class Executor(Handle):
    """An ``aclOpExecutor`` between phase 1 and its end.

    An ordinary one is freed by phase 2, whether that succeeds or fails: :meth:`take` it for the call.  One
    that was never run, and a repeatable one, is destroyed here.
    """

    __slots__ = ()

    def __init__(self, context: DeviceContext, *, held: bool = False) -> None:
        destroy = single(context.runtime.functions.aclDestroyAclOpExecutor)
        super().__init__(context, ffi.new("aclOpExecutor *[1]"), destroy, "executor", held=held)

    @property
    def cell(self) -> Any:
        """Where phase 1 writes the executor."""
        return self._cell

    @property
    def spent(self) -> bool:
        """Whether there is nothing to run, also where an interrupt came right after phase 2."""
        return self.closed or bool(self._cell[0] == ffi.NULL)

    def run(self, phase_two: Callable[..., int], workspace: Any, size: int, stream: Any) -> int:
        """Call phase 2, which frees the executor; returns its status.

        Nothing that an interrupt could come between lies between forgetting the handle and the call.
        """
        pointer = self.pointer
        self._cell[0] = ffi.NULL
        status = phase_two(workspace, size, pointer, stream)
        self._finalizer.detach()
        return status


class IntArray(Handle):
    """An ``aclIntArray`` with a copy of ``values``."""

    __slots__ = ()

    def __init__(self, context: DeviceContext, values: tuple[int, ...], *, held: bool = False) -> None:
        functions = context.runtime.functions
        destroy = single(functions.aclDestroyIntArray)
        super().__init__(context, ffi.new("aclIntArray *[1]"), destroy, "int array", held=held)
        self._cell[0] = functions.aclCreateIntArray(ffi.new("int64_t[]", values), len(values))
        if self._cell[0] == ffi.NULL:
            context.runtime.fail(f"aclCreateIntArray of {len(values)} values returned NULL")

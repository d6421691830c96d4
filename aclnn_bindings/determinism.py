"""The determinism switch, set for the length of a phase 1 and restored.

The documentation names the context-level call; the base library since January 2026 reads the process-level
one and older ones the context-level one.  Both are set, as torch_npu does.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from aclnn_bindings._acl import ffi, lib

if TYPE_CHECKING:
    from aclnn_bindings.device import Runtime

_LEVELS = ("aclrtSetSysParamOpt", "aclrtCtxSetSysParamOpt")
_READERS = {"aclrtSetSysParamOpt": "aclrtGetSysParamOpt", "aclrtCtxSetSysParamOpt": "aclrtCtxGetSysParamOpt"}
# The process-level option belongs to all threads: only one phase 1 that changes it runs at a time.
_lock = threading.Lock()


class DeterminismScope:
    """``with DeterminismScope(runtime, True):`` asks for repeatable sums, ``False`` for fast ones."""

    def __init__(self, runtime: Runtime, wanted: bool) -> None:
        self._runtime = runtime
        self._wanted = wanted
        self._before: dict[str, int] = {}

    def __enter__(self) -> None:
        functions = self._runtime.functions
        levels = [name for name in _LEVELS if functions.has(name)]
        if not levels:
            functions.require(*_LEVELS)
        _lock.acquire()
        try:
            for name in levels:
                before = self._read(_READERS[name])
                self._set(name, int(self._wanted))
                self._before[name] = before
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            for name, value in self._before.items():
                self._set(name, value)
        finally:
            self._before = {}
            _lock.release()

    def _read(self, name: str) -> int:
        """The value in force; an option that nobody has set counts as off."""
        cell = ffi.new("int64_t *")
        functions = self._runtime.functions
        if not functions.has(name):
            return 0
        if getattr(functions, name)(lib.ACL_OPT_DETERMINISTIC, cell):
            self._runtime.forget_message()
            return 0
        return int(cell[0])

    def _set(self, name: str, value: int) -> None:
        status = getattr(self._runtime.functions, name)(lib.ACL_OPT_DETERMINISTIC, value)
        self._runtime.check(status, f"{name}(ACL_OPT_DETERMINISTIC, {value})")

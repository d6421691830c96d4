"""One provider of the operator: the vendor's libraries, or the simulator of the same functions.

:func:`find_library` searches as torch_npu does and reports every attempt; nothing falls back silently.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Literal

from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.device import Runtime
from aclnn_bindings.errors import BindingError, LibraryNotFoundError, error_of
from aclnn_bindings.functions import OPERATOR, PHASES, Functions, has_symbol, open_library, origin
from aclnn_bindings.headers import SIMULATED_RUNTIME, SIMULATOR_LIBRARY
from aclnn_bindings.memory import MemoryStats
from aclnn_bindings.search import (
    CUSTOM,
    SUPPORT_NAMES,
    Attempt,
    candidates,
    explicit_candidates,
    refuse_foreign_owner,
)
from aclnn_bindings.versions import SIBLINGS, requirement
from reference.platforms import PLATFORMS, Platform, platform_of_soc

#: What every call needs; anything else is asked for when it is used.
_REQUIRED = (
    "aclInit",
    "aclFinalize",
    "aclrtSetDevice",
    "aclrtResetDevice",
    "aclrtGetDevice",
    "aclrtGetCurrentContext",
    "aclrtSetCurrentContext",
    "aclrtCreateStream",
    "aclrtDestroyStream",
    "aclrtSynchronizeStream",
    "aclrtMalloc",
    "aclrtFree",
    "aclrtMemcpy",
    "aclCreateTensor",
    "aclDestroyTensor",
    "aclDestroyAclOpExecutor",
    *PHASES,
)
_SET_SOC = "gmmfrSimSetSocName"


class SocScope:
    """Makes the simulator answer as one SoC in the calling thread for the length of a ``with`` block."""

    __slots__ = ("_name", "_set")

    def __init__(self, set_name: Any, name: Any) -> None:
        self._set = set_name
        self._name = name

    def __enter__(self) -> None:
        if self._name is not None:
            self._set(self._name)

    def __exit__(self, *_: object) -> None:
        if self._name is not None:
            self._set(ffi.NULL)


def message_text(text: Any) -> str | None:
    """A message of the library, as it gives it, for people; None where there is none."""
    return None if text == ffi.NULL else ffi.string(text).decode(errors="replace").strip() or None


class Library:
    """Opened libraries with the operator in them.

    ``provider`` is ``"vendor"`` or ``"simulator"``, ``path`` the file that holds the operator, ``attempts``
    what was tried to find it.
    """

    def __init__(
        self,
        functions: Functions,
        runtime: Runtime | None,
        attempts: Sequence[Attempt],
        soc: str | None = None,
    ) -> None:
        self.functions = functions
        self.attempts = tuple(attempts)
        self.provider: Literal["vendor", "simulator"] = "simulator" if functions.has(_SET_SOC) else "vendor"
        self.path = functions.origins[OPERATOR]
        self.runtime = runtime or Runtime(functions, self.check)
        self._chosen_soc = soc
        set_name = functions.gmmfrSimSetSocName if self.provider == "simulator" else None
        self._soc_scope = SocScope(set_name, None if soc is None else ffi.new("char[]", soc.encode()))

    def __repr__(self) -> str:
        soc = f" {self._chosen_soc}" if self._chosen_soc else ""
        return f"<Library {self.provider}{soc} {self.path}>"

    def check(self, status: int, what: str) -> None:
        """Raise the exception for ``status`` unless it is 0; ``what`` says which call returned it.

        The library's own message is read here, once and in the same thread: reading consumes it.
        """
        if status:
            raise error_of(status, self.recent_message(), what)

    def recent_message(self) -> str | None:
        """The library's last message in this thread, which reading consumes; None where there is none."""
        if not self.functions.has("aclGetRecentErrMsg"):
            return None
        return message_text(self.functions.aclGetRecentErrMsg())

    def soc_scope(self) -> SocScope:
        """A context manager for calls whose answer depends on the SoC; does nothing on a device."""
        return self._soc_scope

    @cached_property
    def soc(self) -> str:
        """The SoC name as ``aclrtGetSocName`` gives it."""
        with self._soc_scope:
            name = self.functions.aclrtGetSocName()
        if name == ffi.NULL:
            raise BindingError(
                f"{self.path}: aclrtGetSocName returned NULL, so no device answers; "
                "check npu-smi info and the driver"
            )
        return str(ffi.string(name).decode())

    @cached_property
    def platform(self) -> Platform:
        """The platform of :attr:`soc`; :class:`BindingError` where the operator has no kernel for it."""
        soc = self.soc
        row = platform_of_soc(soc)
        if row is None:
            raise BindingError(
                f"SoC {soc}: the operator runs on {', '.join(p.title for p in PLATFORMS.values())}"
            )
        return row

    @property
    def device_count(self) -> int:
        """Devices that the process sees; 0 where the runtime reports none or fails."""
        count = ffi.new("uint32_t *")
        return 0 if self.functions.aclrtGetDeviceCount(count) else int(count[0])

    def memory_stats(self, device: int | None = None) -> MemoryStats:
        """The memory pool of ``device``, or of the calling thread's device."""
        with self.runtime.bind(device) as context:
            return context.memory.stats()

    def release_memory(self, device: int | None = None) -> None:
        """Give the pool's idle memory and streams back to ``device``."""
        with self.runtime.bind(device) as context:
            context.release()


def _load(places: Sequence[tuple[str, str]]) -> tuple[Functions, list[Attempt]]:
    """Open the first place that has both phases of the operator, and what else it takes to call them."""
    attempts: list[Attempt] = []
    for reason, path in places:
        refused = refuse_foreign_owner(path) if path.endswith(CUSTOM) else None
        handle, failed = (ffi.NULL, refused) if refused else open_library(path)
        if failed is not None:
            attempts.append(Attempt(reason, path, failed))
        elif all(has_symbol(handle, name) for name in PHASES):
            attempts.append(Attempt(reason, path, f"found in {origin(handle, OPERATOR)}"))
            return _complete(path, handle, attempts), attempts
        else:
            attempts.append(Attempt(reason, path, _what_lacks(handle)))
    listed = "\n".join(f"  {attempt}" for attempt in attempts) or "  nothing to try"
    raise LibraryNotFoundError(
        f"no library with {OPERATOR}:\n{listed}\nThe operator {requirement(OPERATOR)}. Source the toolkit's "
        "set_env.sh or pass the path of libopapi.so; without a device use aclnn_bindings.simulator().",
        attempts,
    )


def _what_lacks(handle: Any) -> str:
    missing = [name for name in PHASES if not has_symbol(handle, name)]
    found = [name.removeprefix("aclnn") for name in SIBLINGS if has_symbol(handle, name)]
    return f"lacks {' and '.join(missing)}; found instead: {', '.join(found) or 'no member of the family'}"


def _complete(path: str, handle: Any, attempts: list[Attempt]) -> Functions:
    """The functions of ``handle``, the rest from the support libraries beside it or on the search path."""
    handles = [handle]
    folder = os.path.dirname(path)
    for name in SUPPORT_NAMES:
        beside = os.path.join(folder, name)
        other, failed = open_library(beside if folder and os.path.exists(beside) else name)
        if failed is None:
            handles.append(other)
        else:
            attempts.append(Attempt("base library and runtime", name, failed))
    functions = Functions(handles, path)
    functions.require(*_REQUIRED)
    return functions


_lock = threading.Lock()
_opened: dict[str, Library] = {}


def find_library(path: str | os.PathLike[str] | None = None) -> Library:
    """Open the vendor's library: from ``path`` (a file, or the folder of libopapi.so), else by searching.

    The search order is torch_npu's: custom operator packages, split libraries of the toolkit,
    ``libopapi.so`` on the loader's path, older names.  Raises :class:`LibraryNotFoundError` with every
    attempt, or :class:`MissingSymbolError` for a library that lacks something else that a call needs.
    """
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path: expected a path or None, got {path!r} ({type(path).__name__})")
    places = list(candidates(os.environ)) if path is None else explicit_candidates(os.fspath(path))
    key = repr(places)
    with _lock:
        if key not in _opened:
            functions, attempts = _load(places)
            _opened[key] = Library(functions, None, attempts)
        return _opened[key]


@cache
def default_library() -> Library:
    """What :func:`find_library` found at the first call of this process that named no library."""
    return find_library()


@cache
def _simulator_base() -> Library:
    """The simulator of this installation, by its full path and a name that no vendor library has.

    Where a program already runs on the simulator under the vendor's name (torch_npu, say), that one is
    used: both then see one runtime and the same device memory.
    """
    running = lib.gmmfr_is_loaded(os.fsencode(SIMULATED_RUNTIME))
    path = str(SIMULATED_RUNTIME if running else SIMULATOR_LIBRARY)
    if not os.path.exists(path):
        raise LibraryNotFoundError(f"{path} does not exist: run `python build.py`, or reinstall the package")
    handle, failed = open_library(path)
    if failed is not None:
        raise LibraryNotFoundError(f"{path}: {failed}", [Attempt("simulator", path, failed)])
    functions = Functions([handle], path)
    functions.require(*_REQUIRED, _SET_SOC)
    return Library(functions, None, [Attempt("simulator", path, "found")])


def simulator(soc: str | None = None) -> Library:
    """The CPU simulator, answering as ``soc`` (``"Ascend910B2"``, ``"Ascend910_9391"``,
    ``"Ascend950PR_9579"``).

    Without a name the environment variable ``GMMFR_SIM_SOC`` decides, else it is an Ascend 950.  All
    simulators of a process share one runtime and its memory.
    """
    if soc is not None and not isinstance(soc, str):
        raise TypeError(f"soc: expected the name of a SoC or None, got {soc!r} ({type(soc).__name__})")
    return _simulator(soc)


@cache
def _simulator(soc: str | None) -> Library:
    base = _simulator_base()
    if soc is None:
        return base
    status = base.functions.gmmfrSimSetSocName(soc.encode())
    base.functions.gmmfrSimSetSocName(ffi.NULL)
    if status:
        known = [name for row in PLATFORMS.values() for name in row.soc_names]
        raise BindingError(f"soc: {soc!r} is unknown to the simulator; known: {', '.join(known)}")
    return Library(base.functions, base.runtime, base.attempts, soc)

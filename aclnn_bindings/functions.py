"""The functions of one set of opened libraries, each found by name; the only way to call them.

``functions.aclrtMalloc(...)`` calls through a table of typed pointers that belongs to this object, so that
the vendor's library and the simulator can live in one process.  A function that was not found raises
:class:`MissingSymbolError` and is never called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.errors import MissingSymbolError
from aclnn_bindings.versions import requirement

#: Index of each function in the table.
INDEX: dict[str, int] = {ffi.string(lib.gmmfr_names[i]).decode(): i for i in range(lib.GMMFR_FUNCTIONS)}

OPERATOR = "aclnnGroupedMatmulFinalizeRoutingV3"
#: Both phases: they count as present only together.
PHASES = (f"{OPERATOR}GetWorkspaceSize", OPERATOR)


def open_library(path: str) -> tuple[Any, str | None]:
    """``dlopen(path)``: the handle and None, or a null handle and the loader's reason."""
    handle = lib.gmmfr_open(path.encode())
    if handle == ffi.NULL:
        reason = lib.gmmfr_open_error()
        return handle, "unknown reason" if reason == ffi.NULL else ffi.string(reason).decode(errors="replace")
    return handle, None


def has_symbol(handle: Any, name: str) -> bool:
    """Whether an opened library, or one it needs, has the function ``name``."""
    return bool(lib.gmmfr_symbol(handle, name.encode()) != ffi.NULL)


def origin(handle: Any, name: str) -> str | None:
    """Path of the file that holds the function ``name``."""
    path = lib.gmmfr_origin(lib.gmmfr_symbol(handle, name.encode()))
    return None if path == ffi.NULL else ffi.string(path).decode(errors="replace")


class Functions:
    """All functions found in ``handles``, each in the first library that has it."""

    def __init__(self, handles: Sequence[Any], described_as: str) -> None:
        self.table = ffi.new("gmmfr_table *")
        self.described_as = described_as
        self.origins: dict[str, str] = {}
        for name, index in INDEX.items():
            for handle in handles:
                address = lib.gmmfr_symbol(handle, name.encode())
                if address != ffi.NULL:
                    lib.gmmfr_set(self.table, index, address)
                    self.origins[name] = origin(handle, name) or "?"
                    setattr(self, name, partial(getattr(lib, f"call_{name}"), self.table))
                    break

    def has(self, name: str) -> bool:
        """Whether the function ``name`` was found."""
        return name in self.origins

    def require(self, *names: str) -> None:
        """Raise :class:`MissingSymbolError` for the first of ``names`` that was not found."""
        for name in names:
            if name not in self.origins:
                raise self._missing(name)

    def _missing(self, name: str) -> MissingSymbolError:
        return MissingSymbolError(f"{self.described_as} lacks {name}; it {requirement(name)}", name)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in INDEX:
            raise self._missing(name)
        raise AttributeError(name)

"""The vendor's operator from Python: aclnnGroupedMatmulFinalizeRoutingV3, on an NPU or on the CPU simulator.

:func:`grouped_matmul_finalize_routing_v3` is one call; :class:`Plan` keeps both phases of a call for many
runs. :func:`find_library` opens the vendor's library, :func:`simulator` the CPU simulator of the same
functions. Importing this package loads no driver, no torch and no library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aclnn_bindings.errors import (
        AclError,
        BindingError,
        ClosedHandleError,
        DeviceFaultError,
        ForkedProcessError,
        LibraryNotFoundError,
        MissingSymbolError,
        OutOfDeviceMemoryError,
        RejectedError,
        SynchronizeTimeoutError,
    )
    from aclnn_bindings.headers import include_directory, library_directory
    from aclnn_bindings.libraries import Library, find_library, simulator
    from aclnn_bindings.operator import InitialValueWarning, grouped_matmul_finalize_routing_v3
    from aclnn_bindings.phase_one import phase_one_status
    from aclnn_bindings.plan import Plan
    from aclnn_bindings.sources import DeviceAddress

_HOME = {
    "AclError": "errors",
    "BindingError": "errors",
    "ClosedHandleError": "errors",
    "DeviceFaultError": "errors",
    "ForkedProcessError": "errors",
    "LibraryNotFoundError": "errors",
    "MissingSymbolError": "errors",
    "OutOfDeviceMemoryError": "errors",
    "RejectedError": "errors",
    "SynchronizeTimeoutError": "errors",
    "include_directory": "headers",
    "library_directory": "headers",
    "Library": "libraries",
    "find_library": "libraries",
    "simulator": "libraries",
    "InitialValueWarning": "operator",
    "grouped_matmul_finalize_routing_v3": "operator",
    "phase_one_status": "phase_one",
    "Plan": "plan",
    "DeviceAddress": "sources",
}

__all__ = [
    "AclError",
    "BindingError",
    "ClosedHandleError",
    "DeviceAddress",
    "DeviceFaultError",
    "ForkedProcessError",
    "InitialValueWarning",
    "Library",
    "LibraryNotFoundError",
    "MissingSymbolError",
    "OutOfDeviceMemoryError",
    "Plan",
    "RejectedError",
    "SynchronizeTimeoutError",
    "find_library",
    "grouped_matmul_finalize_routing_v3",
    "include_directory",
    "library_directory",
    "phase_one_status",
    "simulator",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'aclnn_bindings' has no attribute {name!r}")
    value = getattr(import_module(f"aclnn_bindings.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

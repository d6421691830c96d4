"""What this machine has: packages, tools, environment, and which backends run on it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib import metadata
from typing import Any

from gmmfr.backends import BACKENDS
from reference.platforms import PLATFORMS
from reference.problem import Problem, TensorSpec

_PACKAGES = ("gmmfr", "numpy", "cffi", "ml_dtypes", "safetensors", "torch", "torch_npu", "pypto")
_TOOLS = ("c++", "g++", "cmake", "make", "npu-smi")
_ENVIRONMENT = (
    "ASCEND_HOME_PATH",
    "ASCEND_OPP_PATH",
    "ASCEND_CUSTOM_OPP_PATH",
    "LD_LIBRARY_PATH",
    "TASK_QUEUE_ENABLE",
    "ACLNN_CACHE_LIMIT",
    "DISABLE_L2_CACHE",
    "GMMFR_SIM_SOC",
)


def examine() -> dict[str, Any]:
    """Everything ``gmmfr doctor`` prints."""
    return {
        "system": {
            "python": sys.version.split()[0],
            "machine": platform.machine(),
            "system": platform.platform(),
        },
        "packages": {name: _version(name) for name in _PACKAGES},
        "tools": {name: shutil.which(name) for name in _TOOLS},
        "environment": {name: os.environ.get(name) for name in _ENVIRONMENT},
        "libraries": _libraries(),
        "backends": [row for name in BACKENDS for row in _availability(name)],
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _libraries() -> list[str]:
    """Where the vendor's library was looked for, and what was found there."""
    from aclnn_bindings import BindingError, LibraryNotFoundError, find_library

    try:
        attempts: tuple[object, ...] = find_library().attempts
    except LibraryNotFoundError as error:
        attempts = error.attempts
    except BindingError as error:
        attempts = (error,)
    return [str(attempt) for attempt in attempts]


def _availability(backend: str) -> list[dict[str, Any]]:
    """One row per platform: whether ``backend`` runs there, and why not."""
    rows = []
    for name in PLATFORMS:
        reason = BACKENDS[backend]().refusal(sample_problem(name))
        rows.append({"backend": backend, "platform": name, "available": reason is None, "reason": reason})
    return rows


def sample_problem(name: str) -> Problem:
    """A small valid call of a platform."""
    from reference.cases import make_case

    family = PLATFORMS[name].family
    operands = make_case("w0" if family == "a2a3" else "m0")
    specs: dict[str, TensorSpec | None] = dict(operands.problem.arguments)
    return Problem(name, specs, operands.problem.attributes)

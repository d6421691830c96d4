"""What this machine has: packages, tools, environment, and which backends run on it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from typing import Any

from gmmfr.backends import BACKENDS
from gmmfr.installed import cann_version, driver_version
from gmmfr.misfits import find_misfits
from gmmfr.requirements import installed_version
from gmmfr.torch_npu_backend import device_soc
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
    found, attempts = _search()
    soc = device_soc()
    return {
        "system": {
            "python": sys.version.split()[0],
            "machine": platform.machine(),
            "system": platform.platform(),
        },
        "packages": {name: installed_version(name) for name in _PACKAGES},
        "vendor": {
            "driver": driver_version(),
            "CANN toolkit": cann_version("toolkit"),
            "CANN ops": cann_version("ops"),
            "SoC": soc,
        },
        "tools": {name: shutil.which(name) for name in _TOOLS},
        "environment": {name: os.environ.get(name) for name in _ENVIRONMENT},
        "libraries": [str(attempt) for attempt in attempts],
        "misfits": [misfit.to_json() for misfit in find_misfits(soc, found, attempts)],
        "backends": [row for name in BACKENDS for row in _availability(name)],
    }


def _search() -> tuple[bool, tuple[object, ...]]:
    """Whether the vendor's library was found, where it was looked for, and what was found there."""
    from aclnn_bindings import BindingError, LibraryNotFoundError, find_library

    try:
        library = find_library()
        return library.provider == "vendor", library.attempts
    except LibraryNotFoundError as error:
        return False, error.attempts
    except BindingError as error:
        return False, (error,)


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

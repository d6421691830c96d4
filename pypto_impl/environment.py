"""The environment of the child process, and what it takes to have one."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from pypto_impl.cache import cache_root
from pypto_impl.toolchain import TOOLS, missing_tools
from reference.platforms import find_platform

REQUIRED = "0.2.0"
#: A folder that holds one of these provides the ACL runtime, real or simulated. The interpreter uses neither.
RUNTIME_LIBRARIES = ("libascendcl.so", "libnnopbase.so", "libopapi.so", "libhccl.so")
#: Where CANN's toolkit keeps the compiler that PyPTO calls, below ASCEND_HOME_PATH.
COMPILERS = ("bin/bisheng", "*/bin/bisheng", "*/*/bin/bisheng")
#: Modules that PyPTO imports although its wheel does not declare them.
MODULES = ("torch", "sympy")


def availability(platform_name: str) -> str | None:
    """None when the kernels of ``platform_name`` can be computed here, else the reason why not.

    Cheap: looks at files and installed versions, imports neither torch nor PyPTO and starts nothing.
    """
    find_platform(platform_name)  # every platform of the operator has a PyPTO architecture; others raise
    if device_reason() is None:
        return missing_package()
    return missing_package() or missing_module() or missing_tool() or unusable_cache()


def missing_package() -> str | None:
    """Whether the right PyPTO is installed."""
    if importlib.util.find_spec("pypto") is None:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        here = f"this is CPython {python} on {sys.platform} {platform.machine()}"
        return (
            "pypto is not installed; install gmmfr with its pypto extra; "
            f"the wheels are for CPython 3.10 to 3.12 on Linux, {here}"
        )
    version = metadata.version("pypto")
    if version != REQUIRED:
        return f"pypto {version} is installed; the backend is tied to pypto=={REQUIRED}"
    return None


def missing_module() -> str | None:
    """Whether everything that PyPTO imports is installed."""
    missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
    return (
        f"pypto needs {', '.join(missing)}, not installed; install gmmfr with its pypto extra"
        if missing
        else None
    )


def missing_tool() -> str | None:
    """Whether the build tools are there."""
    missing = missing_tools()
    if not missing:
        return None
    return f"{', '.join(missing)} not found; PyPTO's interpreter is compiled once with {', '.join(TOOLS)}"


def unusable_cache() -> str | None:
    """Whether the cache folder can be written."""
    folder = cache_root()
    while not folder.exists():
        folder = folder.parent
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    return f"the cache folder {cache_root()} cannot be written; set GMMFR_CACHE"


def device_reason() -> str | None:
    """None when an NPU may be tried: CANN's toolkit with its compiler, and torch_npu. Starts nothing."""
    home = os.environ.get("ASCEND_HOME_PATH")
    if not home:
        return "ASCEND_HOME_PATH is not set: CANN's toolkit is not there"
    if not any(found for pattern in COMPILERS for found in Path(home).glob(pattern)):
        return f"{home} holds no bisheng compiler: CANN's toolkit is not there"
    if importlib.util.find_spec("torch_npu") is None:
        return "torch_npu is not installed"
    return None


def without_runtime(search_path: str) -> str:
    """A library search path without the folders that provide an ACL runtime."""
    kept = [
        folder
        for folder in search_path.split(os.pathsep)
        if folder and not any((Path(folder) / name).exists() for name in RUNTIME_LIBRARIES)
    ]
    return os.pathsep.join(kept)


def child_environment(run_folder: Path, *, device: bool) -> dict[str, str]:
    """The environment of a child process whose files stay in ``run_folder``.

    For the interpreter, everything of CANN is taken away: PyPTO decides by ASCEND_HOME_PATH whether it runs
    on a device, and a bare ``import torch`` would load torch_npu, which needs CANN's libraries.
    """
    environment = dict(os.environ)
    project = str(Path(__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [project, environment.get("PYTHONPATH", "")]))
    environment["TILE_FWK_OUTPUT_DIR"] = str(run_folder / "output")
    environment["HOME"] = str(run_folder)
    environment["GMMFR_CACHE"] = str(cache_root())
    if device:
        return environment
    for name in [name for name in environment if name.startswith("ASCEND_")]:
        del environment[name]
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    environment["LD_LIBRARY_PATH"] = without_runtime(environment.get("LD_LIBRARY_PATH", ""))
    if not environment["LD_LIBRARY_PATH"]:
        del environment["LD_LIBRARY_PATH"]
    return environment

"""What has to be built on this machine before PyPTO can compute on it: its calculator and our extension of
it.

PyPTO 0.2.0 ships its calculator as source against torch and would build it into a temporary folder in every
process. Both libraries are built once instead and kept in the cache, by torch version, compiler ABI and
source text.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pypto_impl.cache import digest, publish

EXTENSION_SOURCE = Path(__file__).with_name("interpreter_extension.cpp")
CALCULATOR = "libtile_fwk_calculator.so"
EXTENSION = "libgmmfr_interpreter_extension.so"
TOOLS = ("g++", "cmake", "make")


class BuildError(RuntimeError):
    """A library could not be built; the text ends with the compiler's output."""


def find_tool(name: str) -> str | None:
    """The path of a build tool. A ``cmake`` that is a script (the wrapper of its wheel) does not count."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which(name, path=folder) if folder else None
        if found and (name != "cmake" or is_elf(Path(found))):
            return found
    return None


def is_elf(path: Path) -> bool:
    """Whether the file is a native program."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def missing_tools() -> list[str]:
    """Names of the build tools that are not there."""
    return [name for name in TOOLS if find_tool(name) is None]


def run_tool(*command: str) -> None:
    """Run a build step; :class:`BuildError` with its last lines when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-30:])
        raise BuildError(f"{' '.join(command)} failed with exit code {done.returncode}:\n{tail}")


def require_tool(name: str) -> str:
    """The path of a build tool, or :class:`BuildError`."""
    found = find_tool(name)
    if found is None:
        raise BuildError(f"{name} is not on PATH; PyPTO's interpreter needs {', '.join(TOOLS)} once")
    return found


def calculator_library(package: Path, folder: Path, torch: Any, report: Callable[[str], None]) -> Path:
    """PyPTO's calculator for this torch, built in ``folder`` on first use (about half a minute)."""
    sources = package / "lib" / "calculator"
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    torch_folder = Path(torch.__file__).parent

    def build(target: Path) -> None:
        report("building PyPTO's calculator (once, about half a minute)")
        work = target.parent / "cmake"
        cmake = require_tool("cmake")
        require_tool("make")
        run_tool(
            cmake,
            *("-S", str(sources), "-B", str(work), "-DCMAKE_BUILD_TYPE=Release"),
            *(f"-DPY3_MOD_TORCH_VERSION={torch.__version__}", f"-DPY3_MOD_TORCH_ROOT_PATH={torch_folder}"),
            f"-DPY3_MOD_TORCH_C_GLIBCXX_USE_CXX11_ABI={abi}",
        )
        run_tool(cmake, "--build", str(work), "-j", "2")
        built = next(work.rglob(CALCULATOR), None)
        if built is None:
            raise BuildError(f"building PyPTO's calculator left no {CALCULATOR}")
        shutil.move(built, target)

    key = digest(f"{torch.__version__} {abi} {torch_folder}")
    return publish(folder / f"calculator-{key}" / CALCULATOR, build)


def extension_library(package: Path, folder: Path) -> Path:
    """Our extension of the interpreter, built in ``folder`` on first use (about two seconds)."""
    sources = package / "lib" / "calculator"

    def build(target: Path) -> None:
        run_tool(
            require_tool("g++"),
            *("-O2", "-std=c++17", "-Wall", "-Wextra", "-shared", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=0"),
            *("-isystem", str(sources / "src"), "-isystem", str(sources / "include")),
            *(str(EXTENSION_SOURCE), "-o", str(target), "-ldl"),
        )

    key = digest(EXTENSION_SOURCE.read_text(encoding="utf-8"))
    return publish(folder / f"extension-{key}" / EXTENSION, build)

"""Where the C headers and the simulator's libraries of this installation are."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
#: Folder with the simulator under the vendor's library names: for ``-L``, ``-rpath`` and ``LD_LIBRARY_PATH``.
LIBRARY_DIRECTORY = _PACKAGE / "lib"
#: The simulator under its own name, which no vendor library can stand in for.
SIMULATOR_LIBRARY = LIBRARY_DIRECTORY / "libgmmfr_simulator.so"
#: The simulator under the vendor's name of the runtime.
SIMULATED_RUNTIME = LIBRARY_DIRECTORY / "libascendcl.so"


def include_directory() -> Path:
    """The folder to compile C and C++ clients against: ``-I`` this.

    An installed package carries a copy; a source tree has it beside the package.
    """
    for folder in (_PACKAGE / "include", _PACKAGE.parent / "include"):
        if (folder / "acl" / "acl.h").exists():
            return folder
    raise FileNotFoundError(f"no headers in {_PACKAGE / 'include'}: reinstall the package")


def library_directory() -> Path:
    """The simulator's libraries under the vendor's names: for ``-L`` and ``LD_LIBRARY_PATH``."""
    return LIBRARY_DIRECTORY

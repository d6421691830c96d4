"""All build logic: the cffi extension from ``include/`` and the C shim, and the simulator's libraries.

``pip install .``, ``pip install -e .`` and the sdist use it through ``pyproject.toml``; ``python build.py``
builds in place.  No vendor library is needed: the shim finds every function at run time.  The compilers and
flags are those of the environment (``CC``, ``CXX``, ``CFLAGS``, ``CXXFLAGS``, ``LDFLAGS``), so a cross build
needs nothing else; without any the simulator is built with ``c++ -O3``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
INCLUDE = ROOT / "include"
SHIM = ROOT / "aclnn_bindings" / "shim"
SIMULATOR = ROOT / "aclnn_bindings" / "simulator"
#: The control functions of the simulator; a vendor library has none of them.
SIMULATOR_HEADER = SIMULATOR / "gmmfr_simulator.h"
#: Where objects of earlier builds are kept; a rebuild compiles what changed.
OBJECTS = ROOT / "build" / "simulator"

#: The whole simulator under a name of its own, for the binding: the loader takes a library that is already
#: loaded for any later one of the same name, so under the vendor's name it would get in the way of the
#: vendor's, and the reverse.
OWN_LIBRARY = "libgmmfr_simulator.so"
#: The same once more under the vendor's name, for programs that are built or run against that name.
MAIN_LIBRARY = "libascendcl.so"
#: The vendor's other library names: each is empty and needs the one before.
ALIAS_LIBRARIES = (
    "libnnopbase.so",
    "libopapi.so",
    "libhccl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libacl_tdt_channel.so",
)

CXX_FLAGS = (
    "-std=c++17 -O3 -fPIC -pthread -fvisibility=hidden -fvisibility-inlines-hidden -Wall -Wextra"
).split()
# -Bsymbolic: a call inside the library stays inside, whatever else the process has loaded.
LINK_FLAGS = "-shared -pthread -Wl,-Bsymbolic -Wl,-z,defs".split()


class BuildError(SystemExit):
    """The build cannot go on; the text says what to do."""


# --------------------------------------------------------------------------- declarations from the headers


@dataclass(frozen=True)
class Prototype:
    """One C function: ``returns name(parameters)``; a parameter is its type and its name."""

    name: str
    returns: str
    parameters: tuple[tuple[str, str], ...]

    @property
    def declaration(self) -> str:
        """The wrapper's declaration: the same function with the table in front."""
        parameters = ["const gmmfr_table *table", *(f"{kind} {name}" for kind, name in self.parameters)]
        return f"{self.returns} call_{self.name}({', '.join(parameters)})"

    @property
    def definition(self) -> str:
        """The wrapper: the compiler checks it against the header's prototype through the table's type."""
        call = f"table->{self.name}({', '.join(name for _, name in self.parameters)})"
        return (
            f"static {self.declaration}\n{{\n    {'' if self.returns == 'void' else 'return '}{call};\n}}\n"
        )


def include_order(header: Path, seen: list[Path]) -> list[Path]:
    """``header`` after everything that it includes from the same tree, each file once."""
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', header.read_text(encoding="utf-8"), re.MULTILINE):
        if (INCLUDE / name).exists():
            include_order(INCLUDE / name, seen)
    if header not in seen:
        seen.append(header)
    return seen


def public_headers() -> list[Path]:
    """All headers of ``include/`` in an order in which each can be read after the ones before it."""
    ordered: list[Path] = []
    for header in sorted(INCLUDE.rglob("*.h")):
        include_order(header, ordered)
    if not ordered:
        raise BuildError(f"no headers in {INCLUDE}: the source tree is incomplete")
    return ordered


def declarations(text: str) -> list[str]:
    """The C declarations of a header, one a string, without comments, directives and C++ parts."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    text = re.sub(r"^\s*#\s*ifdef\s+__cplusplus.*?^\s*#\s*endif", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    found, start, depth = [], 0, 0
    for position, character in enumerate(text):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == ";" and depth == 0:
            found.append(" ".join(text[start:position].split()))
            start = position + 1
    if text[start:].strip():
        raise BuildError(f"a header ends inside a declaration: {' '.join(text[start:].split())[:80]!r}")
    return found


def parse_prototype(declaration: str) -> Prototype | None:
    """Read ``declaration`` as a function, or None where it declares something else."""
    if re.match(r"(typedef|static|struct|enum)\b", declaration) or "(" not in declaration:
        return None
    match = re.fullmatch(r"(.*?[\s*])(\w+)\s*\(([^()]*)\)", declaration)
    if match is None:
        raise BuildError(f"cannot read the prototype {declaration!r}: function pointers need a typedef")
    returns, name, inside = (part.strip() for part in match.groups())
    parameters = []
    for parameter in () if inside in ("", "void") else inside.split(","):
        kind, own_name = re.findall(r"^\s*(.*?[\s*])(\w+)\s*$", parameter)[0]
        parameters.append((kind.strip(), own_name))
    return Prototype(name, returns, tuple(parameters))


def read_headers() -> tuple[list[str], list[Prototype]]:
    """Everything the headers declare: types and constants as cffi reads them, and the functions."""
    types, functions = [], []
    for header in [*public_headers(), SIMULATOR_HEADER]:
        for declaration in declarations(header.read_text(encoding="utf-8")):
            prototype = parse_prototype(declaration)
            if prototype is not None:
                functions.append(prototype)
            else:
                types.append(re.sub(r"^(static const int \w+) = .*", r"\1", declaration) + ";")
    return types, functions


# ------------------------------------------------------------------------------------- the cffi extension


def table_header(functions: Sequence[Prototype]) -> str:
    """C text: the table of function pointers, the functions' names, and a wrapper for each."""
    lines = ["/* Generated by build.py from the headers. */"]
    lines += [f'#include "{header.relative_to(INCLUDE)}"' for header in public_headers()]
    lines += [f'#include "{SIMULATOR_HEADER.name}"', "", "typedef struct gmmfr_table {"]
    lines += [f"    __typeof__(&{function.name}) {function.name};" for function in functions]
    lines += ["} gmmfr_table;", "", f"#define GMMFR_FUNCTIONS {len(functions)}", '#include "shim.h"', ""]
    return "\n".join(lines)


def names_source(functions: Sequence[Prototype]) -> str:
    """C text: the names in the order of the table's members, for dlsym and for messages."""
    names = "\n".join(f'    "{function.name}",' for function in functions)
    return f"const char *const gmmfr_names[GMMFR_FUNCTIONS] = {{\n{names}\n}};\n"


def emit_extension(folder: Path) -> list[Path]:
    """Write the extension's generated C into ``folder``; returns what is compiled with the shim."""
    from cffi import FFI

    types, functions = read_headers()
    shim = [f"{text};" for text in declarations((SHIM / "shim.h").read_text(encoding="utf-8"))]
    extra = ["typedef struct gmmfr_table { ...; } gmmfr_table;", "#define GMMFR_FUNCTIONS ..."]
    extra += [text.replace("[GMMFR_FUNCTIONS]", "[...]") for text in shim]
    ffi = FFI()
    ffi.cdef("\n".join([*types, *extra, *(f"{function.declaration};" for function in functions)]))
    wrappers = "\n".join(function.definition for function in functions)
    ffi.set_source("aclnn_bindings._acl", f'#include "gmmfr_table.h"\n{wrappers}')
    folder.mkdir(parents=True, exist_ok=True)
    write_if_changed(folder / "gmmfr_table.h", table_header(functions))
    write_if_changed(folder / "gmmfr_names.c", f'#include "gmmfr_table.h"\n{names_source(functions)}')
    ffi.emit_c_code(str(folder / "_acl.c"))
    return [folder / "_acl.c", folder / "gmmfr_names.c"]


def write_if_changed(path: Path, text: str) -> None:
    """Write ``text`` unless the file already holds it, so that nothing is rebuilt for no reason."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# ------------------------------------------------------------------------------------------ the simulator


def compiler() -> list[str]:
    """The C++ compiler as a command: ``CXX``, else ``c++``, ``g++`` or ``clang++``."""
    given = os.environ.get("CXX")
    for candidate in [given] if given else ["c++", "g++", "clang++"]:
        command = shlex.split(candidate)
        if shutil.which(command[0]):
            return command
    raise BuildError(
        f"no C++ compiler: {'CXX=' + given if given else 'c++, g++ and clang++'} not found. The simulator "
        "needs one with C++17 (GCC 9 or Clang 10 on): install it (Debian, Ubuntu: apt install g++; "
        "Fedora: dnf install gcc-c++; openEuler: yum install gcc-c++) or set CXX to its path."
    )


def run_compiler(command: Sequence[str]) -> None:
    """Run one compiler command; a failure shows the command and the compiler's text."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"{shlex.join(command)}\n{result.stderr.strip()}\nexit code {result.returncode}")
    if result.stderr.strip():
        print(result.stderr.strip(), file=sys.stderr)


def is_current(target: Path, dependencies: Path) -> bool:
    """Whether ``target`` is newer than every file that the compiler's dependency list names."""
    if not target.exists() or not dependencies.exists():
        return False
    names = dependencies.read_text(encoding="utf-8").replace("\\\n", " ").partition(":")[2].split()
    made = target.stat().st_mtime_ns
    return all(Path(name).exists() and Path(name).stat().st_mtime_ns < made for name in names)


def compile_source(command: Sequence[str], source: Path, objects: Path) -> Path:
    """Compile one source of the simulator unless its object is current; returns the object."""
    target = objects / f"{source.relative_to(SIMULATOR).as_posix().replace('/', '_')}.o"
    dependencies = target.with_suffix(".d")
    if not is_current(target, dependencies):
        fresh = target.with_suffix(f".{os.getpid()}.o")
        started = time.time_ns()
        run_compiler([*command, "-MMD", "-MF", str(dependencies), "-c", str(source), "-o", str(fresh)])
        os.utime(fresh, ns=(started, started))  # a file edited while the compiler ran counts as newer
        fresh.replace(target)
    return target


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold ``folder`` against another build in the same tree."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def link(command: Sequence[str], name: str, target: Path) -> None:
    """Link ``target`` and put it in place at once: a process that has the old file mapped keeps it."""
    fresh = target.with_name(f".{name}.{os.getpid()}")
    try:
        flags = [*LINK_FLAGS, *shlex.split(os.environ.get("LDFLAGS", ""))]
        run_compiler([*command, *flags, f"-Wl,-soname,{name}", "-o", str(fresh)])
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def build_simulator(target: Path, *, warnings_are_errors: bool = False) -> list[Path]:
    """Compile the simulator into the folder ``target``, under its own and the vendor's library names."""
    sources = sorted(SIMULATOR.rglob("*.cpp"))
    if not sources:
        raise BuildError(f"no sources in {SIMULATOR}: the source tree is incomplete")
    flags = [*CXX_FLAGS, *(["-Werror"] if warnings_are_errors else []), f"-I{INCLUDE}", f"-I{SIMULATOR}"]
    flags += shlex.split(os.environ.get("CXXFLAGS", os.environ.get("CFLAGS", "")))
    command = [*compiler(), *flags]
    objects = OBJECTS / hashlib.sha256(shlex.join(command).encode()).hexdigest()[:12]
    with exclusive(objects), ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda source: compile_source(command, source, objects), sources))
        target.mkdir(parents=True, exist_ok=True)
        linker = compiler()
        libraries = [target / name for name in (OWN_LIBRARY, MAIN_LIBRARY, *ALIAS_LIBRARIES)]
        newest = max(item.stat().st_mtime_ns for item in [*made, Path(__file__)])
        if all(library.exists() and library.stat().st_mtime_ns > newest for library in libraries):
            return libraries
        for library in libraries[:2]:
            link([*linker, *map(str, made), "-ldl"], library.name, library)
        needed = ["-Wl,--no-as-needed", f"-L{target}", f"-l:{MAIN_LIBRARY}", "-Wl,-rpath,$ORIGIN"]
        for library in libraries[2:]:
            link([*linker, "-x", "c++", os.devnull, "-x", "none", *needed], library.name, library)
    return libraries


# -------------------------------------------------------------------------------------- the build command


def remove_stale(build_lib: Path) -> None:
    """Remove modules that an earlier build left in ``build_lib`` and that the source tree no longer has.

    The wheel takes everything in that folder, and pip builds in the tree itself.
    """
    for built in build_lib.rglob("*.py"):
        if not (ROOT / built.relative_to(build_lib)).exists():
            built.unlink()


class BuildExtension(build_ext):
    """Builds ``aclnn_bindings._acl`` and ``aclnn_bindings/lib``; copies the headers into a wheel."""

    warnings_are_errors = False

    def run(self) -> None:
        compiler()
        generated = ROOT / "build" / "extension"
        shim = SHIM.relative_to(ROOT)  # relative sources keep the objects inside build_temp
        for extension in self.extensions:
            emitted = [path.relative_to(ROOT) for path in emit_extension(generated)]
            extension.sources = [str(path) for path in (shim / "shim.c", *emitted)]
            extension.depends = [str(path) for path in (SHIM / "shim.h", SIMULATOR_HEADER, *public_headers())]
            extension.include_dirs = [str(path) for path in (generated, INCLUDE, SIMULATOR, SHIM)]
            extension.extra_compile_args = ["-std=gnu11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"]
            extension.libraries = ["dl"]
        super().run()
        package = ROOT / "aclnn_bindings" if self._is_in_place() else Path(self.build_lib) / "aclnn_bindings"
        build_simulator(package / "lib", warnings_are_errors=self.warnings_are_errors)
        if not self._is_in_place():
            remove_stale(Path(self.build_lib))
            for header in public_headers():
                copy = package / "include" / header.relative_to(INCLUDE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(header, copy)

    def _is_in_place(self) -> bool:
        return bool(self.inplace or getattr(self, "editable_mode", False))

    def get_source_files(self) -> list[str]:
        """What an sdist must hold to build: setuptools asks before the sources are known."""
        return [str(path.relative_to(ROOT)) for path in sorted(SHIM.glob("*.[ch]"))]


def build_in_place() -> None:
    """Build extension and simulator into the source tree, warnings being errors."""
    from setuptools import Distribution

    os.chdir(ROOT)
    warnings.filterwarnings("ignore", message=".*experimental")  # known: the floor of setuptools is pinned
    distribution = Distribution()
    distribution.parse_config_files()
    command = distribution.get_command_obj("build_ext")
    command.inplace = True
    command.warnings_are_errors = True
    command.ensure_finalized()
    command.run()


def main() -> None:
    """``python build.py``: no arguments, and not as a module."""
    if __spec__ is not None or len(sys.argv) > 1:
        raise BuildError(
            "build.py takes no arguments: `python build.py` builds extension and simulator in place.\n"
            "If you meant the packaging tool `build`, this folder's build.py hides it: run it from another "
            f"folder (`cd .. && python -m build {ROOT.name}`) or use `pip wheel .`."
        )
    build_in_place()


if __name__ == "__main__":
    main()

"""build.py: what it reads from the headers, and what it says when it cannot build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HEADER = """
/* A comment; with a semicolon. */
#ifndef GUARD_
#define GUARD_ 1
#include "other.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef enum color { RED = 1, /* one */ GREEN = 2 } color;
static const int LIMIT = 7; // seven
const char *name_of(color value);
void *make(const size_t count, void **cell,
           int32_t flag);
int none(void);
#ifdef __cplusplus
}
#endif
#endif
"""


def test_declarations_are_read_without_comments_directives_and_cpp_parts(build_module: ModuleType) -> None:
    assert build_module.declarations(HEADER) == [
        "typedef enum color { RED = 1, GREEN = 2 } color",
        "static const int LIMIT = 7",
        "const char *name_of(color value)",
        "void *make(const size_t count, void **cell, int32_t flag)",
        "int none(void)",
    ]


def test_prototypes_become_wrappers_that_take_the_table_first(build_module: ModuleType) -> None:
    prototype = build_module.parse_prototype("void *make(const size_t count, void **cell, int32_t flag)")
    assert prototype.parameters == (("const size_t", "count"), ("void **", "cell"), ("int32_t", "flag"))
    assert prototype.declaration == (
        "void * call_make(const gmmfr_table *table, const size_t count, void ** cell, int32_t flag)"
    )
    assert "return table->make(count, cell, flag);" in prototype.definition
    assert build_module.parse_prototype("int none(void)").parameters == ()
    assert build_module.parse_prototype("typedef int (*callback)(void)") is None
    assert build_module.parse_prototype("static const int LIMIT = 7") is None


def test_a_header_that_ends_inside_a_declaration_is_refused(build_module: ModuleType) -> None:
    with pytest.raises(build_module.BuildError, match="ends inside a declaration"):
        build_module.declarations("int half(")


def test_a_function_pointer_in_a_prototype_is_refused(build_module: ModuleType) -> None:
    with pytest.raises(build_module.BuildError, match="function pointers need a typedef"):
        build_module.parse_prototype("int subscribe(void (*callback)(int))")


def run(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("arguments", [["-m", "build"], ["build.py", "--wheel"]])
def test_being_taken_for_the_packaging_tool_is_refused_with_a_hint(root: Path, arguments: list[str]) -> None:
    result = run(root, *arguments)
    assert result.returncode == 1
    assert "build.py takes no arguments" in result.stderr
    assert "run it from another folder" in result.stderr


def test_a_missing_compiler_is_said_with_what_to_install(root: Path) -> None:
    result = run(root, "-W", "ignore", "build.py", CXX="/nowhere/c++ -m64")
    assert result.returncode == 1
    assert "no C++ compiler: CXX=/nowhere/c++ -m64 not found" in result.stderr
    assert "apt install g++" in result.stderr


def test_a_compiler_error_is_shown_with_its_command(build_module: ModuleType, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cpp"
    source.write_text("int main( {")
    command = [*build_module.compiler(), "-c", str(source), "-o", str(tmp_path / "wrong.o")]
    with pytest.raises(build_module.BuildError, match="error:") as caught:
        build_module.run_compiler(command)
    assert str(source) in str(caught.value)


def test_an_object_is_compiled_again_only_when_something_it_read_has_changed(
    build_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_module, "SIMULATOR", tmp_path)
    source, header = tmp_path / "one.cpp", tmp_path / "one.hpp"
    header.write_text("constexpr int kOne = 1;\n")
    source.write_text('#include "one.hpp"\nint one() { return kOne; }\n')
    objects = tmp_path / "objects"
    objects.mkdir()
    command = build_module.compiler()
    made = build_module.compile_source(command, source, objects)
    first = made.stat().st_mtime_ns
    build_module.compile_source(command, source, objects)
    assert made.stat().st_mtime_ns == first
    os.utime(header)
    build_module.compile_source(command, source, objects)
    assert made.stat().st_mtime_ns > first


def test_modules_that_an_earlier_build_left_behind_do_not_get_into_a_wheel(
    build_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, built = tmp_path / "tree", tmp_path / "built"
    for folder, names in ((tree, ["kept.py"]), (built, ["kept.py", "renamed.py", "_acl.so"])):
        (folder / "package").mkdir(parents=True)
        for name in names:
            (folder / "package" / name).touch()
    monkeypatch.setattr(build_module, "ROOT", tree)
    build_module.remove_stale(built)
    assert sorted(path.name for path in (built / "package").iterdir()) == ["_acl.so", "kept.py"]

"""Whether the kernels can run here, and what the child process is given. No PyPTO is needed."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pypto_impl import environment, toolchain
from pypto_impl.cache import cache_root, make_run_folder, publish
from pypto_impl.environment import availability, child_environment, device_reason, without_runtime
from pypto_impl.overlay import DAV_3510, make_overlay, rewrite_platform


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything seems to be installed, in the right version."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(metadata, "version", lambda name: "0.2.0")
    monkeypatch.setattr(environment, "missing_tools", list)


def test_without_pypto_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    reason = availability("ascend950")
    assert reason is not None
    assert reason.startswith(
        "pypto is not installed; install gmmfr with its pypto extra; the wheels are for CPython"
    )


def test_another_version_is_not_used(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "0.3.1")
    assert availability("atlas_a2") == "pypto 0.3.1 is installed; the backend is tied to pypto==0.2.0"


def test_without_torch_the_reason_names_it(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else object())
    assert availability("atlas_a2") == "pypto needs torch, not installed; install gmmfr with its pypto extra"


def test_without_a_compiler_the_reason_names_it(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "missing_tools", lambda: ["g++", "make"])
    assert availability("atlas_a2") == (
        "g++, make not found; PyPTO's interpreter is compiled once with g++, cmake, make"
    )


def test_a_cache_that_cannot_be_written_is_named(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GMMFR_CACHE", "/proc/nowhere")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert availability("atlas_a2") == "the cache folder /proc/nowhere cannot be written; set GMMFR_CACHE"


def test_everything_there_is_available(
    installed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GMMFR_CACHE", str(tmp_path / "not yet"))
    assert availability("atlas_350") is None


def test_an_unknown_platform_raises() -> None:
    with pytest.raises(ValueError, match="platform 'tpu' is unknown"):
        availability("tpu")


def test_a_cmake_that_is_a_script_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script, native = tmp_path / "a", tmp_path / "b"
    for folder, head in ((script, b"#!/usr/bin/env python3\n"), (native, b"\x7fELF")):
        folder.mkdir()
        (folder / "cmake").write_bytes(head)
        (folder / "cmake").chmod(0o755)
    monkeypatch.setenv("PATH", str(script))
    assert toolchain.find_tool("cmake") is None
    monkeypatch.setenv("PATH", f"{script}{os.pathsep}{native}")
    assert toolchain.find_tool("cmake") == str(native / "cmake")
    assert toolchain.missing_tools() == ["g++", "make"]


def test_importing_the_package_loads_neither_torch_nor_pypto() -> None:
    code = "import sys, pypto_impl; print({'torch', 'pypto', 'torch_npu'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_child_sees_nothing_of_cann(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime, plain = tmp_path / "runtime", tmp_path / "plain"
    for folder in (runtime, plain):
        folder.mkdir()
    (runtime / "libascendcl.so").touch()
    monkeypatch.setenv("ASCEND_HOME_PATH", "/usr/local/Ascend")
    monkeypatch.setenv("ASCEND_OPP_PATH", "/usr/local/Ascend/opp")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{runtime}{os.pathsep}{plain}")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")
    child = child_environment(tmp_path / "run", device=False)
    assert not [name for name in child if name.startswith("ASCEND_")]
    assert child["LD_LIBRARY_PATH"] == str(plain)
    assert child["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert child["HOME"] == str(tmp_path / "run")
    assert Path(child["TILE_FWK_OUTPUT_DIR"]).parent == tmp_path / "run"


def test_a_device_keeps_cann(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", "/usr/local/Ascend")
    assert child_environment(tmp_path, device=True)["ASCEND_HOME_PATH"] == "/usr/local/Ascend"


def test_an_empty_search_path_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty LD_LIBRARY_PATH would put the working directory on it."""
    (tmp_path / "libopapi.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert "LD_LIBRARY_PATH" not in child_environment(tmp_path, device=False)
    assert without_runtime("") == ""


def test_a_device_needs_the_toolkit_and_its_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    assert device_reason() == "ASCEND_HOME_PATH is not set: CANN's toolkit is not there"
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert device_reason() == f"{tmp_path} holds no bisheng compiler: CANN's toolkit is not there"
    (tmp_path / "compiler" / "bin").mkdir(parents=True)
    (tmp_path / "compiler" / "bin" / "bisheng").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert device_reason() == "torch_npu is not installed"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"GMMFR_CACHE": "/a/b", "XDG_CACHE_HOME": "/c"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/gmmfr"),
        ({"HOME": "/home/someone"}, "/home/someone/.cache/gmmfr"),
    ],
)
def test_where_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("GMMFR_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(cache_root()) == expected


def test_a_build_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "library.so"

    def fail(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("the compiler stopped")

    with pytest.raises(RuntimeError, match="the compiler stopped"):
        publish(target, fail)
    assert not target.exists()
    assert publish(target, lambda path: path.write_text("whole") and None) == target
    publish(target, fail)  # it is there: nothing is built
    assert target.read_text() == "whole"
    assert {entry.name for entry in tmp_path.iterdir()} == {".lock", "library.so"}


def test_run_folders_of_dead_processes_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GMMFR_CACHE", str(tmp_path))
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    runs = tmp_path / "runs"
    abandoned = runs / f"{platform.node()}-{int(dead.stdout)}-x"
    elsewhere = runs / f"another-machine-{int(dead.stdout)}-x"
    for folder in (abandoned, elsewhere):
        folder.mkdir(parents=True)
    first = make_run_folder()
    second = make_run_folder()
    assert not abandoned.exists()
    assert elsewhere.exists()
    assert first.is_dir()
    assert second.is_dir()
    assert first != second


def test_the_platform_file_is_rewritten_by_key() -> None:
    text = "[version]\nNpuArch=2201\nSoC_version=Ascend910B1\n[AICoreSpec]\nub_size=196608\nub_size=196608\n"
    changed = rewrite_platform(text, {"NpuArch": "3510", "ub_size": "253952"})
    assert (
        changed
        == "[version]\nNpuArch=3510\nSoC_version=Ascend910B1\n[AICoreSpec]\nub_size=253952\nub_size=253952\n"
    )
    with pytest.raises(RuntimeError, match=r"A2A3\.ini has no key l9_size"):
        rewrite_platform(text, {"l9_size": "1"})


def test_the_overlay_copies_one_file_and_links_the_rest(tmp_path: Path) -> None:
    package = tmp_path / "site" / "pypto"
    configs = package / "lib" / "configs"
    configs.mkdir(parents=True)
    (configs / "A2A3.ini").write_text("".join(f"{key}=old\n" for key in DAV_3510))
    for path in (package / "__init__.py", package / "lib" / "library.so", configs / "other.json"):
        path.touch()
    (package / "__pycache__").mkdir()
    make_overlay(package, tmp_path / "overlay")
    made = tmp_path / "overlay" / "pypto"
    links: list[Any] = [
        made / "__init__.py",
        made / "lib" / "library.so",
        made / "lib" / "configs" / "other.json",
    ]
    assert all(link.is_symlink() for link in links)
    assert not (made / "__pycache__").exists()
    platform = made / "lib" / "configs" / "A2A3.ini"
    assert not platform.is_symlink()
    assert "NpuArch=3510\n" in platform.read_text()
    assert (configs / "A2A3.ini").read_text().count("old") == len(DAV_3510)

"""An sdist and a wheel made from it, built once for all tests."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
_NOT_SOURCES = shutil.ignore_patterns(
    ".git",
    "build",
    "dist",
    "lib",
    "*.egg-info",
    "__pycache__",
    "*.so",
    "*.whl",
    ".*_cache",
    ".hypothesis",
    ".venv*",
)


@pytest.fixture(scope="session")
def root() -> Path:
    """The source tree."""
    return ROOT


@pytest.fixture(scope="session")
def build_module() -> ModuleType:
    """``build.py`` as a module."""
    spec = importlib.util.spec_from_file_location("gmmfr_build", ROOT / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gmmfr_build"] = module
    spec.loader.exec_module(module)
    return module


def call_backend(folder: Path, function: str, target: Path) -> Path:
    """Call the build backend in ``folder`` as a front end does; returns the file it made."""
    target.mkdir(parents=True, exist_ok=True)
    code = f"from setuptools import build_meta; print(build_meta.{function}({str(target)!r}))"
    # Unoptimised: these tests look at what is built, not at how fast it is.
    environment = {**os.environ, "CXXFLAGS": "-O0"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return target / result.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution of a clean copy of the tree."""
    copy = tmp_path_factory.mktemp("tree") / "gmmfr"
    shutil.copytree(ROOT, copy, ignore=_NOT_SOURCES)
    return call_backend(copy, "build_sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from nothing but the sdist."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)  # our own archive
    return call_backend(next(folder.iterdir()), "build_wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def run_installed(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code with the wheel's packages in front of everything else, far from the source tree."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)

    def run(code: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(site)}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, check=False)

    return run

"""What the sdist and the wheel hold, and that an installed wheel works far from the source tree."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

RunInstalled = Callable[..., "subprocess.CompletedProcess[str]"]
LIBRARIES = (
    "libgmmfr_simulator.so",
    "libascendcl.so",
    "libnnopbase.so",
    "libopapi.so",
    "libhccl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libacl_tdt_channel.so",
)


@pytest.fixture(scope="session")
def names(wheel: Path) -> list[str]:
    """Files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_sdist_holds_all_that_a_build_and_the_tests_need(sdist: Path, root: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    for folder, pattern in [
        ("include", "*.h"),
        ("aclnn_bindings/shim", "*.[ch]"),
        ("aclnn_bindings/simulator", "*.?pp"),
    ]:
        files = {str(path.relative_to(root)) for path in (root / folder).rglob(pattern)}
        assert files
        assert files <= held
    assert {
        "build.py",
        "pyproject.toml",
        "LICENSE",
        "tests/conftest.py",
        "tests/binding/fake_library.c",
    } <= held
    assert not [name for name in held if name.endswith((".so", ".pyc", ".o"))]


def test_the_wheel_holds_our_packages_and_nothing_else(names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"aclnn_bindings", "gmmfr", "pypto_impl", "reference"}
    for package in tops:
        assert f"{package}/py.typed" in names


def test_the_wheel_holds_no_simulator_or_shim_sources(names: list[str]) -> None:
    assert [name for name in names if "/shim/" in name or "/simulator/" in name] == []
    assert [
        name for name in names if name.startswith("aclnn_bindings/") and name.endswith((".c", ".cpp", ".hpp"))
    ] == []


def test_the_wheel_holds_the_headers_under_the_vendors_names(names: list[str], root: Path) -> None:
    headers = {f"aclnn_bindings/{path.relative_to(root)}" for path in (root / "include").rglob("*.h")}
    assert "aclnn_bindings/include/acl/acl.h" in headers
    assert "aclnn_bindings/include/aclnn/aclnn_base.h" in headers
    assert "aclnn_bindings/include/aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h" in headers
    assert headers == {name for name in names if name.endswith(".h")}


def test_the_wheel_holds_the_simulator_under_every_library_name(names: list[str]) -> None:
    assert {f"aclnn_bindings/lib/{name}" for name in LIBRARIES} == {
        n for n in names if n.startswith("aclnn_bindings/lib/")
    }


def test_the_metadata(wheel: Path, names: list[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        entries = archive.read(next(name for name in names if name.endswith("/entry_points.txt"))).decode()
    metadata = Parser().parsestr(text)
    assert (metadata["Name"], metadata["License-Expression"]) == ("gmmfr", "Apache-2.0")
    assert metadata["Requires-Python"] == ">=3.10"
    extras = {"torch", "pypto", "npu", "report", "test", "dev", "all"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    core = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {line.partition(">")[0] for line in core} == {
        "cffi",
        "click",
        "ml_dtypes",
        "numpy",
        "rich",
        "safetensors",
    }
    assert "gmmfr = gmmfr.cli:main" in entries
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_an_installed_wheel_computes(run_installed: RunInstalled) -> None:
    code = """
import numpy as np, aclnn_bindings, reference
from reference.cases import Case
operands = Case("small", "mxfp8", 8, 64, 32, 2, 4).make()
with aclnn_bindings.Plan(operands.problem, operands.arrays, library=aclnn_bindings.simulator()) as plan:
    out = plan.run()
np.testing.assert_allclose(out, reference.golden(operands).out, rtol=1e-4)
print(aclnn_bindings.__file__)
print(aclnn_bindings.include_directory())
"""
    result = run_installed(code)
    assert result.returncode == 0, result.stderr
    package, headers = map(Path, result.stdout.split())
    assert headers == package.parent / "include"
    assert (headers / "acl" / "acl.h").exists()


def test_an_alias_library_leads_to_the_simulator(run_installed: RunInstalled) -> None:
    code = """
import ctypes
from aclnn_bindings.headers import LIBRARY_DIRECTORY
for name in ("libnnopbase.so", "libopapi.so", "libacl_op_compiler.so"):
    library = ctypes.CDLL(str(LIBRARY_DIRECTORY / name))
    assert library.aclrtGetSysParamOpt and library.aclCreateTensor, name
print("found")
"""
    assert run_installed(code).stdout.strip() == "found"

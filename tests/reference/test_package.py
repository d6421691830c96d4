"""The package's public names are functions and classes, never the modules that hold them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import aclnn_bindings
import gmmfr
import reference


def test_no_public_name_is_hidden_by_a_module() -> None:
    for package in (reference, gmmfr, aclnn_bindings):
        for name in package.__all__:
            home = package._HOME.get(name)
            if home is not None:
                assert home != name, f"{package.__name__}.{name} would be the module once that is imported"
                assert not isinstance(getattr(package, name), ModuleType)


def test_all_names_are_listed() -> None:
    for package in (reference, gmmfr, aclnn_bindings):
        assert set(package._HOME) == set(package.__all__) - {"__version__"}, package.__name__


def loaded_by(program: str) -> set[str]:
    """The top-level modules that ``program`` loads."""
    report = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; {report}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_packages_loads_no_driver() -> None:
    loaded = loaded_by("import gmmfr, reference, aclnn_bindings, pypto_impl")
    assert not loaded & {"torch", "torch_npu", "pypto", "_cffi_backend", "click", "rich"}


def test_importing_the_reference_loads_no_numpy() -> None:
    assert not loaded_by("import gmmfr, reference, reference.validator") & {
        "numpy",
        "ml_dtypes",
        "safetensors",
    }


def test_imports_point_down_only() -> None:
    """gmmfr uses all, the binding and the kernels use the reference alone, the reference none of ours."""
    ours = {"gmmfr", "aclnn_bindings", "pypto_impl", "reference"}
    allowed = {
        "gmmfr": ours,
        "aclnn_bindings": {"reference"},
        "pypto_impl": {"reference"},
        "reference": set[str](),
    }
    root = Path(reference.__file__).parent.parent
    for package, below in allowed.items():
        for path in (root / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for name in imported(node):
                    top = name.partition(".")[0]
                    assert top not in ours or top in below | {package}, f"{path} imports {name}"


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []

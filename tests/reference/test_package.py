"""The package's public names are functions and classes, never the modules that hold them."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import gmmfr
import reference


def test_no_public_name_is_hidden_by_a_module() -> None:
    for package in (reference, gmmfr):
        for name in package.__all__:
            home = package._HOME.get(name)
            if home is not None:
                assert home != name, f"{package.__name__}.{name} would be the module once that is imported"
                assert not isinstance(getattr(package, name), ModuleType)


def test_importing_the_packages_loads_nothing_heavy() -> None:
    program = (
        "import sys, gmmfr, reference, aclnn_bindings, pypto_impl;"
        "heavy = {'numpy', 'torch', 'torch_npu', 'pypto', 'cffi', 'ml_dtypes', 'rich', 'click'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

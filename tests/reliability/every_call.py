"""One call of every kind and a failure of each: a program for leak checkers, which look when it has ended."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import aclnn_bindings
from aclnn_bindings.functions import INDEX


def load(name: str) -> Any:
    """A program beside this one."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Every kind of call on every subject of the soak, then each function failed at its first use."""
    soak = load("soak")
    subjects = [soak.Subject(case) for case in soak.CASES]
    for subject in subjects:
        for kind in ("function", "plan", "deterministic", "refused", "from_threads"):
            getattr(subject, kind)()
    library, failed = aclnn_bindings.simulator(), 0
    for function in (name for name in INDEX if name.startswith("acl")):
        for subject in subjects[:3]:
            library.functions.gmmfrSimSetFaults(f"{function}:1:507899".encode())
            try:
                subject.plan()
            except aclnn_bindings.AclError:
                failed += 1
            library.functions.gmmfrSimSetFaults(b"")
    assert failed > 20, failed
    print(f"calls of every kind ran, {failed} failed on order")


if __name__ == "__main__":
    main()

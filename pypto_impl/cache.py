"""The cache folder of the PyPTO backend, and how files get into it.

``$GMMFR_CACHE``, else ``$XDG_CACHE_HOME/gmmfr``, else ``~/.cache/gmmfr``. Below it one folder per installed
PyPTO holds what is built once (:mod:`pypto_impl.toolchain`), and one folder per running interpreter holds
what PyPTO writes; the latter is removed when the interpreter ends.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """The project's cache folder; it need not exist."""
    if override := os.environ.get("GMMFR_CACHE"):
        return Path(override).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "gmmfr"


def installation_folder(version: str, install: Path) -> Path:
    """The cache folder of one installed PyPTO, by its version and place."""
    return cache_root() / f"pypto-{version}-{digest(str(install))}"


def digest(text: str) -> str:
    """A short name for ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock file, so that two processes do not build the same thing."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def publish(target: Path, build: Callable[[Path], None]) -> Path:
    """``target``, made once: ``build`` fills a temporary path beside it, which is then renamed into place."""
    if target.exists():
        return target
    with locked(target.parent):
        if target.exists():
            return target
        scratch = Path(tempfile.mkdtemp(prefix=".build-", dir=target.parent))
        try:
            made = scratch / target.name
            build(made)
            os.replace(made, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target


def make_run_folder() -> Path:
    """A fresh folder for one interpreter process.

    Folders whose owner is gone are removed first, but not those of other machines that share the cache.
    """
    runs = cache_root() / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    prefix = f"{platform.node()}-"
    for old in runs.glob(f"{glob.escape(prefix)}*"):
        owner = old.name.removeprefix(prefix).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=runs))

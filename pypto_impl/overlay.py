"""A PyPTO that takes its CPU for an Ascend 950: links to the installed package with one file rewritten.

PyPTO finds the platform it simulates beside its platform library, in ``configs/A2A3.ini``, by the path
through which the library was loaded. So a folder of links, with its own copy of that file, is enough.
Nothing of PyPTO is copied but that one file, at run time, from the user's own installation.
"""

from __future__ import annotations

import re
from pathlib import Path

#: What differs on DAV_3510, by key of the platform file; sizes in bytes.
DAV_3510: dict[str, str] = {
    "SoC_version": "Ascend950PR_9579",
    "Short_SoC_version": "Ascend950",
    "AIC_version": "AIC-C-310",
    "CCEC_AIC_version": "dav-c310-cube",
    "CCEC_AIV_version": "dav-c310-vec",
    "CCEC_CUBE_version": "dav-c310-cube",
    "CCEC_VECTOR_version": "dav-c310-vec",
    "NpuArch": "3510",
    "ai_core_cnt": "28",
    "cube_core_cnt": "28",
    "vector_core_cnt": "56",
    "l0_c_size": "262144",
    "ub_size": "253952",
}
PLATFORM_FILE = "A2A3.ini"


def rewrite_platform(text: str, values: dict[str, str]) -> str:
    """The platform file with every key of ``values`` set; RuntimeError for a key it does not have."""
    for key, value in values.items():
        text, found = re.subn(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", text)
        if not found:
            raise RuntimeError(f"PyPTO's platform file {PLATFORM_FILE} has no key {key}")
    return text


def make_overlay(package: Path, target: Path) -> None:
    """Fill ``target`` with a ``pypto`` package that links to the installed ``package``."""
    folder = target / "pypto"
    configs = folder / "lib" / "configs"
    configs.mkdir(parents=True)
    link_entries(package, folder, skip={"lib", "__pycache__"})
    link_entries(package / "lib", folder / "lib", skip={"configs"})
    link_entries(package / "lib" / "configs", configs, skip={PLATFORM_FILE})
    platform = (package / "lib" / "configs" / PLATFORM_FILE).read_text(encoding="utf-8")
    (configs / PLATFORM_FILE).write_text(rewrite_platform(platform, DAV_3510), encoding="utf-8")


def link_entries(source: Path, target: Path, skip: set[str]) -> None:
    """Link everything in ``source`` but ``skip`` into the folder ``target``."""
    for entry in source.iterdir():
        if entry.name not in skip:
            (target / entry.name).symlink_to(entry)

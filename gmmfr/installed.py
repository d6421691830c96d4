"""Versions of the vendor's software on this machine, from the files that its installers write.

Sources: the installation guide's table of file paths (CANN 8.0.0, 8.5.0), and the page of
torch_npu.utils.get_cann_version for the driver's file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

#: In a container it is there only when it was mounted.
DRIVER_FILE = Path("/usr/local/Ascend/driver/version.info")


def cann_version(package: Literal["toolkit", "ops"] = "toolkit") -> str | None:
    """The version of a package of the CANN that ASCEND_HOME_PATH names; None where none says."""
    home = os.environ.get("ASCEND_HOME_PATH")
    return _first_version(sorted(Path(home).glob(f"*/ascend_{package}_install.info")) if home else [])


def driver_version() -> str | None:
    """The version of the NPU's driver; None where its file is absent."""
    return _first_version([DRIVER_FILE])


def _first_version(files: Iterable[Path]) -> str | None:
    for file in files:
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        found = re.search(r"^version=(\S+)", text, re.MULTILINE | re.IGNORECASE)
        if found:
            return found[1]
    return None

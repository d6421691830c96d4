"""Where the operator may be: the order in which torch_npu looks for its functions, each attempt recorded.

Source: op_plugin/utils/op_api_common (op-plugin).  First custom operator packages, then the toolkit's split
libraries, then ``libopapi.so``, then the older names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CUSTOM = "op_api/lib/libcust_opapi.so"
PLAIN_NAMES = (
    "libopapi.so",
    "libaclnn_ops_infer.so",
    "libaclnn_ops_train.so",
    "libaclnn_math.so",
    "libaclnn_sparse.so",
    "libaclnn_fft.so",
    "libaclnn_rand.so",
)
#: Base library and runtime, where the operator's own library does not bring them.
SUPPORT_NAMES = ("libnnopbase.so", "libascendcl.so")


@dataclass(frozen=True)
class Attempt:
    """One place that was tried: what asked for it, the path, and what was found there."""

    reason: str
    path: str
    outcome: str

    def __str__(self) -> str:
        return f"{self.path} ({self.reason}): {self.outcome}"


def candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(reason, path) of every place to look for the operator, in order."""
    for folder in filter(None, environment.get("ASCEND_CUSTOM_OPP_PATH", "").split(":")):
        yield "ASCEND_CUSTOM_OPP_PATH", f"{folder}/{CUSTOM}"
    opp = environment.get("ASCEND_OPP_PATH")
    if opp:
        for vendor in load_priority(Path(opp) / "vendors" / "config.ini"):
            yield "ASCEND_OPP_PATH vendors/config.ini", f"{opp}/vendors/{vendor}/{CUSTOM}"
    home = environment.get("ASCEND_HOME_PATH")
    if home:
        for path in sorted(Path(home, "lib64").glob("libopapi_*.so")):
            yield "ASCEND_HOME_PATH", str(path)
    for name in PLAIN_NAMES:
        yield "the loader's search path", name


def load_priority(config: Path) -> list[str]:
    """Vendor names of ``load_priority=a,b`` in a vendors/config.ini; none where the file cannot be read."""
    try:
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and key.strip() == "load_priority":
            return [vendor.strip() for vendor in value.split(",") if vendor.strip()]
    return []


def refuse_foreign_owner(path: str) -> str | None:
    """Why a custom operator library must not be loaded: it belongs to another user, who could run code
    here."""
    try:
        owner = os.stat(path).st_uid
    except OSError:
        return None  # the loader says it better
    if owner in (os.getuid(), 0):
        return None
    return f"skipped: its owner is user {owner}, not this process's user {os.getuid()} or root"


def explicit_candidates(path: str) -> list[tuple[str, str]]:
    """The library file, or the operator libraries in the folder, that a caller named."""
    if not os.path.isdir(path):
        return [("given", path)]
    split = sorted(str(file) for file in Path(path).glob("libopapi_*.so"))
    return [("given folder", file) for file in [*split, os.path.join(path, "libopapi.so")]]

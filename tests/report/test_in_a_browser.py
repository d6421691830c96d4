"""The report in headless Chromium: it opens, shows its drawings, and is the picture in the docs."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
).split()
#: A kernel that takes logit in token order.
KERNEL = """
import numpy as np
import reference

def token_order(call):
    order = np.argsort(call.row_index[: int(call.group_list.sum())], kind="stable")
    logit = np.concatenate([call.logit[order], call.logit[len(order):]])
    return reference.golden(type(call)(call.problem, {**call.arrays, "logit": logit}), "float32").out
"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


def browse(folder: Path, page: Path, *options: str) -> str:
    """Open a page; standard output."""
    command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, f"file://{page}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gmmfr: Callable[..., Any]) -> Path:
    """The report of a wrong kernel on c7."""
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text(KERNEL)
    done = gmmfr("ab", "c7", "-a", "kernel.py:token_order", "--report", "report.html")
    assert done.code == 1
    return tmp_path / "report.html"


def read_png(path: Path) -> tuple[np.ndarray[Any, Any], int]:
    """Raw filtered rows and width of a PNG: enough to tell a page from an empty one."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    position, packed = 8, b""
    while position < len(data):
        length, kind = struct.unpack(">I4s", data[position : position + 8])
        packed += data[position + 8 : position + 8 + length] if kind == b"IDAT" else b""
        position += 12 + length
    return np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, -1), width


def test_page_in_the_browser(tmp_path: Path, page: Path) -> None:
    dom = browse(tmp_path, page, "--dump-dom")
    for part in (
        "A/B check of c7",
        "logit in another order than the rows",
        "Error by row and column",
        "</svg>",
    ):
        assert part in dom


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_picture(tmp_path: Path, page: Path, scheme: str) -> None:
    """With GMMFR_SCREENSHOT the light picture is written there: docs/report.png."""
    picture = tmp_path / f"{scheme}.png"
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    browse(tmp_path, page, *dark, "--window-size=1100,1560", f"--screenshot={picture}")
    rows, width = read_png(picture)
    assert (rows.shape[0], width) == (1560, 1100)
    drawn = np.count_nonzero(rows.any(axis=1))
    assert (
        drawn > 300
    )  # a filtered PNG row of one colour is zero behind its first pixel, or a copy of the last
    assert np.unique(rows).size > 50
    if scheme == "light" and os.environ.get("GMMFR_SCREENSHOT"):
        Path(os.environ["GMMFR_SCREENSHOT"]).write_bytes(picture.read_bytes())
    if scheme == "dark" and os.environ.get("GMMFR_SCREENSHOT_DARK"):
        Path(os.environ["GMMFR_SCREENSHOT_DARK"]).write_bytes(picture.read_bytes())

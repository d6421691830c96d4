"""What can go wrong in the child process, and where PyPTO says why."""

from __future__ import annotations

import re
from pathlib import Path

LINES = 12


class KernelError(RuntimeError):
    """PyPTO could not compute a call: refused, failed, crashed or took too long. ``stage`` says where."""

    def __init__(self, message: str, stage: str) -> None:
        super().__init__(message)
        self.stage = stage


class KernelTimeoutError(KernelError):
    """A call took longer than its timeout; its process was killed."""


class KernelCrashError(KernelError):
    """The child process died."""


def logged_errors(folder: Path) -> str:
    """The last ERROR lines of the log that PyPTO writes below its home: the cause of a failed pass is only
    there.
    """
    lines: list[str] = []
    for path in sorted(folder.glob("ascend/log/debug/plog/*.log")):
        text = path.read_text(encoding="utf-8", errors="replace")
        lines += [shorten(line) for line in text.splitlines() if "[ERROR]" in line]
    return "\n".join([line for line in lines if line][-LINES:])


def last_lines(path: Path) -> str:
    """The end of a text file."""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:])


def shorten(text: str) -> str:
    """``text`` without the frames of a native backtrace, on which PyPTO spends most of its messages."""
    kept = [line for line in text.splitlines() if not re.search(r"\.so[.0-9]*\(|\[0x[0-9a-f]+\]$", line)]
    return "\n".join(kept).strip()[:4000]

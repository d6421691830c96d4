"""The guide to preparing operands: its code runs from top to bottom and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[2] / "docs" / "preparing.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks() -> list[tuple[str, str]]:
    return _BLOCK.findall(GUIDE.read_text(encoding="utf-8"))


def test_code_of_the_guide_prints_what_the_guide_shows() -> None:
    namespace: dict[str, Any] = {}
    printed, shown = [], []
    for language, text in _blocks():
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, str(GUIDE), "exec"), namespace)
            if output.getvalue():
                printed.append(output.getvalue())
        else:
            shown.append(text)
    assert printed == shown


def test_every_number_in_the_tables_of_the_guide_holds() -> None:
    from reference import pack_int4, to_count, to_cumsum

    text = GUIDE.read_text(encoding="utf-8")
    assert "`to_count([10, 25, 30])` is `[10, 15, 5]`" in text
    assert to_count([10, 25, 30]).tolist() == [10, 15, 5]
    assert to_cumsum([10, 15, 5]).tolist() == [10, 25, 30]
    assert "`pack_int4([1, -2])` is `0xe1`" in text
    assert pack_int4([1, -2]).tolist() == [0xE1]

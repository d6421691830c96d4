"""The report's drawings: error map, histogram, bars. Inline SVG, coloured by the page's style."""

from __future__ import annotations

import math
from typing import Any

from gmmfr.report.markup import Markup, number, tag

#: Upper limits of the colours, in units of the allowed difference; the last colour has none.
LEVELS = (0.0, 0.1, 0.5, 1.0, 2.0, 10.0, 1000.0)
LEVEL_NAMES = ("equal", "≤ 0.1", "≤ 0.5", "≤ 1", "≤ 2", "≤ 10", "≤ 1000", "more")
_WIDTH = 760


def as_float(value: Any) -> float:
    """A number of the JSON, where NaN and infinity are strings."""
    return float(value)


def level(ratio: float) -> int:
    """The colour of a ratio."""
    return next((i for i, limit in enumerate(LEVELS) if ratio <= limit), len(LEVELS))


def legend() -> Markup:
    """The colours of the error map."""
    items = [
        tag("span", tag("i", class_=f"swatch l{i}"), name, class_="key") for i, name in enumerate(LEVEL_NAMES)
    ]
    return tag("p", items, class_="legend")


def error_map(data: dict[str, Any]) -> Markup:
    """Worst error of each block of rows × columns."""
    cells = data["worst"]
    if not cells or not cells[0]:
        return tag("p", "The output is empty.", class_="quiet")
    left, top = 46, 22
    width = (_WIDTH - left) / len(cells[0])
    height = min(26.0, max(7.0, 300 / len(cells)))
    drawn = []
    for i, line in enumerate(cells):
        for j, value in enumerate(line):
            drawn.append(
                _cell(data, i, j, as_float(value), left + j * width, top + i * height, width, height)
            )
    bottom = top + len(cells) * height
    labels = [
        tag("text", "column 0", x=left, y=top - 8),
        tag("text", str(data["n"] - 1), x=_WIDTH, y=top - 8, text_anchor="end"),
        tag("text", "row 0", x=left - 6, y=top + 10, text_anchor="end"),
    ]
    if len(cells) > 1:
        labels.append(tag("text", str(data["batch"] - 1), x=left - 6, y=bottom - 2, text_anchor="end"))
    return _svg(bottom + 4, "error by rows and columns of out", drawn, labels)


def _cell(
    data: dict[str, Any], i: int, j: int, value: float, x: float, y: float, width: float, height: float
) -> Markup:
    rows, columns = data["rows_per_cell"], data["columns_per_cell"]
    last_row = min(data["batch"], (i + 1) * rows) - 1
    last_column = min(data["n"], (j + 1) * columns) - 1
    title = (
        f"rows {i * rows} to {last_row}, columns {j * columns} to {last_column}: "
        f"worst {number(value)} × the allowed difference"
    )
    gap = 1.0 if min(width, height) > 5 else 0.3
    return tag(
        "rect",
        tag("title", title),
        class_=f"l{level(value)}",
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        width=f"{width - gap:.1f}",
        height=f"{height - gap:.1f}",
    )


def histogram(bins: list[dict[str, Any]]) -> Markup:
    """How many elements have which error, on a logarithmic scale."""
    step, top, tall = _WIDTH / len(bins), 20, 120
    most = math.log10(1 + max((entry["count"] for entry in bins), default=1)) or 1.0
    drawn = []
    for i, entry in enumerate(bins):
        limit = as_float(entry["up_to"])
        size = math.log10(1 + entry["count"]) / most * tall
        kind = "l7" if limit > 1 else "l1"
        name = "0" if limit == 0 else "more" if limit == math.inf else f"≤ {limit:g}"
        middle = f"{(i + 0.5) * step:.1f}"
        drawn += [
            tag(
                "rect",
                tag("title", f"{entry['count']} elements, {name}"),
                class_=kind,
                x=f"{i * step + 4:.1f}",
                y=f"{top + tall - size:.1f}",
                width=f"{step - 8:.1f}",
                height=f"{max(size, 0.5):.1f}",
            ),
            tag(
                "text",
                number(entry["count"]),
                x=middle,
                y=f"{top + tall - size - 5:.1f}",
                text_anchor="middle",
            ),
            tag("text", name, x=middle, y=top + tall + 16, text_anchor="middle"),
        ]
    line = tag("line", x1=0, x2=_WIDTH, y1=top + tall, y2=top + tall, class_="axis")
    return _svg(top + tall + 24, "elements by error", drawn, [line])


def bar(ratio: float) -> Markup:
    """A small bar for a ratio, logarithmic from 0.001 to 1000 times the allowed difference."""
    share = 1.0 if ratio == math.inf else 0.0 if ratio <= 0 else (math.log10(ratio) + 3) / 6
    size = round(100 * min(1.0, max(0.0, share)))
    return tag("span", tag("span", class_=f"fill l{level(ratio)}", style=f"width:{size}%"), class_="bar")


def _svg(height: float, name: str, *parts: list[Markup]) -> Markup:
    return tag(
        "svg",
        tag("title", name),
        *[child for part in parts for child in part],
        viewBox=f"0 0 {_WIDTH} {height:.0f}",
        role="img",
        aria_label=name,
    )

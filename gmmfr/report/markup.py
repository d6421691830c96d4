"""HTML and SVG elements as text in which everything that is data is escaped."""

from __future__ import annotations

from html import escape

#: Elements without content.
_VOID = frozenset({"meta", "br", "rect", "line", "path"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; children that are no :class:`Markup` are escaped, and so are attribute values.

    ``class_`` is the attribute class, other underscores become hyphens; a None attribute is left out.
    """
    given = "".join(
        f' {_attribute(key)}="{escape(str(value))}"' for key, value in attributes.items() if value is not None
    )
    if name in _VOID and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(children: object) -> Markup:
    """Several children, one after the other."""
    items = children if isinstance(children, (list, tuple)) else (children,)
    return Markup(
        "".join(
            child
            if isinstance(child, Markup)
            else join(child)
            if isinstance(child, (list, tuple))
            else escape(str(child))
            for child in items
            if child is not None
        )
    )


def _attribute(key: str) -> str:
    return "class" if key == "class_" else key.replace("_", "-") if key != "viewBox" else key


def table(headers: list[str], rows: list[list[object]], *, numeric: set[int] = frozenset()) -> Markup:  # type: ignore[assignment]
    """A table that scrolls in itself where it is too wide; ``numeric`` columns are set to the right."""
    head = [tag("th", title, class_="num" if i in numeric else None) for i, title in enumerate(headers)]
    body = [
        tag("tr", [tag("td", cell, class_="num" if i in numeric else None) for i, cell in enumerate(row)])
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", tag("tr", head)), tag("tbody", body)), class_="scroll")


def number(value: object, digits: int = 4) -> str:
    """A number for people; ``inf`` and ``nan`` come as strings from JSON."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return {"inf": "∞", "-inf": "−∞", "nan": "NaN"}.get(str(value), str(value))
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    return f"{value:.{digits}g}"

"""The report's page, from the data of :mod:`gmmfr.report.content`."""

from __future__ import annotations

from typing import Any

from gmmfr.report.charts import as_float, bar, error_map, histogram, legend
from gmmfr.report.markup import Markup, join, number, table, tag
from gmmfr.report.style import STYLE

#: No script, no network: the page holds everything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_EXPERTS = 32


def render(content: dict[str, Any]) -> str:
    """One self-contained HTML page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", f"{content['verdict']}: {content['case']}"),
        tag("style", Markup(STYLE)),
    )
    cards = [
        _header(content),
        _violations(content["violations"]),
        _backends(content["backends"]),
        *[_comparison(entry) for entry in content["comparisons"]],
        _call(content),
        _repeat(content),
    ]
    body = tag("body", tag("main", *cards))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _badge(verdict: str, *, big: bool = False) -> Markup:
    return tag("span", verdict, class_=f"badge {verdict.replace(' ', '')}{' big' if big else ''}")


def _header(content: dict[str, Any]) -> Markup:
    text = tag(
        "div", tag("h1", f"A/B check of {content['case']}"), tag("p", content["title"], class_="quiet")
    )
    lines = [tag("p", sentence) for sentence in _sentences(content)]
    return join([tag("header", text, _badge(content["verdict"], big=True)), lines])


def _sentences(content: dict[str, Any]) -> list[str]:
    """The outcome in words."""
    if content["verdict"] == "INVALID":
        return ["The validator refuses this call, so nothing ran."]
    missing = [
        f"{name} did not run: {b['reason']}" for name, b in content["backends"].items() if not b["ran"]
    ]
    return [*(_sentence(entry) for entry in content["comparisons"]), *missing]


def _sentence(entry: dict[str, Any]) -> str:
    pair = f"{entry['a']} and {entry['b']}"
    if entry["verdict"] == "FAIL":
        return f"{pair} differ: {entry['reason']}."
    count, worst = number(entry["count"]), number(entry["max_ratio"], 3)
    return f"{pair} agree in all {count} elements; the worst uses {worst} of the allowed difference."


def _violations(violations: list[dict[str, Any]]) -> Markup | None:
    if not violations:
        return None
    rows: list[list[object]] = [
        [v["level"], v["argument"], v["expected"], v["got"], v["hint"] or "", tag("code", v["rule"])]
        for v in violations
    ]
    return _card("Remarks on the call", table(["level", "argument", "expected", "got", "hint", "rule"], rows))


def _backends(backends: dict[str, Any]) -> Markup | None:
    if not backends:
        return None
    rows: list[list[object]] = []
    for name, entry in backends.items():
        where = entry["device"] if entry["ran"] else join([_badge("NOT RUN"), " ", entry["reason"]])
        notes = [tag("div", note, class_="quiet") for note in entry.get("notes", [])]
        seconds = "" if entry["seconds"] is None else f"{entry['seconds']:.4g}"
        rows.append([tag("b", name), join([where, notes]), seconds])
    return _card("Where each side ran", table(["backend", "device", "seconds"], rows, numeric={2}))


def _comparison(entry: dict[str, Any]) -> Markup:
    title = [f"{entry['a']} – {entry['b']} ", _badge(entry["verdict"])]
    parts: list[object] = [
        tag("p", "Criterion: ", tag("code", entry["criterion"]), class_="quiet"),
        _facts(entry),
        _errors(entry),
    ]
    if entry["reason"] and not entry["mismatches"]:
        parts.append(tag("p", entry["reason"]))
    if entry["verdict"] == "FAIL" and entry["b"] == "golden" and entry["where"] is not None:
        parts.append(_explanations(entry))
    if entry["where"] is not None:
        parts += _places(entry)
    return _card(title, *parts)


def _facts(entry: dict[str, Any]) -> Markup:
    facts = {
        "mismatches": f"{number(entry['mismatches'])} of {number(entry['count'])}",
        "matching": f"{100 * entry['match_ratio']:.4g} %",
        "worst / allowed": number(entry["max_ratio"], 3),
        "largest |a − b|": number(entry["max_abs"], 3),
        "outside 1e-3": number(entry["outside_1e_3"]),
        "NaN or infinite": number(entry["nonfinite"]),
        "never written": number(entry["unwritten"]),
    }
    shown = [tag("div", tag("b", value), tag("span", name)) for name, value in facts.items()]
    return tag("div", *shown, class_="facts")


def _errors(entry: dict[str, Any]) -> Markup | None:
    """Errors of both sides against the golden, and their ratio."""
    errors = {name: values for name, values in entry["errors"].items() if values is not None}
    if not errors:
        return None
    names = {"a": entry["a"], "b": entry["b"], "ratio": f"{entry['a']} ÷ {entry['b']}"}
    keys = ("max_relative", "mean_relative", "rms")
    rows: list[list[object]] = [
        [names[name], *(number(values[key], 3) for key in keys)] for name, values in errors.items()
    ]
    heads = ["error against the golden", "largest relative", "mean relative", "rms / rms of golden"]
    return table(heads, rows, numeric={1, 2, 3})


def _explanations(entry: dict[str, Any]) -> Markup:
    head = tag("h3", "Why")
    if not entry["explanations"]:
        text = f"None of {entry['tried']} variants of classic mistakes gives this result on this data."
        return join([head, tag("p", text)])
    shown = []
    for found in entry["explanations"]:
        share = "every element" if found["share"] == 1.0 else f"{100 * found['share']:.4g} % of the elements"
        if not found["everywhere"]:
            share = "the elements that differ, and only these: made in a part of the output"
        detail = f" ({found['detail']})" if found["detail"] else ""
        shown.append(
            tag(
                "div",
                tag("b", f"{found['title']}{detail}"),
                tag("span", f"Explains {share}. {found['advice']} "),
                tag("code", found["name"]),
                class_="why",
            )
        )
    if len(shown) > 1:
        shown.append(tag("p", "These give the same result on this data.", class_="quiet"))
    return join([head, *shown])


def _places(entry: dict[str, Any]) -> list[object]:
    where = entry["where"]
    parts: list[object] = []
    if entry["mismatches"]:
        parts += [tag("h3", "Where"), tag("ul", *[tag("li", line) for line in entry["summary"]])]
    parts += [
        tag("h3", "Error by row and column, in units of the allowed difference"),
        legend(),
        error_map(entry["map"]),
        tag("h3", "Elements by error, in units of the allowed difference"),
        histogram(where["histogram"]),
        tag("h3", "Error by expert"),
        _experts(where["experts"]),
        tag("h3", "Worst elements"),
        _worst(entry),
    ]
    return parts


def _experts(shares: list[dict[str, Any]]) -> Markup:
    busy = [share for share in shares if share["tokens"]]
    if not busy:
        return tag("p", "No expert has rows.", class_="quiet")
    order = sorted(busy, key=lambda share: (-as_float(share["max_ratio"]), share["expert"]))
    heads = ["expert", "rows", "tokens", "tokens that differ", "mismatches", "worst", ""]
    rows: list[list[object]] = [
        [
            share["expert"],
            number(share["rows"]),
            number(share["tokens"]),
            number(share["tokens_differ"]),
            number(share["mismatches"]),
            number(share["max_ratio"], 3),
            bar(as_float(share["max_ratio"])),
        ]
        for share in sorted(order[:_EXPERTS], key=lambda share: share["expert"])
    ]
    shown = table(heads, rows, numeric={0, 1, 2, 3, 4, 5})
    if len(busy) > _EXPERTS:
        note = f"The {_EXPERTS} experts with the largest errors, of {len(busy)} that have rows."
        return join([tag("p", note, class_="quiet"), shown])
    return shown


def _worst(entry: dict[str, Any]) -> Markup:
    if not entry["worst"]:
        return tag("p", "All elements are equal.", class_="quiet")
    rows: list[list[object]] = []
    for w in entry["worst"]:
        values = [
            join([number(w[s], 9), " ", tag("code", w[f"{s}_bits"], class_="quiet")]) for s in ("a", "b")
        ]
        sources = ", ".join(map(str, w["rows"])) or "none"
        experts = ", ".join(map(str, w["experts"])) or "none"
        ratio, bound = number(w["ratio"], 3), number(w["bound"], 3)
        rows.append([w["row"], w["column"], *values, bound, ratio, experts, sources])
    heads = ["row", "column", entry["a"], entry["b"], "allowed", "× allowed", "experts", "rows of x1"]
    return table(heads, rows, numeric={0, 1, 2, 3, 4, 5})


def _call(content: dict[str, Any]) -> Markup:
    call = content["call"]
    rows: list[list[object]] = [
        [
            tag("b", name),
            spec["dtype"],
            str(spec["shape"]),
            spec.get("format", "ND"),
            str(spec.get("strides", "")),
        ]
        for name, spec in call["arguments"].items()
    ]
    settings = ", ".join(f"{key} {value}" for key, value in call["attributes"].items() if value is not None)
    groups = call["group_list"]
    return _card(
        "The call",
        tag("p", f"{content['platform']}. {settings}."),
        None if groups is None else tag("p", "group_list: ", tag("code", str(groups))),
        table(["argument", "dtype", "shape", "format", "strides"], rows),
    )


def _repeat(content: dict[str, Any]) -> Markup:
    versions = ", ".join(f"{name} {value}" for name, value in content["versions"].items())
    return join(
        [
            _card("Repeat it", tag("pre", tag("code", content["command"]))),
            tag("footer", f"Made by gmmfr. {versions}."),
        ]
    )


def _card(title: object, *parts: object) -> Markup:
    return tag("section", tag("h2", title), *parts, class_="card")

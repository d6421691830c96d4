"""The HTML report and its JSON twin: complete, self-contained, and safe against what data say."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmmfr.ab_check import compare_saved
from gmmfr.cli_support import UsageFailure
from gmmfr.report import write_report
from gmmfr.report.markup import Markup, tag
from gmmfr.report.page import render
from reference import golden, make_case

Gmmfr = Callable[..., Any]
#: Elements that need no end tag.
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Elements and text of a page; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def of(self, name: str) -> list[dict[str, str | None]]:
        """Attributes of every element called ``name``."""
        return [attributes for element, attributes in self.elements if element == name]


def written(tmp_path: Path, name: str, saved: dict[str, Any], case: str = "") -> tuple[Page, Any]:
    """Page and JSON of saved results of a case."""
    call = make_case(name)
    report = compare_saved(call, saved, case=case or name)
    path = tmp_path / "report.html"
    write_report(str(path), report, call, f"gmmfr compare {name} out.safetensors")
    return Page(path.read_text()), json.loads((tmp_path / "report.json").read_text())


@pytest.fixture
def without_logit(tmp_path: Path) -> tuple[Page, Any]:
    call = make_case("c18_w4a8")
    ones = type(call)(call.problem, {**call.arrays, "logit": np.ones_like(call.arrays["logit"])})
    return written(tmp_path, "c18_w4a8", {"mine": golden(ones, "float32").out})


def test_page_says_what_where_and_why(without_logit: tuple[Page, Any]) -> None:
    page, _ = without_logit
    for part in (
        "A/B check of c18_w4a8",
        "FAIL",
        "numpy float64",
        "saved result",
        "Criterion: |a-b| ≤ 4·√terms",
        "logit not applied, or twice (not applied)",
        "Error by row and column",
        "Elements by error",
        "Error by expert",
        "Worst elements",
        "gmmfr compare c18_w4a8 out.safetensors",
    ):
        assert part in page.text, part


def test_page_needs_no_network_and_runs_no_script(without_logit: tuple[Page, Any]) -> None:
    page, _ = without_logit
    names = {name for name, _ in page.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base"}
    attributes = {key for _, given in page.elements for key in given}
    assert not {key for key in attributes if key.startswith("on") or key in ("src", "href")}
    policies = [m["content"] for m in page.of("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_map_has_a_cell_for_every_block(without_logit: tuple[Page, Any]) -> None:
    page, content = without_logit
    cells = content["comparisons"][0]["map"]["worst"]
    titles = page.text.count("columns ")
    assert titles >= len(cells) * len(cells[0])
    assert len(page.of("rect")) == len(cells) * len(cells[0]) + 12


def test_twin_holds_what_the_page_shows(without_logit: tuple[Page, Any]) -> None:
    _, content = without_logit
    assert content["verdict"] == "FAIL"
    assert content["command"] == "gmmfr compare c18_w4a8 out.safetensors"
    (entry,) = content["comparisons"]
    assert entry["explanations"][0]["name"] == "logit-left-out"
    assert sum(entry["where"]["histogram"][i]["count"] for i in range(12)) == entry["count"]
    assert content["call"]["arguments"]["x1"]["dtype"] == "int8"


def test_names_from_outside_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    out = golden(make_case("w1"), "float32").out
    page, content = written(tmp_path, "w1", {evil: out}, case=evil)
    assert content["verdict"] == "PASS"
    assert "script" not in {name for name, _ in page.elements}
    assert f"A/B check of {evil}" in page.text


def test_special_values_and_unwritten_elements(tmp_path: Path) -> None:
    from reference import fill_with_sentinel

    out = golden(make_case("c10"), "float32").out
    fill_with_sentinel(out[2:3])
    out[0, 0] = np.inf
    page, content = written(tmp_path, "c10", {"mine": out})
    entry = content["comparisons"][0]
    assert (entry["unwritten"], entry["nonfinite"], entry["max_ratio"]) == (72, 73, "inf")
    assert "72 were never written" in page.text


@pytest.mark.parametrize("name", ["c17", "m0", "c9", "c16"])
def test_other_paths_and_edges(tmp_path: Path, name: str) -> None:
    """No rows, one row, NaN in padding, columns that are no multiple of 8."""
    page, content = written(tmp_path, name, {"mine": golden(make_case(name), "float32").out})
    assert content["verdict"] == "PASS"
    assert "agree in all" in page.text


def test_wrong_shape_is_said_without_a_map(tmp_path: Path) -> None:
    page, content = written(tmp_path, "w0", {"mine": np.zeros((3, 128), np.float32)})
    assert content["comparisons"][0]["where"] is None
    assert "mine shape: expected (2, 128), got (3, 128)" in page.text


def test_ab_writes_both_files(gmmfr: Gmmfr, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import reference\ndef run(o):\n    return reference.golden(o, 'float32').out\n")
    path = tmp_path / "r.html"
    done = gmmfr("ab", "c8", "-a", f"{kernel}:run", "--report", path, "--criterion", "rtol", "--json")
    assert done.code == 0
    twin = json.loads((tmp_path / "r.json").read_text())
    assert twin["comparisons"][0]["criterion"] == done.json["comparisons"][0]["criterion"]
    assert twin["comparisons"][0]["criterion"] == "|a-b| ≤ 0.001 + 0.001·|b|"
    assert twin["command"] == f"gmmfr ab c8 -a {kernel}:run --criterion rtol"
    assert "PASS" in Page(path.read_text()).text


def test_refused_call_gives_a_report_of_violations(gmmfr: Gmmfr, tmp_path: Path) -> None:
    from reference import write_bundle

    call = make_case("w0")
    arrays = {**call.arrays, "row_index": np.array([0, 5, 1, 0])}
    write_bundle(tmp_path / "bad.safetensors", type(call)(call.problem, arrays))
    path = tmp_path / "r.html"
    done = gmmfr("ab", tmp_path / "bad.safetensors", "--report", path)
    assert done.code == 1
    assert "The validator refuses this call" in Page(path.read_text()).text


@pytest.mark.parametrize(
    ("name", "message"),
    [("report.htm", "expected a name that ends in .html"), ("none/r.html", "directory none does not exist")],
)
def test_wrong_file_names_are_refused_first(gmmfr: Gmmfr, name: str, message: str) -> None:
    done = gmmfr("ab", "c8", "--report", name)
    assert done.code == 2
    assert message in done.err


def test_unwritable_file_is_a_usage_failure(tmp_path: Path) -> None:
    call = make_case("w1")
    report = compare_saved(call, {"mine": golden(call, "float32").out}, case="w1")
    (tmp_path / "taken.html").mkdir()
    with pytest.raises(UsageFailure, match=r"taken\.html: Is a directory"):
        write_report(str(tmp_path / "taken.html"), report, call, "gmmfr")


def test_markup_escapes_children_and_attributes() -> None:
    assert tag("p", "<&>", class_='a"b') == '<p class="a&quot;b">&lt;&amp;&gt;</p>'
    assert tag("p", Markup("<b>x</b>"), ["1", ["<"]], None) == "<p><b>x</b>1&lt;</p>"
    assert tag("rect", x=1, aria_label="n") == '<rect x="1" aria-label="n"/>'


def test_render_is_pure(without_logit: tuple[Page, Any]) -> None:
    """The twin alone gives the page again."""
    _, content = without_logit
    assert Page(render(content)).text == without_logit[0].text

"""All benchmarks in one run: Markdown for people, JSON for programs.

    python benchmarks/run.py [--write]

``--write`` puts the figures into docs/performance.md, between its marks, and benchmarks/results.json.  Unset
every OPENBLAS_* variable first: some of them pin NumPy to a slower kernel.  torch is needed for the baselines
of ``golden.py`` and ``simulator.py``, torch_npu for ``torch_npu_calls.py``; what cannot run says NOT RUN.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import describe

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
#: Title, file, and the package that it needs beside the project.
BENCHMARKS = (
    ("The machine's limits", "machine.py", None),
    ("Golden", "golden.py", "torch"),
    ("Simulator", "simulator.py", "torch"),
    ("Comparator", "comparison.py", None),
    ("Validator", "validator.py", None),
    ("Binding", "binding.py", None),
    ("torch_npu, plan and one-shot on the same simulator, µs", "torch_npu_calls.py", "torch_npu"),
)


def run(file: str, needs: str | None) -> Any:
    """The figures of one benchmark, or the reason why it did not run."""
    if needs is not None and importlib.util.find_spec(needs) is None:
        return f"NOT RUN: {needs} is not installed"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    command = [sys.executable, str(HERE / file), "--json"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else f"NOT RUN: it failed with {done.returncode}"


def markdown(title: str, figures: Any) -> str:
    """One benchmark as a section: a list of figures, or a table where each figure has several."""
    if isinstance(figures, str):
        return f"### {title}\n\n{figures}\n"
    if all(isinstance(figure, dict) for figure in figures.values()):
        columns = list(next(iter(figures.values())))
        rows = [[name, *(_number(row[column]) for column in columns)] for name, row in figures.items()]
        return f"### {title}\n\n" + _table(["", *columns], rows)
    return f"### {title}\n\n" + _table(
        ["figure", "value"], [[name, _number(v)] for name, v in figures.items()]
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def main() -> None:
    """Run all, print, and write where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="into docs/performance.md and results.json")
    write = parser.parse_args().write
    results: dict[str, Any] = {}
    for title, file, needs in BENCHMARKS:
        print(f"{file} …", file=sys.stderr, flush=True)
        results[title] = run(file, needs)
    today = datetime.date.today().isoformat()
    versions = f"CPython {sys.version.split()[0]}"
    text = f"Measured on {today}: {describe()}, {versions}.\n\n"
    text += "\n".join(markdown(title, figures) for title, figures in results.items())
    print(text)
    if write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(head + BEGIN + "\n" + text + "\n" + END + rest.partition(END)[2], encoding="utf-8")
        document = {"date": today, "machine": describe(), "python": versions, "results": results}
        (HERE / "results.json").write_text(
            json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()

"""The short Python script that goes with a shrunk bundle."""

from __future__ import annotations

from pathlib import Path

from gmmfr.shrinking.search import Shrunk
from gmmfr.tables import describe_call

_TEMPLATE = '''"""{title}

{call}
{failure}

Needs gmmfr and {file} beside this file.  Another backend may be named: python {script} simulator
"""

import sys
from pathlib import Path

import gmmfr

backend = sys.argv[1] if len(sys.argv) > 1 else {backend!r}
report = gmmfr.ab(Path(__file__).with_name({bundle!r}), a=backend)
for name, result in report.backends.items():
    print(name, result.device if result.ran else result.reason)
for comparison in report.comparisons:
    print(*filter(None, (comparison.verdict, comparison.reason)))
    for worst in comparison.worst[:3]:
        print(f"  row {{worst.row}}, column {{worst.column}}: got {{worst.a:g}}, expected {{worst.b:g}}")
sys.exit({{"PASS": 0, "NOT RUN": 3}}.get(report.verdict, 1))
'''


def write_script(path: Path, bundle: str, backend: str, shrunk: Shrunk) -> None:
    """Write a script to ``path`` that runs ``bundle``, which lies beside it, on ``backend``."""
    text = _TEMPLATE.format(
        title=_quoted(f"A call that fails on {backend}."),
        call=_quoted(describe_call(bundle, shrunk.operands.problem)),
        failure=_quoted(str(shrunk.failure)),
        file=_quoted(bundle),
        script=_quoted(path.name),
        bundle=bundle,
        backend=backend,
    )
    path.write_text(text, encoding="utf-8")


def _quoted(text: str) -> str:
    """Text as a docstring may hold it: it cannot end the docstring, whatever a file is called."""
    return text.replace("\\", "\\\\").replace('"""', "'''")

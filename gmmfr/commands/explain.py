"""``gmmfr explain``: what a status code means and what usually causes it."""

from __future__ import annotations

import click

from gmmfr.cli_support import UsageFailure, console, print_json


@click.command("explain")
@click.argument("code", metavar="CODE")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(code: str, as_json: bool) -> None:
    """Explain CODE: a number (161002, 507035, ...) or an enumerator (ACLNN_ERR_PARAM_INVALID)."""
    from reference.rules import RULES
    from reference.status import STATUSES

    named = {row.name: row for row in STATUSES.values()}
    row = named.get(code.upper()) or (STATUSES.get(int(code)) if code.isdecimal() else None)
    if row is None:
        hint = "the library's own message (aclGetRecentErrMsg) may say more"
        raise UsageFailure(f"code {code!r} is unknown; {hint}")
    rules = sorted({rule.id for rule in RULES if rule.status == row.code}) if row.code else []
    if as_json:
        fields = {"code": row.code, "name": row.name, "meaning": row.meaning, "cause": row.cause}
        print_json({**fields, "rules": rules})
        return
    from rich.text import Text

    out = console()
    out.print(Text(f"{row.code} {row.name}: {row.meaning}", style="bold"))
    out.print(Text(row.cause))
    if rules:
        out.print(Text(f"rules of the validator with this status: {', '.join(rules)}"))

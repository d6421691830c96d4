"""``gmmfr replay``: run a recorded call here and compare it with what was recorded."""

from __future__ import annotations

from collections.abc import Mapping

import click

from gmmfr.cli_support import EXIT_CODES, console, print_json, progress_bar


@click.command("replay")
@click.argument("bundle")
@click.option(
    "-b", "--backend", default=None, help="where to run it; default: as recorded, or auto for the ABI"
)
@click.option("--against", default=None, help="another recording of the same call, instead of a run here")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(bundle: str, backend: str | None, against: str | None, as_json: bool) -> None:
    """Run the call recorded in BUNDLE here, or take another recording, and compare the outputs.

    PASS: the output is the recorded one, bit for bit or within rounding. The golden says which side is right.
    """
    from gmmfr.loading import load_call
    from gmmfr.replay_table import print_replay
    from gmmfr.replaying import recordings, replay

    call = load_call(bundle)
    with progress_bar("golden", quiet=as_json) as progress:
        report = replay(bundle, backend, against=against, progress=progress)
    if as_json:
        print_json(report.to_json())
    else:
        recorded = recordings(bundle, against)
        print_replay(console(), report, call.problem, lambda name: _why(bundle, name, recorded))
    raise SystemExit(EXIT_CODES[report.verdict])


def _why(bundle: str, name: str, recorded: Mapping[str, str]) -> str:
    """A recorded output is diagnosed where it is; what ran here is run once more to be saved."""
    from gmmfr.why import diagnose_command, run_and_diagnose

    out = recorded.get(name)
    return run_and_diagnose(bundle, name) if out is None else diagnose_command(bundle, out)

"""Where the library refuses what the rules accept, ``ab`` and ``run`` say how to save the call."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aclnn_bindings
from reference import make_case, read_bundle, write_bundle

Gmmfr = Callable[..., Any]
PHASE_ONE = "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize"
OFFER = "simulator refused a call that the rules accept; to report it, "


@pytest.fixture
def fail_phase_one() -> Iterator[Callable[[int], None]]:
    """Lets the simulator's next phase 1 return a status."""
    library = aclnn_bindings.simulator()

    def order(status: int) -> None:
        faults = f"{PHASE_ONE}:1:{status}".encode()
        library.check(library.functions.gmmfrSimSetFaults(faults), "gmmfrSimSetFaults")

    yield order
    library.functions.gmmfrSimSetFaults(b"")


def offers(outcome: Any) -> list[str]:
    """The lines on standard error that offer to save the call."""
    return [line for line in outcome.err.splitlines() if "to report it" in line]


@pytest.fixture(params=["ab", "run"])
def call(request: pytest.FixtureRequest, gmmfr: Gmmfr, tmp_path: Path) -> Callable[..., Any]:
    """Run a case on the simulator with one of the two commands."""
    arguments = {"ab": ("-a", "simulator"), "run": ("-b", "simulator", "-o", tmp_path / "out.safetensors")}
    return lambda *case: gmmfr(request.param, *case, *arguments[request.param])


@pytest.mark.parametrize("status", [161002, 561002, 561103])
def test_a_refused_case_comes_with_the_command_that_saves_it(
    call: Gmmfr,
    gmmfr: Gmmfr,
    fail_phase_one: Callable[[int], None],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    fail_phase_one(status)
    outcome = call("m0", "--seed", "3")
    assert outcome.code == 1
    (line,) = offers(outcome)
    command = "gmmfr cases --write m0 m0.safetensors --seed 3"
    assert line == f"{OFFER}save it: {command}"
    assert gmmfr(*shlex.split(command)[1:]).code == 0
    assert (read_bundle("m0.safetensors").x1 == make_case("m0", 3).x1).all()


def test_a_refused_bundle_is_what_to_send(
    call: Gmmfr, gmmfr: Gmmfr, fail_phase_one: Callable[[int], None], tmp_path: Path
) -> None:
    bundle = tmp_path / "saved.safetensors"
    assert gmmfr("cases", "--write", "c10", bundle).code == 0
    fail_phase_one(161002)
    assert offers(call(bundle)) == [f"{OFFER}send {bundle}"]


@pytest.mark.parametrize("status", [361001, 561003, 561107, 561112])
def test_a_failure_of_the_installation_offers_nothing_and_gives_its_cause(
    call: Gmmfr, fail_phase_one: Callable[[int], None], status: int
) -> None:
    fail_phase_one(status)
    outcome = call("m0")
    assert outcome.code == 1
    assert "usual cause:" in outcome.out
    assert offers(outcome) == []


def test_a_call_that_runs_or_that_the_rules_refuse_offers_nothing(
    call: Gmmfr, gmmfr: Gmmfr, tmp_path: Path
) -> None:
    assert offers(call("m0")) == []
    bundle = tmp_path / "broken.safetensors"
    broken = make_case("m0")
    broken.arrays["row_index"][:] = 99
    write_bundle(bundle, broken)
    outcome = call(bundle)
    assert outcome.code == 1
    assert offers(outcome) == []


def test_json_says_refused_and_stays_one_document(
    gmmfr: Gmmfr, fail_phase_one: Callable[[int], None]
) -> None:
    fail_phase_one(161002)
    outcome = gmmfr("ab", "m0", "-a", "simulator", "--json")
    assert outcome.json["backends"]["simulator"]["refused"] is True
    assert len(offers(outcome)) == 1
    fail_phase_one(561107)
    assert "refused" not in gmmfr("ab", "m0", "-a", "simulator", "--json").json["backends"]["simulator"]


def test_a_refusal_by_the_library_is_told_without_a_traceback(
    call: Gmmfr, fail_phase_one: Callable[[int], None]
) -> None:
    fail_phase_one(561002)
    outcome = call("m0")
    assert "561002" in outcome.out
    assert "Traceback" not in outcome.err

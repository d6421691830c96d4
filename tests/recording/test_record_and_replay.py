"""Calls are saved with all that a replay needs, and a replay says whether the output is still the same."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
import gmmfr as package
from reference import Operands, golden, make_case, read_bundle, write_bundle
from reference.safetensors_file import read_tensors

Gmmfr = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def _simulator() -> None:
    for soc in ("Ascend910B2", "Ascend950PR_9579"):
        aclnn_bindings.simulator(soc)


def _same(left: Operands, right: Operands) -> bool:
    """The same call with the same bytes."""
    return left.problem == right.problem and all(
        np.ascontiguousarray(left.arrays[name]).tobytes()
        == np.ascontiguousarray(right.arrays[name]).tobytes()
        for name in {**left.arrays, **right.arrays}
    )


@pytest.mark.parametrize("name", ["w0", "c4", "c5", "m0", "c10", "c12", "c16", "c18_mxfp8"])
def test_a_run_is_recorded_with_operands_output_device_and_versions(name: str, tmp_path: Path) -> None:
    operands = make_case(name)
    with package.record(tmp_path / "call.safetensors") as recording:
        out = package.run(operands, backend="simulator").out
    assert recording.paths == [tmp_path / "call.safetensors"]
    saved = read_bundle(recording.paths[0])
    assert _same(saved, operands)
    assert np.array_equal(saved.recorded["outputs"]["out.simulator"], out)
    soc = operands.problem.platform_row.default_soc
    assert saved.recorded["device"] == f"simulator ({soc})"
    assert saved.recorded["backend"] == "simulator"
    assert saved.recorded["versions"]["numpy"] == np.__version__
    assert saved.recorded["versions"]["gmmfr"] == package.__version__
    assert saved.recorded["seconds"] > 0


def test_the_file_says_what_was_recorded_to_any_reader(tmp_path: Path) -> None:
    with package.record(tmp_path / "call.safetensors"):
        package.run("c16", backend="simulator")
    tensors, metadata = read_tensors(tmp_path / "call.safetensors")
    call = json.loads(metadata["gmmfr"])
    assert tensors["out.simulator"][0] == "F32"
    assert call["dtypes"] == {"x1": "float4_e2m1fn", "x2": "float4_e2m1fn"}
    assert set(call["recorded"]) == {"backend", "device", "seconds", "versions", "system"}


def test_calls_of_the_binding_are_recorded_once_each(tmp_path: Path) -> None:
    operands = make_case("c5")
    library = aclnn_bindings.simulator("Ascend910B2")
    attributes = {
        key: getattr(operands.attributes, key) for key in ("shared_input_weight", "shared_input_offset")
    }
    with package.record(tmp_path / "calls") as recording:
        first = aclnn_bindings.grouped_matmul_finalize_routing_v3(
            **operands.arrays, **attributes, batch=operands.batch, library=library
        )
        with aclnn_bindings.Plan(operands.problem, operands.arrays, library=library) as plan:
            plan.execute()
            second = plan.result()
    assert [path.name for path in recording.paths] == ["call-0001.safetensors", "call-0002.safetensors"]
    for path, out in zip(recording.paths, (first, second), strict=True):
        saved = read_bundle(path)
        assert _same(saved, operands)
        assert np.array_equal(saved.recorded["outputs"]["out.simulator"], out)
    aclnn_bindings.grouped_matmul_finalize_routing_v3(
        **operands.arrays, **attributes, batch=operands.batch, library=library
    )
    assert len(recording.paths) == 2, "nothing is recorded after the context"


def test_new_data_of_a_plan_is_what_is_recorded(tmp_path: Path) -> None:
    operands = make_case("w0")
    doubled = np.ascontiguousarray(operands.arrays["x1"] * 2)
    with (
        package.record(tmp_path / "calls") as recording,
        aclnn_bindings.Plan(
            operands.problem, operands.arrays, library=aclnn_bindings.simulator("Ascend910B2")
        ) as plan,
    ):
        plan.update(x1=doubled)
        plan.execute()
        plan.result()
    saved = read_bundle(recording.paths[0])
    assert np.array_equal(saved.arrays["x1"], doubled)
    assert saved.recorded["outputs"]["out.simulator"][:, 0].tolist() == [-128, -448]


def test_both_sides_of_an_ab_check_and_all_threads_are_recorded(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import reference\ndef kernel(o): return reference.golden(o, 'float32').out\n")
    with package.record(tmp_path / "call.safetensors") as recording:
        package.ab("c10", "simulator", f"{kernel}:kernel")
        thread = threading.Thread(target=lambda: package.run("w0", backend="golden"))
        thread.start()
        thread.join()
    names = ["call.safetensors", "call-2.safetensors", "call-3.safetensors"]
    assert [path.name for path in recording.paths] == names
    assert [read_bundle(path).recorded["backend"] for path in recording.paths] == [
        "simulator",
        f"{kernel}:kernel",
        "golden",
    ]


def test_a_call_that_does_not_run_is_named_and_not_written(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import gmmfr_no_such_package\n")
    with package.record(tmp_path / "calls") as recording:
        package.run("w0", backend=f"{kernel}:kernel")
        package.run("w0", backend="aclnn")
    assert (recording.paths, recording.failed) == ([], {})
    assert len(recording.skipped) == 2
    assert "gmmfr_no_such_package, which is not installed" in recording.skipped[0]
    assert not (tmp_path / "calls").exists()


def test_a_path_that_is_some_other_file_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "notes.txt"
    taken.write_text("mine")
    with (
        pytest.raises(ValueError, match=r"expected a directory or a name that ends in \.safetensors"),
        package.record(taken),
    ):
        pass
    assert taken.read_text() == "mine"


def _record(
    tmp_path: Path, name: str, change: Callable[[np.ndarray], Any] | None = None, **recorded: Any
) -> Path:
    """A bundle as another machine would have recorded it; ``change`` edits the output."""
    operands = make_case(name)
    out = package.run(operands, backend="simulator").out.copy()
    if change is not None:
        change(out)
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / f"{name}.safetensors"
    about = {
        "backend": "aclnn",
        "device": "npu:0 (Ascend910B2, CANN 8.3.RC1)",
        "versions": {"numpy": "1.26.4"},
        **recorded,
    }
    write_bundle(path, operands, {about["backend"]: out}, about)
    return path


def test_replay_of_the_same_output_is_a_pass_bit_for_bit(gmmfr: Gmmfr, tmp_path: Path) -> None:
    outcome = gmmfr("replay", _record(tmp_path, "c5"), "--json")
    assert outcome.code == 0
    assert outcome.json["verdict"] == "PASS"
    assert outcome.json["message"] == (
        "operator output unchanged between npu:0 (Ascend910B2, CANN 8.3.RC1) and simulator (Ascend910B2): "
        "the same bit for bit"
    )
    assert outcome.json["changed_versions"]["numpy"] == ["1.26.4", np.__version__]
    assert outcome.json["experts"] == []


def test_replay_within_rounding_is_a_pass_that_says_so(gmmfr: Gmmfr, tmp_path: Path) -> None:
    def last_bit(out: np.ndarray) -> None:
        out[2, 5] = np.nextafter(out[2, 5], np.float32(np.inf))

    outcome = gmmfr("replay", _record(tmp_path, "c10", last_bit), "--json")
    assert outcome.code == 0
    assert "within rounding: 1 of 360 elements differ" in outcome.json["message"]


def test_replay_of_a_changed_output_names_the_expert(gmmfr: Gmmfr, tmp_path: Path) -> None:
    """One expert's rows come out wrong on the other side: as if its weights had been read differently."""
    operands = make_case("c5")
    counts, rows = operands.arrays["group_list"], operands.arrays["row_index"]
    expert = 3
    first = int(counts[:expert].sum())
    tokens = np.unique(rows[first : first + counts[expert]])
    assert tokens.size

    def disturb(out: np.ndarray) -> None:
        out[tokens] += 0.5

    outcome = gmmfr("replay", _record(tmp_path, "c5", disturb))
    assert outcome.code == 1
    message = outcome.out.strip().splitlines()[-1]
    assert message.startswith(
        "operator output changed between npu:0 (Ascend910B2, CANN 8.3.RC1) and simulator (Ascend910B2): "
        "max_abs 0.5,"
    )
    assert f"{tokens.size * 128} of 896 elements" in message
    report = package.replay(tmp_path / "c5.safetensors")
    assert expert in [share.expert for share in report.experts if share.tokens_differ == share.tokens]
    assert {c.b: c.verdict for c in report.ab.comparisons if c.b != "golden"} == {"aclnn (recorded)": "FAIL"}
    right = {c.a: c.verdict for c in report.ab.comparisons if c.b == "golden"}
    assert right == {"aclnn (recorded)": "FAIL", "simulator": "PASS"}


def test_replay_of_a_call_that_both_sides_get_wrong_reproduces_it(gmmfr: Gmmfr, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import reference\ndef kernel(o): return 2 * reference.golden(o, 'float32').out\n")
    path = tmp_path / "wrong.safetensors"
    assert gmmfr("record", "c10", "-b", f"{kernel}:kernel", "-o", path).code == 0
    outcome = gmmfr("replay", path, "-b", f"{kernel}:kernel", "--json")
    assert outcome.code == 0
    assert "the same bit for bit" in outcome.json["message"]
    assert [c["verdict"] for c in outcome.json["comparisons"]] == ["PASS", "FAIL", "FAIL"]


def test_two_recordings_are_compared_without_a_run(gmmfr: Gmmfr, tmp_path: Path) -> None:
    def double_one(out: np.ndarray) -> None:
        out[0] *= 2

    old = _record(tmp_path / "old", "w1")
    new = _record(tmp_path / "new", "w1", double_one, device="npu:0 (Ascend910B2, CANN 8.5.0)")
    outcome = gmmfr("replay", old, "--against", new, "--json")
    assert outcome.code == 1
    assert outcome.json["message"].startswith(
        "operator output changed between npu:0 (Ascend910B2, CANN 8.3.RC1) and "
        "npu:0 (Ascend910B2, CANN 8.5.0): max_abs 512, 128 of 256 elements"
    )
    assert set(outcome.json["backends"]) == {"golden", "aclnn (recorded)", f"aclnn ({new})"}
    assert gmmfr("replay", old, "--against", old).code == 0


def test_recordings_of_different_calls_are_not_compared(gmmfr: Gmmfr, tmp_path: Path) -> None:
    outcome = gmmfr("replay", _record(tmp_path, "w0"), "--against", _record(tmp_path, "w1"))
    assert outcome.code == 2
    assert "w1.safetensors: x2 differs; expected a recording of the same call" in outcome.err
    both = gmmfr(
        "replay", tmp_path / "w0.safetensors", "--against", tmp_path / "w0.safetensors", "-b", "golden"
    )
    assert (both.code, both.out) == (2, "")


def test_replay_on_a_backend_of_choice(gmmfr: Gmmfr, tmp_path: Path) -> None:
    outcome = gmmfr("replay", _record(tmp_path, "w0"), "-b", "golden", "--json")
    assert outcome.code == 0
    assert outcome.json["message"].endswith(
        "numpy float64, within rounding: 0 of 256 elements differ, max_abs 0, at most 0 of what is allowed"
    )


def test_replay_where_the_backend_is_missing_has_not_run(gmmfr: Gmmfr, tmp_path: Path) -> None:
    outcome = gmmfr("replay", _record(tmp_path, "w0"), "-b", "aclnn", "--json")
    assert outcome.code == 3
    assert outcome.json["verdict"] == "NOT RUN"
    assert outcome.json["message"].startswith("aclnn: ")


def test_a_bundle_without_output_is_a_usage_error(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "bare.safetensors"
    write_bundle(path, make_case("w0"))
    outcome = gmmfr("replay", path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "no output is recorded in it" in outcome.err


def test_recorded_output_of_another_shape_fails_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "short.safetensors"
    write_bundle(path, make_case("w0"), {"simulator": np.zeros((2, 64), np.float32)})
    report = package.replay(path)
    assert report.verdict == "FAIL"
    assert "simulator (recorded) shape: expected (2, 128), got (2, 64)" in report.message


def test_record_command_runs_a_script_and_keeps_its_calls(gmmfr: Gmmfr, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, gmmfr\nprint('about to run')\n"
        "for name in sys.argv[1:]: gmmfr.run(name, backend='simulator')\nsys.exit(3)\n"
    )
    outcome = gmmfr("record", script, "-o", tmp_path / "calls", "--json", "w0", "m0")
    assert outcome.code == 0
    assert [Path(path).name for path in outcome.json["bundles"]] == [
        "call-0001.safetensors",
        "call-0002.safetensors",
    ]
    assert "about to run" in outcome.err
    assert "ended with 3" in outcome.err
    assert gmmfr("replay", outcome.json["bundles"][1]).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nothing.py", "-o", "x"), 2, "nothing.py: no such file"),
        (("w0", "extra", "-o", "x"), 2, "'extra': arguments are for a script; w0 is a case"),
        (("w9", "-o", "x"), 2, "'w9' is unknown"),
        (("w0", "-b", "aclnn", "-o", "x"), 3, "aclnn"),
    ],
)
def test_record_command_says_what_is_wrong(
    gmmfr: Gmmfr,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = gmmfr("record", *arguments)
    assert outcome.code == code
    assert words in outcome.err
    assert not (tmp_path / "x").exists()


def test_golden_is_recorded_and_compared_with_one_side_of_rounding(tmp_path: Path) -> None:
    with package.record(tmp_path / "g.safetensors"):
        package.run("c11", backend="golden")
    report = package.replay(tmp_path / "g.safetensors")
    assert report.message.endswith("the same bit for bit")
    assert np.array_equal(
        read_bundle(tmp_path / "g.safetensors").recorded["outputs"]["out.golden"],
        golden(make_case("c11")).out,
    )

"""A failing call shrinks to one that fails the same way, with the bundle and the script to show it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmfr as package
from gmmfr.shrinking import Shrunk, shrink
from gmmfr.shrinking.failure import observe
from reference import Operands, make_case, read_bundle, write_bundle
from reference.cases import Case

Gmmfr = Callable[..., Any]

KERNELS = """
import numpy as np
import reference


def run(operands):
    return reference.golden(operands, "float32").out.astype(np.float32)


def change(operands, **arrays):
    return run(reference.Operands(operands.problem, {**operands.arrays, **arrays}))


def logit_left_out(operands):
    return change(operands, logit=np.ones_like(operands.logit))


def next_expert(operands):
    return change(operands, x2=np.roll(operands.x2, -1, axis=0))


def bias_left_out(operands):
    return change(operands, bias=np.zeros_like(operands.bias))


def nibbles_swapped(operands):
    words = operands.x2
    return change(operands, x2=((words & 0x0F0F0F0F) << 4) | ((words >> 4) & 0x0F0F0F0F))


def last_element(operands):
    out = run(operands)
    out[-1, -1] += 1 + abs(out).max()
    return out


def not_a_number(operands):
    out = run(operands)
    out[0, 0] = np.nan
    return out


def empty_group(operands):
    group = int(np.argmin(operands.group_list))
    if operands.group_list[group] == 0:
        raise RuntimeError(f"tile {operands.problem.m} of group {group} is empty")
    return run(operands)


def other_shape(operands):
    return run(operands)[:, ::-1][:, :-1]


def right(operands):
    return run(operands)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "kernels.py"
    path.write_text(KERNELS)
    return path


def _shrink(operands: Operands | str, kernel: str) -> Shrunk:
    shrunk = shrink(operands, kernel, seconds=120)
    assert shrunk is not None
    assert shrunk.complete
    return shrunk


@pytest.mark.parametrize(
    ("case", "kernel", "name", "most"),
    [
        ("c5", "logit_left_out", "logit", (1, 192, 72, 1, 1)),
        ("c3", "next_expert", "weights-of-other-expert", (1, 192, 72, 2, 1)),
        ("c4", "bias_left_out", "bias", (1, 192, 72, 1, 1)),
        ("c5", "nibbles_swapped", "nibbles-swapped", (1, 192, 72, 1, 1)),
        ("c12", "next_expert", "weights-of-other-expert", (2, 64, 1, 2, 2)),
        ("c11", "logit_left_out", "logit", (2, 64, 1, 1, 2)),
        ("c16", "logit_left_out", "logit", (2, 64, 2, 1, 2)),
    ],
)
def test_wrong_numbers_shrink_to_the_smallest_legal_call(
    kernels: Path, case: str, kernel: str, name: str, most: tuple[int, ...]
) -> None:
    shrunk = _shrink(case, f"{kernels}:{kernel}")
    problem = shrunk.operands.problem
    extents = (problem.m, problem.k, problem.n, problem.e, problem.batch)
    assert all(extent <= limit for extent, limit in zip(extents, most, strict=True)), extents
    assert shrunk.failure.kind == "mismatch"
    assert any(found.startswith(name) for found in shrunk.original.names), shrunk.original.names
    assert shrunk.failure.names
    assert shrunk.failure.names <= shrunk.original.names
    again = observe(shrunk.operands, f"{kernels}:{kernel}")
    assert again is not None
    assert again.names == shrunk.failure.names


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [("last_element", "mismatch"), ("not_a_number", "non-finite"), ("other_shape", "shape")],
)
def test_other_kinds_of_failure_keep_their_kind(kernels: Path, kernel: str, kind: str) -> None:
    shrunk = _shrink("c10", f"{kernels}:{kernel}")
    assert shrunk.failure.kind == shrunk.original.kind == kind
    assert shrunk.operands.problem.e == 1
    assert shrunk.nbytes < 200


def test_an_exception_shrinks_to_the_call_that_raises_it(kernels: Path) -> None:
    shrunk = _shrink("c10", f"{kernels}:empty_group")
    assert shrunk.failure.kind == "error"
    assert "is empty" in shrunk.failure.words
    assert shrunk.operands.problem.e == 1
    assert shrunk.operands.arrays["group_list"].tolist() == [0]


def test_values_become_simple(kernels: Path) -> None:
    arrays = _shrink("c5", f"{kernels}:nibbles_swapped").operands.arrays
    assert arrays["logit"].tolist() == [1]
    assert arrays["pertoken_scale"].tolist() == [1]
    assert np.unique(np.abs(arrays["x1"])).tolist() in ([1], [0, 1])
    assert "shared_input" not in arrays
    assert "offset" not in arrays


def test_a_call_that_passes_is_not_shrunk(gmmfr: Gmmfr, kernels: Path, tmp_path: Path) -> None:
    assert shrink("c10", f"{kernels}:right") is None
    out = tmp_path / "none.safetensors"
    outcome = gmmfr("shrink", "c10", "-b", f"{kernels}:right", "-o", out)
    assert outcome.code == 1
    assert f"c10 does not fail on {kernels}:right: nothing to shrink" in outcome.out
    assert not out.exists()


def test_command_writes_a_bundle_and_a_script_that_fails_again(
    gmmfr: Gmmfr, kernels: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small.safetensors"
    outcome = gmmfr("shrink", "c4", "-b", f"{kernels}:next_expert", "-o", out, "--json")
    assert outcome.code == 0
    assert outcome.json["extents"] == {"m": 1, "k": 192, "n": 72, "e": 2, "batch": 1}
    assert [entry["name"] for entry in outcome.json["explanations"]] == ["weights-of-other-expert"]
    assert out.stat().st_size < 20_000
    assert package.ab(out, f"{kernels}:next_expert").verdict == "FAIL"
    script = tmp_path / "small.py"
    assert outcome.json["script"] == str(script)
    root = str(Path(package.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "weights of another expert" in script.read_text()
    assert "FAIL 72 of 72 elements differ" in done.stdout
    fine = subprocess.run(
        [sys.executable, script, "simulator"], capture_output=True, text=True, env=environment, check=False
    )
    assert fine.returncode == 0, fine.stdout + fine.stderr


def test_people_read_what_fails_and_how_to_run_it(gmmfr: Gmmfr, kernels: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.safetensors"
    outcome = gmmfr("shrink", "c12", "-b", f"{kernels}:next_expert", "-o", out)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].endswith("m 2, k 64, n 1, e 2, batch 2")
    assert "weights of another expert" in lines[1]
    assert lines[2].endswith(f"calls tried; run it: python {tmp_path / 'small.py'}")
    assert "2 to 1 parts of k: 308 bytes" in outcome.err


def test_no_time_gives_the_call_as_it_is(kernels: Path) -> None:
    shrunk = shrink("c5", f"{kernels}:logit_left_out", seconds=0)
    assert shrunk is not None
    assert not shrunk.complete


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("w0", "-b", "aclnn"), 3, "aclnn"),
        (("w9", "-b", "golden"), 2, "'w9' is unknown"),
        (("w0", "-b", "nothing"), 2, "backend 'nothing' is unknown"),
        (("w0", "-b", "golden", "-o", "x.bin"), 2, "expected a name that ends in .safetensors"),
    ],
)
def test_what_cannot_be_shrunk_is_said(
    gmmfr: Gmmfr, arguments: tuple[str, ...], code: int, words: str
) -> None:
    outcome = gmmfr("shrink", *arguments)
    assert outcome.code == code
    assert words in outcome.out + outcome.err


def test_an_invalid_call_is_refused_with_its_violations(gmmfr: Gmmfr, tmp_path: Path) -> None:
    call = make_case("w0")
    path = tmp_path / "invalid.safetensors"
    broken = call.arrays["row_index"].copy()
    broken[0] = 9
    write_bundle(path, Operands(call.problem, {**call.arrays, "row_index": broken}))
    outcome = gmmfr("shrink", path, "-b", "golden")
    assert outcome.code == 1
    assert "row_index" in outcome.out


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["next_expert", "logit_left_out"])
def test_a_hundred_megabytes_shrink_below_a_hundred_kilobytes(
    gmmfr: Gmmfr, kernels: Path, tmp_path: Path, kernel: str
) -> None:
    options = {"counts": (9, 7, 0, 16, 8, 8, 8, 8), "bias": True, "shared_rows": 4, "shared_offset": 3}
    case = Case("large", "mxfp8", 64, 2048, 6144, 8, 16, options=options)
    large, small = tmp_path / "large.safetensors", tmp_path / "small.safetensors"
    write_bundle(large, case.make())
    assert large.stat().st_size > 100_000_000
    backend = f"{kernels}:{kernel}"
    outcome = gmmfr("shrink", large, "-b", backend, "-o", small, "--seconds", 600, "--json")
    assert outcome.code == 0
    assert small.stat().st_size < 100_000
    before, after = observe(read_bundle(large), backend), observe(read_bundle(small), backend)
    assert before is not None
    assert after is not None
    assert before.names == after.names != frozenset()

"""Both phases driven through cffi with arguments of any kind, and files damaged in any way.

Whatever comes, there is a status or a message; the process lives, nothing is left behind, and a right call
still works.  GMMFR_EXAMPLES raises the number of examples (.ci/long).
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import aclnn_bindings
from aclnn_bindings._acl import ffi
from gmmfr.cli import cli
from reference import golden, make_case, read_bundle, write_bundle
from reference.bundle import BundleError
from reference.formats import FORMATS
from reference.problem import ARGUMENTS, ProblemError
from reference.problem_files import read_problems
from reference.status import STATUSES

EXAMPLES = int(os.environ.get("GMMFR_EXAMPLES", "60"))
MANY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

EXTENTS = st.one_of(
    st.integers(0, 70), st.sampled_from([-1, 2**15, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63)])
)
DTYPES = st.one_of(st.integers(-1, 41), st.sampled_from([2**31 - 1, -(2**31)]))
FORMAT_CODES = st.sampled_from([-1, 0, 2, 3, 29, 30, 35, 47, 50, 51, 54, 1000])
ADDRESSES = st.sampled_from(["own", "own", "own", "inside", "odd", "null", "host", "far"])


@st.composite
def descriptors(draw: Any) -> dict[str, Any]:
    """Arguments of one aclCreateTensor."""
    rank = draw(st.one_of(st.integers(0, 5), st.sampled_from([25, 26])))
    dims = draw(st.lists(EXTENTS, min_size=rank, max_size=rank))
    return {
        "dims": dims,
        "strides": draw(st.one_of(st.none(), st.lists(EXTENTS, min_size=rank, max_size=rank))),
        "storage": draw(st.one_of(st.none(), st.lists(EXTENTS, max_size=4))),
        "offset": draw(st.one_of(st.just(0), EXTENTS)),
        "dtype": draw(DTYPES),
        "format": draw(FORMAT_CODES),
        "address": draw(ADDRESSES),
    }


CHANGES = st.dictionaries(st.sampled_from(ARGUMENTS), st.one_of(st.none(), descriptors()), max_size=4)
SCALARS = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.one_of(st.integers(-2, 3), EXTENTS),
        "shared_input_weight": st.floats(width=32),
        "shared_input_offset": EXTENTS,
        "transpose_x1": st.booleans(),
        "transpose_x2": st.booleans(),
        "group_list_type": st.one_of(st.integers(-1, 3), EXTENTS),
    },
)
VALUES = st.lists(
    st.one_of(st.integers(-2, 9), st.sampled_from([2**31, 2**62, -(2**63), 2**63 - 1])),
    min_size=8,
    max_size=8,
)


class Arguments:
    """The tensors of a call with some of them made anew from anything."""

    def __init__(self, call: Any, changes: dict[str, Any]) -> None:
        self.call = call
        for name, parts in changes.items():
            call.f.aclDestroyTensor(call.tensors.pop(name, ffi.NULL))
            if parts is not None:
                self._make(name, parts)

    def _make(self, name: str, parts: dict[str, Any]) -> None:
        call = self.call
        own = call.memory.get(name, call.memory["x1"])
        base = ffi.cast("char *", own)
        addresses = {"inside": base + 64, "odd": base + 1, "null": ffi.NULL, "far": ffi.cast("char *", 2**46)}
        addresses |= {"own": own, "host": ffi.cast("char *", call.size)}
        storage = parts["dims"] if parts["storage"] is None else parts["storage"]
        strides = parts["strides"]
        tensor = call.f.aclCreateTensor(
            ffi.new("int64_t[]", parts["dims"] or [0]),
            len(parts["dims"]),
            parts["dtype"],
            ffi.NULL if strides is None else ffi.new("int64_t[]", strides or [0]),
            parts["offset"],
            parts["format"],
            ffi.new("int64_t[]", storage or [0]),
            len(storage),
            addresses[parts["address"]],
        )
        if tensor != ffi.NULL:
            call.tensors[name] = tensor


def known(status: int) -> bool:
    return status == 0 or status in STATUSES


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("family", ["mx", "w4a8"])
def test_no_call_ends_the_process(
    family: str, checked: bool, raw: Callable[..., Any], checks: Callable[[bool], None]
) -> None:
    @MANY
    @given(
        changes=CHANGES,
        scalars=SCALARS,
        workspace=st.sampled_from(["right", "right", "null", "small", "far"]),
    )
    def fuzz(changes: dict[str, Any], scalars: dict[str, Any], workspace: str) -> None:
        call = raw(family)
        Arguments(call, changes)
        call.attributes = scalars
        status = call.phase_one()
        assert known(status), status
        if status == 0:
            size = call.size[0]
            assert size < 1 << 40
            there = size < 1 << 28 and workspace in ("right", "small")
            address = (
                call.allocate(max(size // (2 if workspace == "small" else 1), 32)) if there else ffi.NULL
            )
            address = ffi.cast("void *", 2**46) if workspace == "far" else address
            assert known(call.execute(address))
            assert known(call.synchronize())
        call.close()

    checks(checked)
    fuzz()
    assert raw(family).run() == 0


@pytest.mark.parametrize("family", ["mx", "w4a8"])
def test_no_values_end_the_process(family: str, raw: Callable[..., Any]) -> None:
    """group_list and row_index of any values: a status that names the first wrong one, or a run."""

    @MANY
    @given(groups=VALUES, rows=VALUES, cumulative=st.booleans())
    @example(groups=[2**62, 2**62, *[0] * 6], rows=[0] * 8, cumulative=False)
    @example(groups=[-1, 9, *[0] * 6], rows=[0] * 8, cumulative=False)
    def fuzz(groups: list[int], rows: list[int], cumulative: bool) -> None:
        call = raw(family)
        call.place("group_list", np.array(groups[:2], np.int64))
        call.place("row_index", np.array(rows, np.int64))
        call.attributes = {"group_list_type": 0 if cumulative else 1}
        assert call.run() in (0, 507035)
        call.close()

    fuzz()
    assert raw(family).run() == 0


def test_no_handle_ends_the_process(raw: Callable[..., Any]) -> None:
    """Handles of any bits given to every function that takes one."""
    call = raw()
    f = call.f
    real = [
        int(ffi.cast("uintptr_t", handle))
        for handle in (call.stream, call.memory["x1"], *call.tensors.values())
    ]
    takes = [
        lambda h: f.aclDestroyTensor(ffi.cast("aclTensor *", h)),
        lambda h: f.aclDestroyIntArray(ffi.cast("aclIntArray *", h)),
        lambda h: f.aclDestroyAclOpExecutor(ffi.cast("aclOpExecutor *", h)),
        lambda h: f.aclSetAclOpExecutorRepeatable(ffi.cast("aclOpExecutor *", h)),
        lambda h: f.aclnnGroupedMatmulFinalizeRoutingV3(
            ffi.NULL, 0, ffi.cast("aclOpExecutor *", h), ffi.NULL
        ),
        lambda h: f.aclrtSynchronizeStream(ffi.cast("void *", h)),
        lambda h: f.aclrtDestroyEvent(ffi.cast("void *", h)),
        lambda h: f.aclrtFree(ffi.cast("void *", h)),
        lambda h: f.aclrtFreeHost(ffi.cast("void *", h)),
        lambda h: f.aclrtSetCurrentContext(ffi.cast("void *", h)),
    ]

    @MANY
    @given(
        which=st.integers(0, len(takes) - 1),
        bits=st.one_of(
            st.integers(1, 2**64 - 1),
            st.builds(
                lambda kind, rest: 0x5A << 56 | kind << 52 | rest << 4,
                st.integers(0, 15),
                st.integers(0, 2**48 - 1),
            ),
            st.builds(lambda of, flip: of ^ (1 << flip), st.sampled_from(real), st.integers(0, 63)),
        ),
    )
    def fuzz(which: int, bits: int) -> None:
        if bits not in real:
            assert takes[which](bits) in STATUSES

    fuzz()
    assert raw().run() == 0


# ----------------------------------------------------------------------------------------------- files


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good bundle with an output."""
    path = tmp_path_factory.mktemp("whole") / "call.safetensors"
    operands = make_case("w0")
    write_bundle(
        path, operands, {"simulator": golden(operands).out.astype(np.float32)}, {"backend": "simulator"}
    )
    return path


def damaged(content: bytes, draw: Callable[[Any], Any]) -> bytes:
    """The bytes of a file with some of them cut, changed, doubled."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["cut", "byte", "bit", "double", "prefix"]))
        header = min(len(data), 8 + 2500)
        at = draw(st.integers(0, max(0, draw(st.sampled_from([header, len(data)])) - 1)))
        if kind == "cut":
            del data[at : at + draw(st.integers(1, 64))]
        elif kind == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 64))]
        elif kind == "prefix":
            data[:8] = draw(st.integers(0, 2**64 - 1)).to_bytes(8, "little")
        elif data:
            data[at] = (
                draw(st.integers(0, 255)) if kind == "byte" else data[at] ^ (1 << draw(st.integers(0, 7)))
            )
    return bytes(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([*ARGUMENTS, *FORMATS, "ND", "FRACTAL_NZ", "atlas_a2", "ascend950"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def replaced(document: Any, draw: Callable[[Any], Any]) -> Any:
    """A JSON document with one place in it replaced by anything, left out or renamed."""
    document = json.loads(json.dumps(document))
    node, path = document, draw(st.integers(1, 4))
    for _ in range(path):
        if not isinstance(node, dict | list) or not node:
            break
        key = (
            draw(st.sampled_from(sorted(node)))
            if isinstance(node, dict)
            else draw(st.integers(0, len(node) - 1))
        )
        if not isinstance(node[key], dict | list) or draw(st.booleans()):
            kind = draw(st.sampled_from(["other", "other", "gone", "named"]))
            if kind == "gone":
                del node[key]
            elif kind == "named" and isinstance(node, dict):
                node[draw(st.text(max_size=6))] = node.pop(key)
            else:
                node[key] = draw(JSON)
            break
        node = node[key]
    return document


@MANY
@given(data=st.data())
def test_damaged_bundles_are_read_or_refused(data: Any, whole: Path) -> None:
    path = whole.with_name("damaged.safetensors")
    path.write_bytes(damaged(whole.read_bytes(), data.draw))
    try:
        operands = read_bundle(path)
    except BundleError:
        return
    assert operands.problem.to_json()["platform"]


@MANY
@given(data=st.data())
def test_commands_on_bundles_with_any_header_end_in_an_exit_code(data: Any, whole: Path) -> None:
    content = whole.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    call = json.loads(header["__metadata__"]["gmmfr"])
    if data.draw(st.booleans()):
        header["__metadata__"]["gmmfr"] = json.dumps(replaced(call, data.draw))
    else:
        header = replaced(header, data.draw)
    raw_header = json.dumps(header).encode()
    path = whole.with_name("changed.safetensors")
    path.write_bytes(len(raw_header).to_bytes(8, "little") + raw_header + content[8 + length :])
    words = data.draw(
        st.sampled_from(
            [
                ["validate", path, "--json"],
                ["replay", path],
                ["ab", path, "-a", "simulator"],
                ["run", path, "-b", "simulator", "-o", whole.with_name("out.safetensors")],
                ["compare", path, whole],
                ["diagnose", path, path],
            ]
        )
    )
    ends(words)


@MANY
@given(data=st.data())
def test_problem_files_of_any_content_end_in_an_exit_code(data: Any, whole: Path) -> None:
    problem = make_case(data.draw(st.sampled_from(["w0", "c10", "c15"]))).problem.to_json()
    text = json.dumps(data.draw(JSON) if data.draw(st.integers(0, 4)) == 0 else replaced(problem, data.draw))
    if data.draw(st.integers(0, 4)) == 0:
        text = damaged(text.encode(), data.draw).decode("utf-8", "replace")
    with suppress(ProblemError):
        read_problems(text)
    path = whole.with_name("problem.json")
    path.write_text(text, encoding="utf-8")
    ends(["validate", path, *data.draw(st.sampled_from([[], ["--json"], ["--strict"]]))])


def ends(words: list[Any]) -> None:
    """Run a command: exit code 0 to 3 and no exception of any kind."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2, 3)


WORDS = st.sampled_from(
    "w0 c10 nothing - --json --seed -1 1e9 -a -b golden simulator auto x.py:f a:b:c : -- -o / /dev/null .. "
    "--time 0 --out".split()
)
STRANGE = st.sampled_from(["", "9" * 30, "\x00", "é\udc80", "\n", "[red]", "%s", "{0}"])
COMMANDS = [
    "ab",
    "run",
    "compare",
    "diagnose",
    "validate",
    "rules",
    "explain",
    "cases",
    "replay",
    "shrink",
    "doctor",
]


@MANY
@given(command=st.sampled_from(COMMANDS), words=st.lists(WORDS | STRANGE, max_size=4))
def test_any_words_on_the_command_line_end_in_an_exit_code(
    command: str, words: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = Path.cwd()
    os.chdir(tmp_path_factory.getbasetemp())
    try:
        ends([command, *words])
    finally:
        os.chdir(here)


def test_the_simulator_is_whole_after_all_of_it() -> None:
    gc.collect()
    library = aclnn_bindings.simulator()
    library.release_memory()
    assert library.memory_stats().in_use == 0

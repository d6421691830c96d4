"""What the binding's tests share: small calls, the simulator's statistics, and libraries compiled for a
test."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings._acl import ffi
from aclnn_bindings.search import SUPPORT_NAMES
from reference import golden
from reference.cases import Case
from reference.operands import Array, Operands

HERE = Path(__file__).parent
# The checking device: poison, guard bytes, views against their storage. Read when the simulator is loaded.
os.environ.setdefault("GMMFR_SIM_CHECK", "1")
SOC = {"mx": "Ascend950PR_9579", "a2": "Ascend910B2", "a3": "Ascend910_9391"}


class Record(ctypes.Structure):
    """``struct record`` of fake_library.c."""

    _fields_ = [
        ("dtype", ctypes.c_int64),
        ("weight", ctypes.c_float),
        ("offset", ctypes.c_int64),
        ("transpose_x1", ctypes.c_bool),
        ("transpose_x2", ctypes.c_bool),
        ("group_list_type", ctypes.c_int64),
        ("workspace_size", ctypes.c_uint64),
        ("executor", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("inits", ctypes.c_int),
        ("finalizes", ctypes.c_int),
        ("executors_destroyed", ctypes.c_int),
        ("tensors_created", ctypes.c_int),
        ("tensors_destroyed", ctypes.c_int),
        ("messages_read", ctypes.c_int),
        ("resets", ctypes.c_int),
    ]


class FakeLibrary:
    """A compiled stand-in, seen from its own side."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = ctypes.CDLL(str(path))
        self._message: bytes | None = None

    @property
    def record(self) -> Record:
        """What it was called with last."""
        return Record.in_dll(self._handle, "record")

    def fail_next(self, status: int, message: str | None) -> None:
        """Let the next phase 1 return ``status`` with ``message``."""
        ctypes.c_int.in_dll(self._handle, "next_status").value = status
        self._message = None if message is None else message.encode()  # C keeps the address
        ctypes.c_char_p.in_dll(self._handle, "next_message").value = self._message


@pytest.fixture(scope="session")
def empty_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library without functions."""
    path = tmp_path_factory.mktemp("empty") / "library.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", os.devnull, "-o", str(path)], check=True)
    return path


@pytest.fixture(scope="session")
def compile_fake(tmp_path_factory: pytest.TempPathFactory, empty_library: Path) -> Callable[..., FakeLibrary]:
    """Compile ``fake_library.c`` with switches, under a library name of one's choice.

    Empty base libraries lie beside it, so that what it lacks is missing: the loader would take the real ones
    from its search path, or a simulator that another test loaded under their names.
    """

    def build(*switches: str, name: str = "libopapi.so") -> FakeLibrary:
        path = tmp_path_factory.mktemp("fake") / name
        for support in SUPPORT_NAMES:
            shutil.copy(empty_library, path.with_name(support))
        flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{aclnn_bindings.include_directory()}"]
        source = str(HERE / "fake_library.c")
        subprocess.run(["cc", *flags, *switches, source, "-o", str(path)], check=True)
        return FakeLibrary(path)

    return build


@pytest.fixture(
    params=[
        Case("mx", "mxfp8", 8, 64, 32, 2, 4, options={"bias": True, "transpose_x2": True}),
        Case("fp4", "mxfp4", 8, 64, 32, 2, 4),
        Case("w4a8", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2"),
        Case("a3", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a3", options={"offset": True}),
        Case("tuned", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2", options={"tuning_config": (4,)}),
    ],
    ids=lambda case: case.name,
)
def case(request: pytest.FixtureRequest) -> Case:
    """One small call of each kind."""
    found: Case = request.param
    return found


@pytest.fixture
def small_mx() -> Operands:
    """MXFP8: 8 rows, k 64, n 32, 2 experts, 4 output rows, shared input."""
    return Case(
        "small",
        "mxfp8",
        8,
        64,
        32,
        2,
        4,
        options={"shared_rows": 2, "shared_offset": 1, "shared_weight": 0.5},
    ).make()


@pytest.fixture
def small_w4a8() -> Operands:
    """W4A8: 8 rows, k 256, n 128, 2 experts, 4 output rows."""
    return Case("small", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2").make()


@pytest.fixture
def small_w4a8_offset() -> Operands:
    """The W4A8 call with an offset; every other array is the same as without."""
    return Case("small", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2", options={"offset": True}).make()


@pytest.fixture
def assert_right() -> Callable[[Array, Operands], None]:
    """Fails unless a result is the golden's: rounding of float32 sums aside, and for W4A8 of partials."""

    def check(result: Array, operands: Operands) -> None:
        stage = golden(operands, magnitudes=True)
        assert stage.magnitude is not None
        slack = 1e-5 * stage.magnitude + (0 if stage.rounding is None else stage.rounding)
        assert (np.abs(result - stage.out) <= slack).all()

    return check


@pytest.fixture
def simulator_of() -> Callable[[Operands], aclnn_bindings.Library]:
    """The simulator with the SoC of a call's platform."""
    return lambda operands: aclnn_bindings.simulator(operands.problem.platform_row.default_soc)


@pytest.fixture
def live() -> Iterator[Callable[[], dict[str, int]]]:
    """Live objects of the simulator, counted after idle memory and streams were given back."""
    library = aclnn_bindings.simulator()

    def count() -> dict[str, int]:
        library.release_memory()
        statistics = ffi.new("gmmfrSimStatistics *")
        library.check(library.functions.gmmfrSimGetStatistics(statistics), "gmmfrSimGetStatistics")
        fields = [name for name, _ in ffi.typeof("gmmfrSimStatistics").fields]
        return {name: int(getattr(statistics, name)) for name in fields if name.startswith("live")}

    yield count
    library.functions.gmmfrSimSetOldCacheKey(False)

"""What the reliability tests share: a call made by hand, step by step, as a C program makes it."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings._acl import ffi, lib
from reference.acl import TENSOR_FORMATS
from reference.cases import Case
from reference.formats import number_format
from reference.operands import Operands
from reference.problem import ARGUMENTS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
CASES = {
    "mx": Case("raw", "mxfp8", 8, 64, 32, 2, 4),
    "w4a8": Case("raw", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2", options={"tuning_config": (4,)}),
}


def plain(message: str) -> str:
    """A finding without what differs from run to run: addresses, handles, numbers of calls."""
    message = re.sub(r"0x[0-9a-f]+", "0x…", message)
    return re.sub(r"\(call \d+ of the process\)", "(call …)", message)


class RawCall:
    """Memory, descriptors, executor, workspace and stream of one call; nothing is checked, nothing is
    automatic.

    ``memory`` and ``tensors`` hold what the arguments have; steps return the library's status.
    """

    def __init__(self, library: aclnn_bindings.Library, operands: Operands) -> None:
        self.library, self.operands = library, operands
        self.f = library.functions
        self.memory: dict[str, Any] = {}
        self.tensors: dict[str, Any] = {}
        self.others: list[Any] = []
        self.attributes: dict[str, Any] = {}
        self.closed = False
        self.workspace = ffi.NULL
        self.size = ffi.new("uint64_t *")
        self.executor_cell = ffi.new("aclOpExecutor **")
        self.stream = self.new_stream()
        tuning = operands.attributes.tuning_config
        self.tuning = (
            ffi.NULL
            if tuning is None
            else self.f.aclCreateIntArray(ffi.new("int64_t[]", tuning), len(tuning))
        )
        for name, spec in operands.problem.arguments.items():
            if spec is not None:
                out = np.zeros(spec.shape, np.float32)
                self.place(name, out if name == "out" else operands.arrays[name])

    @property
    def executor(self) -> Any:
        """What phase 1 made."""
        return self.executor_cell[0]

    def new_stream(self) -> Any:
        """Another stream; the caller destroys it."""
        cell = ffi.new("aclrtStream *")
        assert self.f.aclrtCreateStream(cell) == 0
        return cell[0]

    def allocate(self, nbytes: int) -> Any:
        """Device memory that :meth:`close` frees."""
        cell = ffi.new("void **")
        assert self.f.aclrtMalloc(cell, nbytes, lib.ACL_MEM_MALLOC_HUGE_FIRST) == 0
        self.others.append(cell[0])
        return cell[0]

    def place(self, name: str, array: Any) -> None:
        """Give an argument memory with ``array`` in it, and describe it as the call says."""
        image = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        self.memory[name] = self.allocate(image.nbytes)
        source = ffi.from_buffer(image)
        kind = lib.ACL_MEMCPY_HOST_TO_DEVICE
        assert self.f.aclrtMemcpy(self.memory[name], image.nbytes, source, image.nbytes, kind) == 0
        self.describe(name)

    def describe(
        self,
        name: str,
        address: Any = None,
        shape: Sequence[int] | None = None,
        storage: Sequence[int] | None = None,
        offset: int = 0,
        strides: Sequence[int] | None = None,
    ) -> Any:
        """Make the argument's descriptor anew."""
        spec = self.operands.problem.spec(name)
        if name in self.tensors:
            self.f.aclDestroyTensor(self.tensors[name])
        shape = spec.shape if shape is None else shape
        storage = shape if storage is None else storage
        self.tensors[name] = self.f.aclCreateTensor(
            ffi.new("int64_t[]", list(shape)),
            len(shape),
            number_format(spec.dtype).acl,
            ffi.NULL if strides is None else ffi.new("int64_t[]", list(strides)),
            offset,
            TENSOR_FORMATS[spec.format],
            ffi.new("int64_t[]", list(storage)),
            len(storage),
            self.memory[name] if address is None else address,
        )
        return self.tensors[name]

    def phase_one(self) -> int:
        """GetWorkspaceSize."""
        a = replace(self.operands.attributes, **self.attributes)
        tensors = [self.tensors.get(name, ffi.NULL) for name in ARGUMENTS]
        scalars = (a.dtype, a.shared_input_weight, a.shared_input_offset, a.transpose_x1, a.transpose_x2)
        with self.library.soc_scope():
            return int(
                self.f.aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
                    *tensors[:-1],
                    *scalars,
                    a.group_list_type,
                    self.tuning,
                    tensors[-1],
                    self.size,
                    self.executor_cell,
                )
            )

    def execute(self, workspace: Any = None, size: int | None = None) -> int:
        """Phase 2."""
        chosen = self.workspace if workspace is None else workspace
        nbytes = self.size[0] if size is None else size
        return int(self.f.aclnnGroupedMatmulFinalizeRoutingV3(chosen, nbytes, self.executor, self.stream))

    def launch(self) -> int:
        """Both phases, with a workspace as large as phase 1 says."""
        status = self.phase_one()
        if status == 0:
            self.workspace = self.allocate(self.size[0])
            status = self.execute()
        return status

    def synchronize(self) -> int:
        """Wait for the stream."""
        return int(self.f.aclrtSynchronizeStream(self.stream))

    def run(self) -> int:
        """Both phases and the wait: the first status that is not 0."""
        return self.launch() or self.synchronize()

    def free(self, address: Any) -> int:
        """Free device memory, once."""
        self.others = [other for other in self.others if other != address]
        return int(self.f.aclrtFree(address))

    def occupy(self, stream: Any = None) -> None:
        """Keep a stream busy for a good while."""
        nbytes = 64 << 20
        block = self.allocate(nbytes)
        for _ in range(6):
            self.f.aclrtMemsetAsync(block, nbytes, 1, nbytes, self.stream if stream is None else stream)

    def read(self, name: str) -> bytes:
        """The argument's bytes on the device."""
        spec = self.operands.problem.spec(name)
        nbytes = number_format(spec.dtype).nbytes(spec.size)
        host = ffi.new("char[]", nbytes)
        kind = lib.ACL_MEMCPY_DEVICE_TO_HOST
        assert self.f.aclrtMemcpy(host, nbytes, self.memory[name], nbytes, kind) == 0
        return bytes(ffi.buffer(host))

    def message(self) -> str:
        """The last message, without what differs from run to run."""
        return plain(self.library.recent_message() or "")

    def close(self) -> None:
        """Give everything back that is still there; once."""
        if self.closed:
            return
        self.closed = True
        self.f.aclrtSynchronizeStream(self.stream)
        for tensor in self.tensors.values():
            self.f.aclDestroyTensor(tensor)
        self.f.aclDestroyIntArray(self.tuning)
        if self.executor != ffi.NULL:
            self.f.aclDestroyAclOpExecutor(self.executor)
        for address in self.others:
            self.f.aclrtFree(address)
        self.f.aclrtDestroyStream(self.stream)
        while self.library.recent_message() is not None:
            pass


@pytest.fixture
def checks() -> Iterator[Callable[[bool], None]]:
    """Switch the checking device; it is on again at the end."""
    functions = aclnn_bindings.simulator().functions
    yield lambda on: functions.gmmfrSimSetChecks(on) and None
    functions.gmmfrSimSetChecks(True)


@pytest.fixture
def raw() -> Iterator[Callable[..., RawCall]]:
    """Make a call of family ``mx`` or ``w4a8`` by hand; statistics are the same after as before."""
    base = aclnn_bindings.simulator()
    made: list[RawCall] = []

    def make(family: str = "mx") -> RawCall:
        operands = CASES[family].make()
        library = aclnn_bindings.simulator(operands.problem.platform_row.default_soc)
        library.functions.gmmfrSimClearCache()
        made.append(RawCall(library, operands))
        return made[-1]

    with base.runtime.bind():
        gc.collect()  # what earlier tests left behind must not go in between
        base.release_memory()
        before = statistics(base)
        yield make
        for call in made:
            call.close()
        assert statistics(base) == before


def statistics(library: aclnn_bindings.Library) -> dict[str, int]:
    """Live objects of the simulator."""
    cell = ffi.new("gmmfrSimStatistics *")
    assert library.functions.gmmfrSimGetStatistics(cell) == 0
    names = [name for name, _ in ffi.typeof("gmmfrSimStatistics").fields]
    return {name: int(getattr(cell, name)) for name in names if name.startswith("live")}


@pytest.fixture(scope="session")
def documented() -> Callable[[str], bool]:
    """Whether docs/reliability.md has a text, line breaks aside."""
    words = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    return lambda text: " ".join(text.split()) in words


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run code in an interpreter of its own, the checking device on."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        here = Path(__file__).parent  # a folder without packages, which "-c" would put first
        given = {**os.environ, "GMMFR_SIM_CHECK": "1", **environment}
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, cwd=here, env=given, capture_output=True, text=True, timeout=120, check=False
        )

    return run

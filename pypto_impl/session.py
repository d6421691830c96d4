"""A child process that computes kernels for one architecture, seen from the parent.

One session serves any number of calls. When a call fails, crashes or times out the process is spent; the
error says what it was doing, and the next call starts another.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto_impl.cache import make_run_folder
from pypto_impl.call import Array, KernelCall
from pypto_impl.environment import child_environment
from pypto_impl.failures import (
    KernelCrashError,
    KernelError,
    KernelTimeoutError,
    last_lines,
    logged_errors,
    shorten,
)

if TYPE_CHECKING:
    from typing_extensions import Self

START_SECONDS = 900.0  # the first start builds PyPTO's calculator
COST_REPORT = "output/*/CostModelSimulationOutput/_simulate.stat.report.txt"
LOG = "child.log"  # what the child prints
RESULT = "result.npy"


@dataclass(frozen=True)
class Reply:
    """What one call gave: the kernel's last argument, and the counters of its process so far.

    ``seconds`` is the computation alone; ``peak_kib`` the largest resident size of the process up to now.
    """

    out: Array
    seconds: float
    peak_kib: int
    counters: dict[str, int] = field(default_factory=dict)


class Session:
    """The child for one ``engine``: ``DAV_2201`` or ``DAV_3510`` (interpreter), or ``npu``."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.starts = 0
        self.label = ""
        self.progress: Callable[[str], None] | None = None  # told of every stage
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._replies = -1
        self._buffer = b""
        self._stage = "starting"
        self._calls = 0

    @property
    def pid(self) -> int | None:
        """The child's process id while there is one."""
        return self._process.pid if self._process else None

    def run(self, call: KernelCall, timeout: float = 600.0) -> Reply:
        """Compute ``call`` within ``timeout`` seconds, start-up not counted. Raises :class:`KernelError`."""
        with self._lock:
            self.start()
            message = self._request(call, "run", "result", timeout)
            return Reply(message["out"], message["seconds"], message["peak_kib"], message["counters"])

    def start(self) -> None:
        """Start the child unless one is running; sets ``label``."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self.close()
                self._start()

    def _start(self) -> None:
        self._folder = make_run_folder()
        reading, writing = os.pipe()
        environment = child_environment(self._folder, device=self.engine == "npu")
        with open(self._folder / LOG, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pypto_impl.worker", self.engine, str(writing)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(writing,),
                cwd=self._folder,
                env=environment,
            )
        os.close(writing)
        self._replies, self._buffer, self._stage = reading, b"", "starting"
        self.starts += 1
        try:
            self.label = str(self._await("ready", time.monotonic() + START_SECONDS, "")["label"])
        except BaseException:
            self.close()
            raise

    def estimate(self, call: KernelCall, timeout: float = 600.0) -> str:
        """The report that PyPTO's cost model writes about ``call``. Raises :class:`KernelError`."""
        with self._lock:
            self.start()
            assert self._folder is not None
            before = set(self._folder.glob(COST_REPORT))
            self._request(call, "estimate", "estimated", timeout)
            written = set(self._folder.glob(COST_REPORT)) - before
            return "".join(path.read_text(errors="replace") for path in written)

    def _request(self, call: KernelCall, task: str, answer: str, timeout: float) -> dict[str, Any]:
        """Hand ``call`` to the child; its answer. A child that fails is closed."""
        folder = self._write(call)
        try:
            message = self._exchange(call, folder, task, answer, timeout)
            return {**message, "out": read_result(folder)}
        except BaseException:
            self.close()
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _write(self, call: KernelCall) -> Path:
        assert self._folder is not None
        self._calls += 1
        folder = self._folder / f"call-{self._calls}"
        folder.mkdir()
        for argument in call.arguments:
            np.save(folder / f"{argument.name}.npy", argument.array, allow_pickle=False)
        return folder

    def _exchange(
        self, call: KernelCall, folder: Path, task: str, answer: str, timeout: float
    ) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        request = {
            "task": task,
            "folder": str(folder),
            "spec": call.spec.to_json(),
            "arguments": [(argument.name, argument.dtype) for argument in call.arguments],
        }
        shapes = ", ".join(
            f"{argument.name} {argument.dtype} {list(argument.array.shape)}" for argument in call.arguments
        )
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death(shapes) from None
        return self._await(answer, time.monotonic() + timeout, shapes)

    def _await(self, kind: str, deadline: float, shapes: str) -> dict[str, Any]:
        """The next message of ``kind``; stages are noted on the way."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if not newline:
                self._receive(deadline, shapes)
                continue
            self._buffer = rest
            message: dict[str, Any] = json.loads(line)
            if message["kind"] == "stage":
                self._stage = message["stage"]
                if self.progress is not None:
                    self.progress(self._stage)
            elif message["kind"] == "error":
                raise self._error(f"{message['type']}: {shorten(message['message'])}", shapes)
            elif message["kind"] == kind:
                return message

    def _receive(self, deadline: float, shapes: str) -> None:
        left = deadline - time.monotonic()
        ready = select.select([self._replies], [], [], max(0.0, left))[0]
        if not ready:
            raise KernelTimeoutError(self._describe("timed out and was stopped", shapes), self._stage)
        received = os.read(self._replies, 65536)
        if not received:
            raise self._death(shapes)
        self._buffer += received

    def _error(self, what: str, shapes: str) -> KernelError:
        return KernelError(self._describe(f"failed: {what}", shapes), self._stage)

    def _death(self, shapes: str) -> KernelCrashError:
        assert self._process is not None
        code = self._process.wait(timeout=10)
        how = f"died by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return KernelCrashError(self._describe(how, shapes, output=True), self._stage)

    def _describe(self, what: str, shapes: str, *, output: bool = False) -> str:
        text = f"PyPTO ({self.engine}) {what}, while {self._stage}"
        if shapes:
            text += f"; arguments: {shapes}"
        assert self._folder is not None
        cause = logged_errors(self._folder) or (last_lines(self._folder / LOG) if output else "")
        return f"{text}\n{cause}" if cause else text

    def close(self) -> None:
        """End the child and remove its folder. May be called any number of times."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                end_process(process)
            if self._replies >= 0:
                os.close(self._replies)
                self._replies = -1
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_result(folder: Path) -> Array | None:
    """The array that the child left, if it did."""
    file = folder / RESULT
    return np.load(file, allow_pickle=False) if file.exists() else None


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Let an idle child end by itself; kill a busy one."""
    if process.stdin is not None:
        try:
            process.stdin.close()
        except BrokenPipeError:
            process.kill()
    try:
        process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_SESSIONS: dict[tuple[int, str], Session] = {}
_SESSIONS_LOCK = threading.Lock()


def session(engine: str) -> Session:
    """The session of this process for ``engine``, made on first use and closed at exit."""
    key = (os.getpid(), engine)  # a forked child must not talk to its parent's session
    with _SESSIONS_LOCK:
        if key not in _SESSIONS:
            _SESSIONS[key] = Session(engine)
        return _SESSIONS[key]


@atexit.register
def close_sessions() -> None:
    """Close every session of this process."""
    with _SESSIONS_LOCK:
        for (owner, _engine), opened in list(_SESSIONS.items()):
            if owner == os.getpid():
                opened.close()
        _SESSIONS.clear()

"""The other end of :mod:`gmmfr.kernel_worker`: starts that process, asks it, and says how it ended."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from gmmfr.kernel_transfer import receive_answer, send_operands
from reference.operands import Operands

#: Seconds between two looks whether a process that does not answer is still there.
_LOOK = 0.2
#: Seconds that a process gets to end by itself.
_PATIENCE = 5.0
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); descriptor = int(sys.argv[2]); "
    "del sys.argv[1:]; from gmmfr.kernel_worker import main; main(descriptor)"
)


class KernelProcess:
    """A process that runs kernels, in the surroundings of the moment it was started in."""

    def __init__(self) -> None:
        self.surroundings = surroundings()
        self._link, other = Pipe()
        with other:
            command = [sys.executable, "-X", "faulthandler", "-c", _PROGRAM]
            command += [json.dumps(sys.path), str(other.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[other.fileno()])

    def ask(self, path: Path, function: str, operands: Operands) -> dict[str, Any]:
        """The worker's answer for one call; ``{"ended": how}`` where the process ended instead."""
        try:
            self._link.send((str(path), function))
            send_operands(self._link, operands)
            while not wait([self._link], _LOOK):
                if self._process.poll() is not None and not wait([self._link], 0):
                    break
            else:
                return receive_answer(self._link)
        except (EOFError, ConnectionError):
            pass  # it ended: how, says its exit status
        return {"ended": self.end()}

    def end(self) -> str:
        """Close the process, by force where it does not end, and say how it ended."""
        self._link.close()
        try:
            status = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if status >= 0:
            return f"ended its process with exit code {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:  # a signal without a name
            return f"was ended by signal {-status}"

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self.end()


def surroundings() -> tuple[Any, ...]:
    """What a process takes over when it starts: a kernel must not see an earlier state of it."""
    streams = tuple(_identity(descriptor) for descriptor in (1, 2))
    return os.getpid(), os.getcwd(), tuple(sys.path), tuple(os.environ.items()), streams


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_kept: list[KernelProcess] = []
_lock = threading.Lock()


def run_kernel(path: Path, function: str, operands: Operands) -> dict[str, Any]:
    """Run one call in the kept process, or in a new one where that is gone or its surroundings changed."""
    with _lock:
        if _kept and _kept[0].surroundings != surroundings():
            _end_kept()
        process = _kept.pop() if _kept else KernelProcess()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what was printed before comes before what the kernel prints
        try:
            answer = process.ask(path, function, operands)
        except BaseException:
            process.kill()
            raise
        if "ended" not in answer:
            _kept.append(process)
        return answer


@atexit.register
def _end_kept() -> None:
    while _kept:
        process = _kept.pop()
        if process.surroundings[0] == os.getpid():  # a forked child has no say over its parent's
            process.end()

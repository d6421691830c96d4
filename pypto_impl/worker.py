"""The child process: reads calls as JSON lines from standard input, answers on a pipe, computes in between.

    python -m pypto_impl.worker {DAV_2201|DAV_3510|npu} REPLY_FD

A request names a folder with ``<argument>.npy`` files; the result is left beside them.
Arrays travel as files without pickles. Every step is announced before it begins, so that the parent can say
where a crash happened.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pypto_impl.call import KernelArgument, KernelCall, KernelSpec
from pypto_impl.interpreter import Computed, Counters, Interpreter, Report
from pypto_impl.session import RESULT


class Engine(Protocol):
    """What computes: the interpreter or a device."""

    counters: Counters

    def run(self, call: KernelCall, report: Report) -> Computed: ...


class Replies:
    """JSON lines to the parent."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")

    def send(self, kind: str, **values: Any) -> None:
        """One message; ``kind`` is ``stage``, ``ready``, ``result`` or ``error``."""
        self._file.write(json.dumps({"kind": kind, **values}) + "\n")
        self._file.flush()

    def stage(self, text: str) -> None:
        """Announce the next step."""
        self.send("stage", stage=text)


def start_engine(name: str, report: Report) -> tuple[Engine, str]:
    """The engine called ``name`` and the label of what it runs on."""
    if name == "npu":
        from pypto_impl.device import Device

        device = Device(report)
        return device, device.label
    return Interpreter(name, report), f"interpreter (PyPTO 0.2.0, {name})"


def read_call(request: dict[str, Any]) -> KernelCall:
    """The call that a request describes; arrays are mapped, not read."""
    folder = Path(request["folder"])
    arguments = [
        KernelArgument(name, np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False), dtype)
        for name, dtype in request["arguments"]
    ]
    return KernelCall(KernelSpec.from_json(request["spec"]), tuple(arguments))


def answer(engine: Engine, request: dict[str, Any], replies: Replies) -> None:
    """Do what one request asks, and say so."""
    replies.stage("reading the arguments")
    call = read_call(request)
    if request["task"] == "estimate":
        assert isinstance(engine, Interpreter)
        engine.estimate(call, replies.stage)
        replies.send("estimated")
        return
    computed = engine.run(call, replies.stage)
    np.save(Path(request["folder"]) / RESULT, computed.out, allow_pickle=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    replies.send("result", seconds=computed.seconds, peak_kib=peak, counters=asdict(engine.counters))


def main(arguments: list[str]) -> int:
    """Serve until standard input ends. 1 after the first error: a failed pass spends the process."""
    name, descriptor = arguments
    replies = Replies(int(descriptor))
    try:
        replies.stage("starting")
        engine, label = start_engine(name, replies.stage)
        replies.send("ready", label=label)
        for line in sys.stdin:
            answer(engine, json.loads(line), replies)
    except Exception as error:  # the boundary of the process: the parent raises it again
        replies.send("error", type=type(error).__name__, message=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

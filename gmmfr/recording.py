"""Record calls: operands with their layouts, output, versions and device, one bundle per call.

    with gmmfr.record("calls") as recording:
        aclnn_bindings.grouped_matmul_finalize_routing_v3(...)
    recording.paths

Recorded are the results of :func:`gmmfr.run` and of the A/B check, those of the binding (the function and
plans), and calls of torch_npu's own operator where torch_npu was imported before.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aclnn_bindings.observers import FailedRun, observing
from gmmfr.cli_support import UsageFailure
from gmmfr.result import Result
from reference.operands import Operands

if TYPE_CHECKING:
    from aclnn_bindings.observers import FinishedRun

_PACKAGES = ("gmmfr", "numpy", "ml_dtypes", "torch", "torch_npu", "pypto")
_SUFFIX = ".safetensors"


@dataclass
class Recording:
    """Calls being recorded to ``path``: a ``.safetensors`` file, or a directory.

    A directory gets ``call-0001.safetensors`` and on; beside a file the second is ``name-2.safetensors``.
    ``paths`` are the bundles written so far; ``failed`` has those of calls that broke off, with the error:
    their operands are saved, and there is no output.  ``skipped`` says which calls could not be recorded,
    and why.
    """

    path: Path
    paths: list[Path] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, operands: Operands, result: Result) -> None:
        """Write one call with its output, or with the error that it failed with; not one that did not run."""
        from reference.bundle import write_bundle

        if result.output is None and not result.failed:
            self.skipped.append(f"{result.backend}: {result.reason}")
            return
        with self._lock:
            target = self._next_path()
            outputs = {} if result.output is None else {result.backend: result.output}
            write_bundle(target, operands, outputs, describe_run(result))
            self.paths.append(target)
            if result.output is None:
                self.failed[target] = result.cause

    def _next_path(self) -> Path:
        number = len(self.paths) + 1
        if self.path.suffix != _SUFFIX:
            self.path.mkdir(parents=True, exist_ok=True)
            return self.path / f"call-{number:04d}{_SUFFIX}"
        return self.path if number == 1 else self.path.with_name(f"{self.path.stem}-{number}{_SUFFIX}")


_active: list[Recording] = []
_inside = threading.local()


@contextmanager
def record(path: str | os.PathLike[str]) -> Iterator[Recording]:
    """Record every call made while the context is open, in any thread; see the module."""
    target = Path(path)
    if target.suffix != _SUFFIX and target.is_file():
        raise UsageFailure(
            f"{target}: expected a directory or a name that ends in {_SUFFIX}, got another file"
        )
    recording = Recording(target)
    with ExitStack() as stack:
        stack.enter_context(observing(lambda run: _add_plan_run(recording, run)))
        if "torch_npu" in sys.modules:
            from gmmfr.recording_torch import TorchCalls

            stack.enter_context(TorchCalls(recording.add))
        _active.append(recording)
        stack.callback(_active.remove, recording)
        yield recording


@contextmanager
def one_run() -> Iterator[None]:
    """Inside, plans and tensors belong to one run of a backend, which is recorded as a whole."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        yield
    finally:
        _inside.depth -= 1


def is_inside_run() -> bool:
    """Whether this thread is inside :func:`one_run`."""
    return bool(getattr(_inside, "depth", 0))


def note(operands: Operands, result: Result) -> None:
    """Add a backend's result to the open recordings."""
    for recording in tuple(_active):
        recording.add(operands, result)


def _add_plan_run(recording: Recording, run: FinishedRun | FailedRun) -> None:
    if is_inside_run():
        return
    simulated = run.library.provider == "simulator"
    backend = "simulator" if simulated else "aclnn"
    if isinstance(run, FailedRun):
        _add_failed_run(recording, run, backend)
        return
    device = f"simulator ({run.library.soc})" if simulated else _npu_label(run)
    if not run.inputs_intact:
        recording.skipped.append(f"{backend}: the kernel has overwritten x1, the caller's own device memory")
        return
    try:
        arrays = {name: _host_copy(name, source) for name, source in run.sources.items()}
    except ValueError as error:
        recording.skipped.append(f"{backend}: {error}")
        return
    output = run.result if isinstance(run.result, np.ndarray) else run.result.cpu().numpy()
    result = Result(backend, output, device, run.seconds)
    recording.add(Operands(run.problem, arrays), result)


def _add_failed_run(recording: Recording, run: FailedRun, backend: str) -> None:
    """Save the operands of a call that broke off.  Nothing here may hide the error that is under way."""
    reason = f"failed: {type(run.error).__name__}: {run.error}"
    if not run.inputs_readable:
        recording.skipped.append(f"{backend}: {reason}; its inputs are on the device that failed")
        return
    try:
        arrays = {name: _host_copy(name, source) for name, source in run.sources.items()}
        device = f"{backend} ({run.library.soc})"
        failure = Result(backend, device=device, reason=reason, failed=True)
        recording.add(Operands(run.problem, arrays), failure)
    except Exception as trouble:
        recording.skipped.append(f"{backend}: {reason}; its operands could not be saved: {trouble}")


def _npu_label(run: FinishedRun) -> str:
    from gmmfr.installed import cann_version

    with run.library.runtime.bind() as context:
        number = context.device
    return f"npu:{number} ({run.library.soc}, CANN {cann_version() or 'of unknown version'})"


def _host_copy(name: str, source: Any) -> Any:
    """An input as host array: arrays as they are, the caller's NPU tensors downloaded."""
    if isinstance(source, np.ndarray):
        return source
    from reference.torch_tensors import array_of, is_tensor

    if not is_tensor(source.owner):
        raise ValueError(f"{name} is device memory of the caller, without a tensor to read it by")
    return array_of(name, source.owner.cpu())


def describe_run(result: Result) -> dict[str, Any]:
    """The ``recorded`` object of a bundle: backend, device, seconds, versions and system, or the error."""
    about = {"error": result.cause} if result.failed else {}
    return {
        **about,
        "backend": result.backend,
        "device": result.device,
        "seconds": result.seconds,
        "versions": versions(),
        "system": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "system": platform.platform(),
        },
    }


def versions() -> dict[str, str]:
    """Versions of the packages that a result can depend on, and of CANN; what is missing is left out."""
    from gmmfr.installed import cann_version

    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    found.setdefault("gmmfr", sys.modules["gmmfr"].__version__)
    toolkit = cann_version()
    return {**found, "CANN": toolkit} if toolkit else found


def recorded_outputs(operands: Operands) -> Mapping[str, Any]:
    """The outputs that a bundle holds, by backend."""
    outputs: Mapping[str, Any] = operands.recorded.get("outputs") or {}
    return {name.removeprefix("out."): array for name, array in outputs.items()}

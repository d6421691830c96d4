"""Both phases of one call as one object: uploaded once, checked once, executed as often as wanted."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from aclnn_bindings.arguments import check_array, check_out, check_platform, check_types
from aclnn_bindings.errors import AclError, BindingError, ClosedHandleError
from aclnn_bindings.execution import Execution
from aclnn_bindings.handles import warn_unclosed
from aclnn_bindings.observers import FailedRun, FinishedRun, observed, tell
from aclnn_bindings.placement import Placement
from aclnn_bindings.preparation import prepare
from aclnn_bindings.resources import Resources, milliseconds
from aclnn_bindings.sources import Array, DeviceAddress
from aclnn_bindings.streams import BorrowedStream
from aclnn_bindings.torch_support import Source, adopt, as_source
from reference.problem import INPUTS, Problem

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from aclnn_bindings.libraries import Library

Validation = Literal["errors", "strict", "off"]
_VALUE_ARGUMENTS = ("group_list", "row_index")


class Plan:
    """One call on one device: phase 1 once, then :meth:`execute` as often as wanted.

    ``problem`` describes the call, ``sources`` holds its inputs by name: NumPy arrays in the device layout,
    as ``Operands.arrays`` has them (uploaded once, never changed), or :class:`DeviceAddress` (used in
    place).  ``out`` is the array that :meth:`result` fills, or a :class:`DeviceAddress`; without it every
    result is a new array. torch's CPU tensors stand for arrays and its NPU tensors for addresses; with one
    of these, device and stream are by default the tensor's device and torch_npu's current stream.

    - ``library``: :func:`find_library` or :func:`simulator`.
    - ``device``: its number; default the calling thread's current device, else 0.
    - ``stream``: address of a stream of the caller's; default one of the plan's own.
    - ``timeout``: seconds that a run may take; None waits without limit.
    - ``validate``: ``"errors"`` refuses what phase 1 rejects and what certainly goes wrong, ``"strict"``
      also what is undocumented, ``"off"`` leaves everything to the library.
    - ``consume_x1``: on Atlas A2/A3 the kernel overwrites x1, so it works on a copy that is restored before
      each run; True saves the copy and allows one run for each :meth:`update` of x1.
    - ``deterministic``: True or False sets the switch for phase 1 and restores it; None leaves it alone.
    - ``repeatable``: ask for an executor that survives phase 2; where the library refuses, each run has a
      phase 1.

    With M = 0 or N = 0 on Ascend 950 the operator leaves ``out`` untouched, and so does a plan.
    """

    def __init__(
        self,
        problem: Problem,
        sources: Mapping[str, Source],
        *,
        library: Library,
        out: Source | None = None,
        device: int | None = None,
        stream: int | None = None,
        timeout: float | None = None,
        validate: Validation = "errors",
        consume_x1: bool = False,
        deterministic: bool | None = None,
        repeatable: bool = True,
    ) -> None:
        check_types(problem, sources, library, out, device, stream, deterministic)
        milliseconds(timeout)
        self._lock = threading.RLock()
        self._preparation = prepare(problem)
        self._given = problem
        self._adopted = adopted = adopt(problem, sources, out, stream, device)
        self._sources, self._out = adopted.sources, adopted.out
        self._validate = validate
        self.library = library
        self.timeout = timeout
        #: Seconds of the last run, from its launch to the end of the stream.
        self.execute_seconds = 0.0
        self._check_sources()
        self._check_rules(adopted.sources)
        self._preparation.check_layouts()
        with library.runtime.bind(adopted.device) as context:
            if validate != "off":
                check_platform(self._preparation.platform, library)
            context.sweep()
            stream = adopted.stream
            self._resources = Resources(context, None if stream is None else BorrowedStream(stream))
            self._finalizer = weakref.finalize(self, _collect, self._resources)
            self._finalizer.atexit = library.runtime.owned
            try:
                protect = self._preparation.destroys_x1 and not consume_x1
                self._placement = Placement(
                    self._preparation, self._sources, self._out, self._resources, protect
                )
                self._execution = Execution(
                    library, self._preparation, self._placement, self._resources, deterministic, repeatable
                )
                with self._failures(on_device=False):
                    self._execution.phase_one(explain=validate != "off")
            except BaseException:
                self._finalizer.detach()
                self._resources.give_back()
                raise

    @property
    def problem(self) -> Problem:
        """The call as it is laid out on the device."""
        return self._preparation.problem

    @property
    def workspace_size(self) -> int:
        """Bytes of workspace that phase 1 asked for."""
        return self._execution.workspace_size

    @property
    def repeatable(self) -> bool:
        """Whether one executor serves all runs."""
        return self._execution.repeatable

    @property
    def writes_nothing(self) -> bool:
        """Whether the operator leaves ``out`` untouched: M = 0 or N = 0 on Ascend 950."""
        return self._preparation.writes_nothing

    @property
    def seconds(self) -> float:
        """Seconds of the last phase 1 and the last run."""
        return self._execution.phase_one_seconds + self.execute_seconds

    def preset(self, out: Array) -> None:
        """Put ``out`` into the output's memory before a run, to see what the operator leaves as it was.

        ``out`` has the output's dtype and shape; the memory must be the plan's own.
        """
        with self._lock:
            self._check_open()
            check_out(out, self.problem.spec("out"))
            if isinstance(self._out, DeviceAddress):
                raise ValueError("out: its memory belongs to the caller; write it there")
            with self._resources.context.current():
                if self._resources.pending:
                    self._resources.synchronize(self.timeout)
                self._placement.upload({"out": out})

    def execute(self) -> None:
        """Run the call and wait for it: at most ``timeout`` seconds, then :class:`SynchronizeTimeoutError`.

        A fault of the device comes up here as :class:`DeviceFaultError`.
        """
        with self._lock:
            self._check_open()
            with self._resources.context.current():
                self._execute()

    def run(self) -> Any:
        """:meth:`execute` and :meth:`result`."""
        with self._lock:
            self._check_open()
            with self._resources.context.current():
                self._execute()
                return self._read()

    def run_and_close(self) -> Any:
        """:meth:`run` and :meth:`close` in one step, for a plan of one run; an error leaves it open."""
        with self._lock:
            self._check_open()
            with self._resources.context.current():
                self._execute()
                result = self._read()
                errors = self._resources.give_back()
            self._finalizer.detach()  # not earlier: an interrupt would lose what was not given back yet
        if errors:
            raise errors[0]
        return result

    def _execute(self) -> None:
        self._adopted.flush()
        started = perf_counter()
        try:  # not with _failures(): that takes a microsecond
            self._execution.launch()
            self._resources.synchronize(self.timeout)
        except AclError as error:
            self._tell_failure(error)
            raise
        self.execute_seconds = perf_counter() - started

    def launch(self) -> None:
        """Queue one run on the stream and return; :meth:`synchronize` waits for it."""
        with self._lock:
            self._check_open()
            with self._resources.context.current():
                self._adopted.flush()
                with self._failures():
                    self._execution.launch()

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait for everything queued, at most ``timeout`` seconds (default: the plan's)."""
        with self._lock:
            self._check_open()
            with self._resources.context.current(), self._failures():
                self._resources.synchronize(self.timeout if timeout is None else timeout)

    def result(self) -> Any:
        """The output of the last run, after waiting for it: ``out``, else a new array (batch, n).

        A tensor of torch where ``out`` or an input is one, on the device of the NPU tensors among them.
        """
        with self._lock:
            self._check_open()
            with self._resources.context.current():
                if self._resources.pending:
                    with self._failures():
                        self._resources.synchronize(self.timeout)
                return self._read()

    def _read(self) -> Any:
        out = self._out if isinstance(self._out, np.ndarray) else None
        adopted = self._adopted
        nothing = self.writes_nothing
        if nothing and (adopted.fresh or (out is None and adopted.result is None)):
            raise BindingError(
                "the operator wrote nothing (M = 0 or N = 0) and no out was given to leave as it is"
            )
        if not nothing and (adopted.result is None or out is not None):
            out = self._placement.download(out)
        return self._tell(adopted.give(out))

    def _tell(self, result: Any) -> Any:
        """Let observers see the run that ``result`` is the output of."""
        if observed():
            intact = self._execution.x1_is_intact or not isinstance(self._sources["x1"], DeviceAddress)
            tell(FinishedRun(self._given, dict(self._sources), result, self.library, self.seconds, intact))
        return result

    @contextmanager
    def _failures(self, on_device: bool = True) -> Iterator[None]:
        """Let observers see a run that breaks off in this block."""
        try:
            yield
        except AclError as error:
            self._tell_failure(error, on_device)
            raise

    def _tell_failure(self, error: AclError, on_device: bool = True) -> None:
        if observed():
            on_host = all(isinstance(source, np.ndarray) for source in self._sources.values())
            sources = dict(self._sources)
            tell(FailedRun(self._given, sources, error, self.library, on_host or not on_device))

    def update(self, **arrays: Any) -> None:
        """Give inputs new data of the same shape and layout for the runs that follow.

        It is copied before this returns, and on the host: NumPy arrays, CPU tensors.  For NPU tensors there
        is :meth:`bind`.  Data that is refused changes nothing: all of it is checked before any is copied.
        """
        with self._lock:
            self._check_open()
            fresh = {name: self._fresh(name, value) for name, value in arrays.items()}
            sources = {**self._sources, **fresh}
            if any(name in arrays for name in _VALUE_ARGUMENTS):
                self._check_rules(sources)
            with self._resources.context.current():
                if self._resources.pending:
                    self._resources.synchronize(self.timeout)
                self._placement.upload(fresh)
            self._sources = sources
            if "x1" in arrays:
                self._execution.x1_is_intact = True

    def _fresh(self, name: str, value: Any) -> Array:
        """New data for one input, as the host has it, after every check of it."""
        self._check_name(name)
        source = as_source(name, value, self._given.spec(name))
        if isinstance(source, DeviceAddress):
            raise ValueError(f"{name}: update copies from the host; use device memory in place with bind()")
        if isinstance(self._sources[name], DeviceAddress):
            raise ValueError(
                f"{name}: its memory belongs to the caller; write it there, or bind another address"
            )
        check_array(name, source, self._preparation.specs[name], self._preparation.carriers[name])
        return source

    def _check_name(self, name: str) -> None:
        if name not in self._sources:
            raise ValueError(f"{name}: the call has no such argument; it has {', '.join(self._sources)}")

    def bind(self, **sources: Any) -> None:
        """Use other device memory of the caller, of the same shape and layout, for the runs that follow.

        Each is a :class:`DeviceAddress` or an NPU tensor.  All are checked before any is used.
        """
        with self._lock:
            self._check_open()
            fresh = {name: self._fresh_address(name, value) for name, value in sources.items()}
            with self._resources.context.current():
                if self._resources.pending:
                    self._resources.synchronize(self.timeout)
                for name, source in fresh.items():
                    self._execution.bind(name, source)
                    if name == "out":
                        self._out = source
                        self._adopted = self._adopted.with_output(sources[name])
                    else:
                        self._sources[name] = source

    def _fresh_address(self, name: str, value: Any) -> DeviceAddress:
        """Other device memory for one argument, after every check of it."""
        if name != "out":
            self._check_name(name)
        source = as_source(name, value, self._given.arguments[name])
        if not isinstance(source, DeviceAddress):
            raise ValueError(f"{name}: bind takes device memory; give host data with update()")
        self._preparation.address_shift(name)
        return source

    def close(self) -> None:
        """Wait for queued work and give everything back; nothing happens the second time.

        After a timeout everything stays reserved, and is given back when the device has finished.
        """
        with self._lock:
            if not self._finalizer.alive:
                return
            try:
                self._resources.close(self.timeout)
            except BindingError:
                self._finalizer.detach()
                raise
            self._finalizer.detach()  # not earlier: an interrupt would lose what was not given back yet

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return not self._finalizer.alive

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BindingError:
            if error is None:
                raise  # else the error under way says more

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise ClosedHandleError("the plan is closed")

    def _check_sources(self) -> None:
        if self._validate not in ("errors", "strict", "off"):
            raise ValueError(f'validate: expected "errors", "strict" or "off", got {self._validate!r}')
        specs = self._preparation.specs
        for name in INPUTS if self._sources.keys() != self._preparation.inputs else ():
            if (name in specs) != (name in self._sources):
                raise ValueError(
                    f"{name}: the call {'needs data for it' if name in specs else 'has no such argument'}"
                )
        carriers = self._preparation.carriers
        for name, source in self._sources.items():
            if isinstance(source, np.ndarray) and (source.dtype, source.shape) != carriers[name]:
                check_array(name, source, specs[name], carriers[name])
        if isinstance(self._out, np.ndarray):
            check_out(self._out, self.problem.spec("out"))

    def _check_rules(self, sources: Mapping[str, Array | DeviceAddress]) -> None:
        if self._validate == "off":
            return
        values = {
            name: sources[name] for name in _VALUE_ARGUMENTS if isinstance(sources.get(name), np.ndarray)
        }
        self._preparation.check(values, strict=self._validate == "strict")


def _collect(resources: Resources) -> None:
    warn_unclosed("a Plan")
    resources.close()

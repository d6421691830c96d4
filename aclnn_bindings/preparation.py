"""What one problem needs on the device, worked out once and kept for the next call of the same shapes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property, lru_cache
from math import copysign, prod
from typing import Any

from aclnn_bindings.arguments import carrier_of, check_layout
from aclnn_bindings.phase_one import scalars_of
from aclnn_bindings.routing_check import is_plain
from aclnn_bindings.sources import storage_bytes
from aclnn_bindings.tensors import DescriptorTable, device_specs
from reference.formats import number_format
from reference.problem import Problem, ProblemError
from reference.validator import Report, validate

#: Calls whose arguments take no more than this together get one block of device memory for all of them.
_SHARED_BLOCK = 1 << 20
#: Where an argument may begin in a shared block, and the bytes that stay free behind it, as behind any
#: allocation.
_ALIGNMENT, _PAD = 512, 32
#: Problems whose preparation is kept.
_KEPT = 256
#: The block that the kernel destroys in place of x1.
X1_IN_USE = "x1 in use"


class Preparation:
    """Layouts, descriptors, sizes and verdict of one problem.

    The library keeps the result of a phase 1 under a key of the call's shapes, storage shapes included.
    Two kinds of calls must not meet an entry of another kind, so each declares the storage of a contiguous
    tensor flat that the others declare as it is; the operator reads none of it (torch_npu always declares
    all of them flat):

    - calls with an offset, by bias: libraries before the middle of 2026 left offset out of the key, and a
      call with an offset would get the kernel of the same call without;
    - repeatable calls, by scale: an executor that comes from the cache cannot be made repeatable.
    """

    def __init__(self, problem: Problem) -> None:
        self.specs = device_specs(problem)
        self.problem = Problem(problem.platform, self.specs, problem.attributes)
        #: Names of the inputs that the call has.
        self.inputs = frozenset(self.specs) - {"out"}
        #: What a host array of each argument must be.
        self.carriers = {name: carrier_of(spec) for name, spec in self.specs.items()}
        #: Arguments whose array, in C order, is the image that the device must hold.
        self.dense = frozenset(name for name in self.specs if self._is_dense(name))
        self.platform = problem.platform_row
        self._tables: dict[bool, DescriptorTable] = {}
        self._given = problem
        self._layouts_are_held = False
        self.nbytes = {name: storage_bytes(spec) for name, spec in self.specs.items()}
        self.scalars = scalars_of(problem.attributes)
        self.tuning_config = problem.attributes.tuning_config
        #: The Atlas A2/A3 kernel writes its halves of x1 into x1's own memory.
        self.destroys_x1 = self.platform.family == "a2a3"
        if self.destroys_x1 and "x1" in self.nbytes:
            self.nbytes[X1_IN_USE] = self.nbytes["x1"]
        #: Offset of each argument in a shared block, and that block's size: 0 for calls that are too large
        #: for one.
        self.slots, self.shared_bytes = _share(self.nbytes)

    def _is_dense(self, name: str) -> bool:
        spec, (dtype, shape) = self.specs[name], self.carriers[name]
        held = dtype.itemsize * prod(shape)
        return bool(shape) and spec.strides is None and spec.offset == 0 and held == storage_bytes(spec)

    def table(self, repeatable: bool) -> DescriptorTable:
        """The descriptors for a repeatable executor, or for an ordinary one."""
        found = self._tables.get(repeatable)
        if found is None:
            flat = [*(["bias"] if "offset" in self.specs else []), *(["scale"] if repeatable else [])]
            found = self._tables[repeatable] = DescriptorTable(self.specs, flat)
        return found

    def check_layouts(self) -> None:
        """Raise for views that a plan's own memory cannot hold, whatever the validator was asked."""
        if not self._layouts_are_held:
            for name, spec in self.specs.items():
                check_layout(name, spec)
            self._layouts_are_held = True

    @cached_property
    def writes_nothing(self) -> bool:
        """Whether the operator returns at once and leaves out as it is: M = 0 or N = 0 on Ascend 950."""
        try:
            return self.problem.platform_row.family == "950" and 0 in (self.problem.m, self.problem.n)
        except (ProblemError, IndexError):
            return False

    def address_shift(self, name: str) -> int:
        """Bytes from the storage that a caller's tensor names to where the operator is told that it begins.

        INT32 x2 loses its offset (see :func:`device_specs`), so its address carries it; the strides that it
        loses too must not have meant anything.
        """
        given = self._given.spec(name)
        if name == "x2" and given.dtype == "int32" and not given.is_contiguous:
            raise ValueError(
                f"x2: expected contiguous INT32 words, got {given.describe()}: the operator drops their "
                "strides; make it contiguous first"
            )
        return number_format(given.dtype).nbytes(given.offset - self.specs[name].offset)

    def check(self, values: Mapping[str, Any], strict: bool) -> None:
        """Raise for what the validator refuses in the shapes, or in ``values`` of group_list and row_index.

        The verdict on the shapes is kept; only values that are not plainly fine are put before the
        validator again.
        """
        if not self._passes(strict):
            self.report.raise_for_violations(strict)
        if values and not self._plain(values):
            validate(self.problem, values).raise_for_violations(strict)

    @cached_property
    def _verdicts(self) -> tuple[bool, bool]:
        return self.report.passes(), self.report.passes(strict=True)

    def _passes(self, strict: bool) -> bool:
        return self._verdicts[strict]

    def _plain(self, values: Mapping[str, Any]) -> bool:
        """Whether values of a call whose shapes are fine are fine at a glance."""
        groups, rows = values.get("group_list"), values.get("row_index")
        if groups is None or rows is None or self.report.status or self.writes_nothing:
            return False
        cumulative = self.problem.attributes.group_list_type == 0
        return is_plain(groups, rows, self.problem.m, self.problem.batch, cumulative)

    @cached_property
    def report(self) -> Report:
        """The validator's verdict on the shapes, without values."""
        return validate(self.problem)


def _share(nbytes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Offsets of all arguments in one block and its size; size 0 where it would be too large."""
    slots, end = {}, 0
    for name, size in nbytes.items():
        slots[name] = end
        end += (size + _PAD + _ALIGNMENT - 1) & -_ALIGNMENT
    return slots, end if end <= _SHARED_BLOCK else 0


_recent: dict[int, tuple[Problem, Preparation]] = {}
_lock = threading.Lock()


def prepare(problem: Problem) -> Preparation:
    """The preparation of ``problem``, kept for the next call that is the same but for its data."""
    kept = _recent.get(id(problem))
    if kept is not None and kept[0] is problem:  # the same object: quicker than comparing its hash
        return kept[1]
    # weights 0.0 and -0.0 are equal and give other signs
    preparation = _prepare(problem, copysign(1.0, problem.attributes.shared_input_weight))
    with _lock:
        if len(_recent) >= _KEPT:
            del _recent[next(iter(_recent))]
        _recent[id(problem)] = (problem, preparation)
    return preparation


@lru_cache(maxsize=_KEPT)
def _prepare(problem: Problem, weight_sign: float) -> Preparation:
    return Preparation(problem)

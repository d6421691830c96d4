"""What one problem needs on the device, worked out once and kept for the next call of the same shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from aclnn_bindings.phase_one import scalars_of
from aclnn_bindings.sources import storage_bytes
from aclnn_bindings.tensors import DescriptorTable, device_specs
from reference.formats import number_format
from reference.problem import Problem, ProblemError

if TYPE_CHECKING:
    from reference.validator import Report

#: Declared with a flat storage shape in calls with an offset; see :class:`Preparation`.
_FLAT_WITH_OFFSET = ("bias",)


class Preparation:
    """Layouts, descriptors, sizes and verdict of one problem.

    Base libraries before the middle of 2026 left offset out of the key of their phase-1 cache: a call with an offset
    after the same call without would get the other one's kernel.  The storage shape is in the key and means nothing
    for a contiguous tensor (torch_npu always declares it flat), so calls with an offset declare bias's flat and
    calls without declare it as it is: they never share an entry, under the old key or the new.
    """

    def __init__(self, problem: Problem) -> None:
        self.specs = device_specs(problem)
        self.problem = Problem(problem.platform, self.specs, problem.attributes)
        self.table = DescriptorTable(self.specs, _FLAT_WITH_OFFSET if "offset" in self.specs else ())
        self._given = problem
        self.nbytes = {name: storage_bytes(spec) for name, spec in self.specs.items()}
        self.scalars = scalars_of(problem.attributes)
        self.tuning_config = problem.attributes.tuning_config
        #: The Atlas A2/A3 kernel writes its halves of x1 into x1's own memory.
        self.destroys_x1 = problem.platform_row.family == "a2a3"

    @cached_property
    def writes_nothing(self) -> bool:
        """Whether the operator returns at once and leaves out as it is: M = 0 or N = 0 on Ascend 950."""
        try:
            return self.problem.platform_row.family == "950" and 0 in (self.problem.m, self.problem.n)
        except (ProblemError, IndexError):
            return False

    def address_shift(self, name: str) -> int:
        """Bytes from the storage that a caller's tensor names to where the operator is told that it begins.

        INT32 x2 loses its offset (see :func:`device_specs`), so its address carries it; the strides that it loses too
        must not have meant anything.
        """
        given = self._given.spec(name)
        if name == "x2" and given.dtype == "int32" and not given.is_contiguous:
            raise ValueError(
                f"x2: expected contiguous INT32 words, got {given.describe()}: the operator drops their strides; "
                "make it contiguous first"
            )
        return number_format(given.dtype).nbytes(given.offset - self.specs[name].offset)

    def check(self, values: Mapping[str, Any], strict: bool) -> None:
        """Raise for what the validator refuses in the shapes, or in ``values`` of group_list and row_index."""
        self.report.raise_for_violations(strict)
        if values:
            from reference.validator import validate

            validate(self.problem, values).raise_for_violations(strict)

    @cached_property
    def report(self) -> Report:
        """The validator's verdict on the shapes, without values."""
        from reference.validator import validate

        return validate(self.problem)


@lru_cache(maxsize=256)
def prepare(problem: Problem) -> Preparation:
    """The preparation of ``problem``, kept for the next call that is the same but for its data."""
    return Preparation(problem)

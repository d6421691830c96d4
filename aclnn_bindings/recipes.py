"""The kinds of calls made so far: what the next one, other in its data alone, need not work out again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reference.torch_tensors import npu_layout

if TYPE_CHECKING:
    from aclnn_bindings.shortcut import DeviceShortcut, HostShortcut
    from reference.problem import Problem

#: Calls to remember; the oldest is forgotten first.
_LIMIT = 256


@dataclass(frozen=True)
class Recipe:
    """One kind of call: its description, the arrays that are read as another type, and the quick way to make
    it, where there is one."""

    problem: Problem
    views: Mapping[str, np.dtype[Any]]
    shortcut: HostShortcut | DeviceShortcut | None

    def inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the description of such a call gives for its inputs."""
        return {
            name: value.view(self.views[name]) if name in self.views else value
            for name, value in given.items()
        }


_recipes: dict[Any, Recipe] = {}
_lock = threading.Lock()


def key_of(values: Sequence[Any], scalars: tuple[Any, ...], dtypes: Any, options: tuple[Any, ...]) -> Any:
    """Everything that a call depends on but its data: the layouts of ``values``, and the rest as it is.

    None for a call with anything but NumPy arrays and tensors on one NPU, which is worked out each time.
    """
    torch = sys.modules.get("torch")
    layouts: list[Any] = []
    npu = None
    for value in values:
        if value is None:
            layouts.append(None)
        elif type(value) is np.ndarray:
            layouts.append((value.shape, value.dtype, value.strides))
        elif torch is None or not isinstance(value, torch.Tensor):
            return None
        else:
            device = value.device
            if device != npu:
                if npu is not None or device.type != "npu":
                    return None
                npu = device
            layouts.append(npu_layout(value))
    if dtypes is not None:
        if type(dtypes) is not dict:
            return None
        dtypes = tuple(dtypes.items())
    # 1 and True are equal and not the same
    return tuple(layouts), npu, scalars, tuple(map(type, scalars)), dtypes, options


def recall(key: Any) -> Recipe | None:
    """The recipe kept for ``key``."""
    try:
        return _recipes.get(key)
    except TypeError:  # an attribute of a kind that the description will complain about, or convert
        return None


def keep(key: Any, recipe: Recipe) -> None:
    """Keep ``recipe`` for the next call with the same key."""
    with _lock:
        try:
            _recipes[key] = recipe
        except TypeError:  # see recall
            return
        if len(_recipes) > _LIMIT:
            del _recipes[next(iter(_recipes))]


def views_of(given: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, np.dtype[Any]] | None:
    """Under which element type the description took each array that it takes as another; None where it had
    to copy one."""
    if not all(_is_view(inputs[name], value) for name, value in given.items()):
        return None
    return {name: inputs[name].dtype for name, value in given.items() if inputs[name].dtype != value.dtype}


def _is_view(described: Any, given: Any) -> bool:
    """Whether the description took the array's memory as it is, under another element type at most."""
    return described is given or bool(
        described.shape == given.shape
        and described.strides == given.strides
        and described.ctypes.data == given.ctypes.data
    )

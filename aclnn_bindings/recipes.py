"""The description of a call of NumPy arrays or NPU tensors, remembered for the next call that differs only in
its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reference.operands import describe_call
from reference.problem import Problem
from reference.torch_tensors import is_device_tensor, layout_key

#: Calls to remember; the oldest is forgotten first.
_LIMIT = 256

_Recipe = tuple[Problem, dict[str, "np.dtype[Any]"]]
_recipes: dict[Any, _Recipe] = {}


def describe(
    platform: str,
    tensors: Mapping[str, Any],
    attributes: Mapping[str, Any],
    batch: int | None,
    out: Any,
    dtypes: Mapping[str, str] | None,
) -> tuple[Problem, dict[str, Any], bool]:
    """:func:`reference.operands.describe_call`, which takes longer than a small call, once for each kind of
    call.

    Calls with anything but NumPy arrays and NPU tensors, and calls whose arrays must be converted, are
    described each time.  Returns the problem, the inputs, and whether everything given is a NumPy array.
    """
    given = {name: value for name, value in tensors.items() if value is not None}
    key, plain = _key_of(platform, given, attributes, batch, out, dtypes)
    try:
        recipe = None if key is None else _recipes.get(key)
    except TypeError:  # an attribute of a kind that the description will complain about, or convert
        key = recipe = None
    if recipe is not None:
        problem, views = recipe
        for name, dtype in views.items():
            given[name] = given[name].view(dtype)
        return problem, given, plain
    problem, inputs = describe_call(
        platform=platform, batch=batch, out=out, dtypes=dtypes, **given, **attributes
    )
    if key is not None and all(_is_view(inputs[name], value) for name, value in given.items()):
        views = {
            name: inputs[name].dtype for name, value in given.items() if inputs[name].dtype != value.dtype
        }
        if len(_recipes) >= _LIMIT:
            _recipes.pop(next(iter(_recipes)), None)
        _recipes[key] = (problem, views)
    return problem, inputs, plain


def _key_of(
    platform: str,
    given: Mapping[str, Any],
    attributes: Mapping[str, Any],
    batch: int | None,
    out: Any,
    dtypes: Mapping[str, str] | None,
) -> tuple[Any, bool]:
    """Everything that the description depends on, or None for a call of other things than arrays and NPU
    tensors; and whether all of it is NumPy arrays."""
    arrays: list[tuple[Any, ...]] = []
    plain = True
    for name, value in given.items() if out is None else {**given, "out": out}.items():
        if type(value) is np.ndarray:
            arrays.append((name, value.shape, value.dtype, value.strides))
            continue
        plain = False
        if not is_device_tensor(value):
            return None, False
        arrays.append((name, layout_key(value)))
    scalars = tuple([tuple(value) if isinstance(value, list) else value for value in attributes.values()])
    return (platform, batch, tuple(dtypes.items()) if dtypes else (), scalars, tuple(arrays)), plain


def _is_view(described: Any, given: Any) -> bool:
    """Whether the description took the array's memory as it is, under another element type at most."""
    return described is given or bool(
        described.shape == given.shape
        and described.strides == given.strides
        and described.ctypes.data == given.ctypes.data
    )

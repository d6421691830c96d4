"""The operator as one function: NumPy arrays or tensors of torch in, an array or tensor out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aclnn_bindings.arguments import check_library
from aclnn_bindings.libraries import default_library
from aclnn_bindings.observers import observed
from aclnn_bindings.plan import Plan, Validation
from aclnn_bindings.recipes import Recipe, keep, key_of, recall, views_of
from aclnn_bindings.shortcut import shortcut_for
from aclnn_bindings.sources import Array
from aclnn_bindings.torch_support import in_place, new_output
from reference.operands import describe_call
from reference.problem import INPUTS, Problem, ProblemError
from reference.torch_tensors import array_of, is_device_tensor, is_tensor, tensor_of

if TYPE_CHECKING:
    from aclnn_bindings.libraries import Library


#: The scalar arguments in the order of the signature.
_SCALARS = (
    *("shared_input_weight", "shared_input_offset", "transpose_x1", "transpose_x2", "group_list_type"),
    "tuning_config",
)


class InitialValueWarning(UserWarning):
    """The operator had nothing to do and wrote nothing; the result is what it would have added to."""


def grouped_matmul_finalize_routing_v3(
    *,
    x1: Any = None,
    x2: Any = None,
    scale: Any = None,
    bias: Any = None,
    offset: Any = None,
    antiquant_scale: Any = None,
    antiquant_offset: Any = None,
    pertoken_scale: Any = None,
    group_list: Any = None,
    shared_input: Any = None,
    logit: Any = None,
    row_index: Any = None,
    batch: int | None = None,
    out: Any = None,
    dtypes: Mapping[str, str] | None = None,
    shared_input_weight: float = 1.0,
    shared_input_offset: int = 0,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    group_list_type: int = 1,
    tuning_config: Sequence[int] | None = None,
    library: Library | None = None,
    device: int | None = None,
    timeout: float | None = None,
    validate: Validation = "errors",
    consume_x1: bool = False,
    deterministic: bool | None = None,
) -> Any:
    """Multiply the rows of x1 by their experts' weights and add them into the rows of ``out``; returns
    ``out``.

    The platform is that of the library's SoC.  Shapes, with m rows, e experts, batch output rows:

    - Atlas A2/A3 (W4A8): x1 int8 (m, k), x2 int32 (e, k, n/8) of eight INT4 each, scale int64 (e, 1, n),
      bias float32 (e, n), offset float32 (e, 1, n) or None, pertoken_scale float32 (m,).
    - Ascend 950 (MXFP8, MXFP4): x1 (m, k), x2 (e, k, n), or (e, n, k) with ``transpose_x2``; scale E8M0
      (e, ceil(k/64), n, 2), or (e, n, ceil(k/64), 2); bias bfloat16 (e, n) or None; pertoken_scale E8M0
      (m, ceil(k/64), 2).
    - both: group_list int64 (e,), counts or with ``group_list_type=0`` running totals; shared_input bfloat16
      (rows, n) or None; logit float32 (m,); row_index int64 (m,); out float32 (batch, n).

    An input that is missing, and one of the reserved antiquant inputs, is for the rules to judge: all that is
    wrong comes in one error.

    Exactly one of ``batch`` and ``out`` is given.  ``dtypes`` says what bytes mean, as in
    ``Operands.from_arrays``.  ``library`` defaults to what :func:`find_library` finds, searched once; the
    other arguments are those of :class:`Plan`.  The caller's arrays are never changed, but for ``out`` and,
    with ``consume_x1``, an x1 on an NPU.

    Tensors of torch are taken as they are: on the CPU without a copy, on an NPU by address and in the order
    of torch_npu's current stream.  The result is then a tensor on the same device.

    Raises :class:`reference.InvalidProblemError` for a call that the rules refuse, :class:`AclError` for
    one that the library refuses or that fails on the device.  With M = 0 or N = 0 on Ascend 950, where the
    operator writes nothing, the result is zeros plus the weighted shared input, with an
    :class:`InitialValueWarning`.
    """
    if (batch is None) == (out is None):
        raise ProblemError(
            f"batch, out: expected exactly one of them, got {'none' if out is None else 'both'}"
        )
    if library is None:
        library = default_library()
    else:
        check_library(library)
    values = (
        *(x1, x2, scale, bias, offset, antiquant_scale, antiquant_offset),
        *(pertoken_scale, group_list, shared_input, logit, row_index),
    )
    scalars = (shared_input_weight, shared_input_offset, transpose_x1, transpose_x2, group_list_type)
    key = None
    if tuning_config is None:
        writable = out.flags.writeable if type(out) is np.ndarray else None
        # 0.0 and -0.0 are equal and give other signs
        options = str(shared_input_weight), library, validate, consume_x1, writable
        key = key_of((*values, out), (batch, *scalars), dtypes, options)
    recipe = None if key is None else recall(key)
    quick = timeout is None and device is None and deterministic is None and not observed()
    if quick and recipe is not None and recipe.shortcut is not None:
        return recipe.shortcut.run(values, out)
    attributes = dict(zip(_SCALARS, (*scalars, tuning_config), strict=True))
    given = {name: value for name, value in zip(INPUTS, values, strict=True) if value is not None}
    if recipe is None:
        problem, inputs = describe_call(
            platform=library.platform.name, batch=batch, out=out, dtypes=dtypes, **given, **attributes
        )
    else:
        problem, inputs = recipe.problem, recipe.inputs(given)
    on_device = next(filter(is_device_tensor, given.values()), None)
    with Plan(
        problem,
        in_place(inputs),
        library=library,
        out=new_output(on_device, problem) if on_device is not None and out is None else out,
        device=device,
        timeout=timeout,
        validate=validate,
        # what one run destroys is the uploaded copy; a tensor on the device is the caller's
        consume_x1=consume_x1 or not is_device_tensor(x1),
        deterministic=deterministic,
        repeatable=False,
    ) as plan:
        if plan.writes_nothing:
            plan.execute()
            like = on_device if on_device is not None else next(filter(is_tensor, given.values()), None)
            return _unwritten(problem, inputs, out, like)
        result = plan.run_and_close()
    if recipe is None and key is not None:
        views = views_of(given, inputs)
        if views is not None:
            shortcut = shortcut_for(plan, problem, (*values, out), validate, consume_x1)
            keep(key, Recipe(problem, views, shortcut))
    if not is_tensor(result) and any(map(is_tensor, given.values())):
        return tensor_of(result)
    return result


def _unwritten(problem: Problem, inputs: Mapping[str, Any], out: Any, like: Any) -> Any:
    """The initial value where the operator wrote nothing, as the caller wants it."""
    shared = inputs.get("shared_input")
    host = (
        shared if shared is None or not is_device_tensor(shared) else array_of("shared_input", shared.cpu())
    )
    target = array_of("out", out) if is_tensor(out) and not is_device_tensor(out) else out
    value = initial_value(problem, host, None if is_device_tensor(target) else target)
    if is_device_tensor(out):
        out.copy_(tensor_of(value))
    if is_tensor(out):
        return out
    return tensor_of(value).to(like.device) if is_tensor(like) else value


def initial_value(problem: Problem, shared_input: Array | None, out: Array | None = None) -> Array:
    """What the operator starts from: zeros, and the weighted shared input in its rows.  Warns that it is no
    result."""
    attributes = problem.attributes
    result = np.empty(problem.spec("out").shape, np.float32) if out is None else out
    result[...] = 0
    if shared_input is not None and shared_input.size:
        first = attributes.shared_input_offset
        rows = shared_input.astype(np.float32) * np.float32(attributes.shared_input_weight)
        result[first : first + len(rows)] = rows
    warnings.warn(
        "M = 0 or N = 0: the operator returns at once and writes nothing; the result is its initial value "
        "(zeros and the weighted shared input)",
        InitialValueWarning,
        stacklevel=4,
    )
    return result

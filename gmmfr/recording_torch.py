"""Record calls of torch_npu's own operator: torch tells its dispatch modes of every operator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gmmfr.result import Result
from reference.formats import FORMATS
from reference.operands import Operands
from reference.platforms import platform_of_soc
from reference.torch_tensors import is_tensor

_OPERATOR = "npu_grouped_matmul_finalize_routing"
#: torch_npu's arguments to the operator's: tensors, then numbers.
_TENSORS = {
    "x": "x1",
    "w": "x2",
    "group_list": "group_list",
    "scale": "scale",
    "bias": "bias",
    "offset": "offset",
    "pertoken_scale": "pertoken_scale",
    "shared_input": "shared_input",
    "logit": "logit",
    "row_index": "row_index",
}
_NUMBERS = ("shared_input_weight", "shared_input_offset", "group_list_type", "tuning_config")
_DTYPES = {"x_dtype": "x1", "w_dtype": "x2", "scale_dtype": "scale", "pertoken_scale_dtype": "pertoken_scale"}


class TorchCalls(TorchDispatchMode):  # type: ignore[misc]
    """Gives every call of torch_npu's operator in this thread, with its output, to ``add``."""

    def __init__(self, add: Callable[[Operands, Result], None]) -> None:
        super().__init__()
        self._add = add

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        from gmmfr.recording import is_inside_run

        given = dict(kwargs or {})
        if func.overloadpacket.__name__ != _OPERATOR or is_inside_run():
            return func(*args, **given)
        names = [argument.name for argument in func._schema.arguments]
        call = {**dict(zip(names, args, strict=False)), **given}
        # Before the call: the A2/A3 kernel overwrites x1.
        on_host = {key: value.cpu() if is_tensor(value) else value for key, value in call.items()}
        soc = torch.npu.get_device_name(call["x"].device)
        device = f"{_device_label(call['x'].device.index, soc)}, through torch_npu"
        try:
            out = func(*args, **given)
            output = out.cpu().numpy()
        except RuntimeError as error:
            self._add_failed(on_host, soc, device, error)
            raise
        self._add(operands_of(on_host, soc, out.shape[0]), Result("torch_npu", output, device))
        return out

    def _add_failed(self, call: Mapping[str, Any], soc: str, device: str, error: RuntimeError) -> None:
        """Save the operands of a call that broke off.  Nothing here may hide ``error``."""
        reason = f"failed: {type(error).__name__}: {error}"
        try:
            # output_bs 0, the default, stands for the rows of x
            operands = operands_of(call, soc, call.get("output_bs") or call["x"].shape[0])
            self._add(operands, Result("torch_npu", device=device, reason=reason, failed=True))
        except Exception as trouble:
            warnings.warn(f"torch_npu's failed call could not be saved: {trouble}", stacklevel=2)


def _device_label(number: int, soc: str) -> str:
    """What torch_npu's calls reach: a device, or the simulator under the vendor's names."""
    from aclnn_bindings import find_library
    from gmmfr.installed import cann_version

    if find_library().provider == "simulator":
        return f"simulator ({soc})"
    return f"npu:{number} ({soc}, CANN {cann_version() or 'of unknown version'})"


def operands_of(call: Mapping[str, Any], soc: str, batch: int) -> Operands:
    """Operands of a call of torch_npu's operator whose tensors are on the host."""
    platform = platform_of_soc(soc)
    if platform is None:
        raise ValueError(f"SoC {soc!r} is none that has this operator")
    given = {_TENSORS[key]: value for key, value in call.items() if key in _TENSORS and value is not None}
    given.update({key: call[key] for key in _NUMBERS if call.get(key) is not None})
    if not given.get("tuning_config"):
        given.pop("tuning_config", None)
    dtypes = {
        argument: _format_name(call[key]) for key, argument in _DTYPES.items() if call.get(key) is not None
    }
    return Operands.from_arrays(platform=platform.name, batch=batch, dtypes=dtypes, **given)


def _format_name(number: int) -> str:
    from gmmfr.torch_call import NPU_DTYPE_BASE

    for name, row in FORMATS.items():
        if number - NPU_DTYPE_BASE == row.acl:
            return name
    raise ValueError(f"torch_npu dtype number {number} is unknown")

"""The kernels on an NPU, through torch_npu and PyPTO's NPU mode. Runs in the child process only.

No part of this module has been run: the project is developed without an Ascend device. It refuses what is
known not to carry over from the interpreter instead of guessing.
"""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from pypto_impl.call import Array, KernelArgument, KernelCall, KernelSpec
from pypto_impl.interpreter import TORCH_VIEWS, Computed, Counters, InterpreterError, Report, kernel_module


class Device:
    """PyPTO on NPU 0."""

    def __init__(self, report: Report) -> None:
        report("opening the NPU")
        self.counters = Counters()
        self._torch: Any = importlib.import_module("torch")
        importlib.import_module("torch_npu")
        if not self._torch.npu.is_available():
            raise InterpreterError("torch_npu finds no NPU")
        self._pypto: Any = importlib.import_module("pypto")
        self._kernels: dict[KernelSpec, Any] = {}
        self.label = f"npu:0 ({self._torch.npu.get_device_name(0)}, CANN {cann_version()})"

    def run(self, call: KernelCall, report: Report) -> Computed:
        """Compute on the device; ``seconds`` includes the compilation the first time a spec is seen."""
        report("copying to the NPU")
        tensors = [self._tensor(argument).npu() for argument in call.arguments]
        if call.spec not in self._kernels:
            options = {"runtime_options": {"run_mode": self._pypto.RunMode.NPU}}
            self._kernels[call.spec] = kernel_module(call.spec).build(self._pypto, call.spec, options)
            self.counters.compiles += 1
        report("running on the NPU")
        self._torch.npu.synchronize()
        begin = time.perf_counter()
        self._kernels[call.spec](*tensors)
        self._torch.npu.synchronize()
        seconds = time.perf_counter() - begin
        self.counters.runs += 1
        out: Array = tensors[-1].cpu().numpy()
        return Computed(out, seconds)

    def _tensor(self, argument: KernelArgument) -> Any:
        tensor = self._torch.from_numpy(argument.array.copy())
        view = TORCH_VIEWS.get(argument.dtype)
        return tensor.view(getattr(self._torch, view)) if view else tensor


def cann_version() -> str:
    """The version CANN's toolkit states in its install information, or ``unknown``."""
    home = os.environ.get("ASCEND_HOME_PATH", "")
    for name in ("version.cfg", "version.info", os.path.join("opp", "version.info")):
        path = os.path.join(home, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    key, _, value = line.partition("=")
                    if key.strip().lower().endswith("version"):
                        return value.strip().strip("[]")
    return "unknown"

"""The environment in which a program that knows only the vendor's libraries finds the simulator instead."""

from __future__ import annotations

import os
from collections.abc import Mapping

from aclnn_bindings.headers import LIBRARY_DIRECTORY, SIMULATED_RUNTIME

#: Where torch_npu looks for operators before the loader's path: none of these may lead to a vendor library.
_TOOLKIT = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "ASCEND_TOOLKIT_HOME")


def missing() -> str | None:
    """Why there is no simulator to give to a program; None where there is one."""
    if SIMULATED_RUNTIME.exists():
        return None
    return f"{SIMULATED_RUNTIME} does not exist: run `python build.py`, or reinstall the package"


def simulated_environment(soc: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of ``base`` (default: this process's) with the simulator of ``soc`` before all else.

    ``import torch`` loads torch_npu by itself again, as it does beside a device.
    """
    variables = dict(os.environ if base is None else base)
    for name in _TOOLKIT:
        variables.pop(name, None)
    folders = [str(LIBRARY_DIRECTORY), *filter(None, variables.get("LD_LIBRARY_PATH", "").split(":"))]
    variables["LD_LIBRARY_PATH"] = ":".join(dict.fromkeys(folders))
    variables["GMMFR_SIM_SOC"] = soc
    variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"
    return variables

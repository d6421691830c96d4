"""One run of torch_npu's operator in this process: ``python -m gmmfr.torch_npu_worker CALL OUT``.

CALL is a bundle; OUT gets tensor ``out`` with the device and the seconds as metadata.  An error goes into a
file beside OUT, too: on standard error it stands among what the libraries print, at exit as well.
"""

from __future__ import annotations

import ctypes
import sys
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from aclnn_bindings.torch_support import import_torch
from gmmfr.torch_call import torch_arguments
from reference.bundle import read_bundle
from reference.operands import Operands
from reference.safetensors_file import write_tensors


def compute(operands: Operands) -> tuple[Any, float]:
    """The output on the device, and the seconds from the call to the synchronised stream."""
    torch = import_torch()
    import torch_npu

    positional, named = torch_arguments(operands, "npu")
    torch.npu.synchronize()
    begin = perf_counter()
    out = torch_npu.npu_grouped_matmul_finalize_routing(*positional, **named)
    torch.npu.synchronize()
    return out, perf_counter() - begin


def describe_device() -> str:
    """Where the operator ran.  The simulator is recognised by a function that no vendor library has."""
    torch = import_torch()
    import torch_npu

    from gmmfr.installed import cann_version

    runtime = ctypes.CDLL("libascendcl.so")
    soc = torch.npu.get_device_name(torch.npu.current_device())
    if hasattr(runtime, "gmmfrSimSetSocName"):
        place = f"simulator ({soc})"
    else:
        place = f"npu:{torch.npu.current_device()} ({soc}, CANN {cann_version() or 'of unknown version'})"
    return f"{place} via torch_npu {torch_npu.__version__}"


def error_file(out: str | Path) -> Path:
    """Where the error of a run with results file ``out`` is written."""
    return Path(f"{out}.error")


def main(call: str, out: str) -> None:
    """Read the bundle ``call``, run it, write the results file ``out``."""
    result, seconds = compute(read_bundle(call))
    host = np.ascontiguousarray(result.cpu().numpy())
    write_tensors(out, {"out": host}, {"device": describe_device(), "seconds": repr(seconds)})


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        traceback.print_exc()
        error_file(sys.argv[2]).write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
        sys.exit(1)

"""The operator as PyPTO kernels, computed on an NPU or by PyPTO's interpreter on the CPU.

``availability`` says whether that is possible here, ``refusal`` what PyPTO cannot compute, ``run`` computes.
Importing this package imports neither torch nor PyPTO; both live in a child process.
"""

from pypto_impl.capability import Capability, capabilities, capability_table, refusal
from pypto_impl.cost import Estimate, estimate
from pypto_impl.environment import availability, device_reason
from pypto_impl.failures import KernelCrashError, KernelError, KernelTimeoutError
from pypto_impl.kernel_run import NotAvailableError, RefusedError, Result, run
from pypto_impl.session import Session, close_sessions
from pypto_impl.tiling import Tiles, TilingError, check_tiles, choose_tiles

__all__ = [
    "Capability",
    "Estimate",
    "KernelCrashError",
    "KernelError",
    "KernelTimeoutError",
    "NotAvailableError",
    "RefusedError",
    "Result",
    "Session",
    "Tiles",
    "TilingError",
    "availability",
    "capabilities",
    "capability_table",
    "check_tiles",
    "choose_tiles",
    "close_sessions",
    "device_reason",
    "estimate",
    "refusal",
    "run",
]

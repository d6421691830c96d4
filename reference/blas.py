"""Keep NumPy's BLAS to one thread for a while.

A thread for each expert beats threads inside each matmul: decoding runs in parallel too, and BLAS threads
that wait for each other waste the machine when something else runs on it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

#: (setter, getter) of the libraries that NumPy is built with, by the names in its wheels and elsewhere.
_NAMES = (
    ("scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"),
    ("openblas_set_num_threads64_", "openblas_get_num_threads64_"),
    ("openblas_set_num_threads", "openblas_get_num_threads"),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
)
_lock = threading.Lock()
_users = 0
_before = 0


@cache
def _controls() -> tuple[Callable[[int], object], Callable[[], int]] | None:
    """Setter and getter of the number of threads; None for a BLAS that offers neither."""
    from numpy.linalg import _umath_linalg

    library = ctypes.CDLL(_umath_linalg.__file__)  # looks into the libraries that NumPy's own needs, too
    for setter, getter in _NAMES:
        if hasattr(library, setter) and hasattr(library, getter):
            return getattr(library, setter), getattr(library, getter)
    return None


@contextmanager
def single_threaded_blas() -> Iterator[bool]:
    """One BLAS thread inside the block, in all threads of the process; yields whether that worked."""
    global _users, _before
    controls = _controls()
    if controls is None:
        yield False
        return
    set_threads, get_threads = controls
    with _lock:
        if _users == 0:
            _before = get_threads()
            set_threads(1)
        _users += 1
    try:
        yield True
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                set_threads(_before)

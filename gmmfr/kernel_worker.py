"""The process that runs kernels of the user's own: a crash ends it, and not the check.

It starts with the parent's search path and serves one call after the other, so what a kernel has imported
stays imported; the kernel's file itself is loaded anew for each call.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from gmmfr.kernel_transfer import receive_operands, send_answer, tag_of
from reference.operands import Operands
from reference.torch_tensors import array_of, is_tensor


class UnusableFileError(Exception):
    """The kernel's file cannot be loaded, or has no such function."""


def main(descriptor: int) -> None:
    """Serve calls on the socket ``descriptor`` until its other end is closed."""
    link = Connection(descriptor)
    while True:
        try:
            path, function = link.recv()
            operands = receive_operands(link)
        except EOFError:
            return
        reply = _answer(Path(path), function, operands)
        del operands
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        ctypes.CDLL(None).fflush(None)
        try:
            send_answer(link, reply)
        except OSError:  # the check was broken off
            return


def _answer(path: Path, function: str, operands: Operands) -> dict[str, Any]:
    """``out`` and ``seconds``, or what went wrong."""
    try:
        kernel = _load(path, function)
        begin = time.perf_counter()
        returned = _call(kernel, operands)
        out = array_of("out", returned.cpu()) if is_tensor(returned) else np.asarray(returned)
        seconds = time.perf_counter() - begin
        if out.dtype == object:
            raise TypeError(
                f"the kernel returned {type(returned).__name__}; expected out, a float32 array of shape "
                f"{operands.problem.spec('out').shape}"
            )
        tag_of(out.dtype)
        return {"out": out, "seconds": seconds}
    except UnusableFileError as error:
        return {"unusable": str(error)}
    except Exception as error:  # a user's kernel may raise anything
        missing = _missing_module(error)
        if missing is not None:
            return {"missing": missing}
        return _failure(error, path)


def _call(kernel: Callable[[Operands], Any], operands: Operands) -> Any:
    try:
        return kernel(operands)
    except SystemExit as error:  # a kernel cannot end the check, least of all as a success
        raise RuntimeError(
            f"the kernel called sys.exit({error.code!r}); expected it to return out"
        ) from error


def _failure(error: Exception, path: Path) -> dict[str, Any]:
    from gmmfr.refused_call import is_refusal

    frames = _frames_from(error.__traceback__, path)
    told = "".join(traceback.format_exception(type(error), error, frames))
    return {"failed": f"{type(error).__name__}: {error}", "traceback": told, "refused": is_refusal(error)}


def _frames_from(frames: TracebackType | None, path: Path) -> TracebackType | None:
    """The traceback from the first frame of the kernel's file; all of it where there is none."""
    frame = frames
    while frame is not None and frame.tb_frame.f_code.co_filename != str(path):
        frame = frame.tb_next
    return frame or frames


def _missing_module(error: Exception) -> str | None:
    """The package that an import did not find; None where ``error`` is anything else.

    A part that an installed package lacks is a mistake of the kernel, or another version's: no such package.
    """
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    package = error.name.partition(".")[0]
    return None if package in sys.modules or importlib.util.find_spec(package) else package


def _load(path: Path, function: str) -> Callable[[Operands], Any]:
    spec = importlib.util.spec_from_file_location(f"gmmfr_own_kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UnusableFileError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:  # as for a script: modules beside the file can be imported
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, Exception) and _missing_module(error) is not None:
            raise
        raise UnusableFileError(f"{path} cannot be loaded: {_describe(error, path)}") from None
    kernel = getattr(module, function, None)
    if not callable(kernel):
        raise UnusableFileError(f"{path} has no function {function!r}")
    return kernel  # type: ignore[no-any-return]


def _describe(error: BaseException, path: Path) -> str:
    """The error with the line of the kernel's file where it came up."""
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return words  # names its file and line
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{words} (line {lines[-1]})" if lines else words

"""Run one call on one backend."""

from __future__ import annotations

import logging
import os
import statistics
import sys
from dataclasses import replace

import numpy as np

from gmmfr.backend import Backend, Progress
from gmmfr.backends import find_backend
from gmmfr.cli_support import UsageFailure
from gmmfr.loading import load_call
from gmmfr.own_kernel import KernelError
from gmmfr.recording import note, one_run
from gmmfr.refused_call import is_refusal
from gmmfr.result import NotRunError, Result
from reference.operands import Operands
from reference.validator import validate

_LOG = logging.getLogger(__name__)


def run(
    operands: Operands | str | os.PathLike[str],
    backend: str = "auto",
    *,
    precision: str = "float64",
    progress: Progress | None = None,
) -> Result:
    """Compute a call (operands, a case name or a bundle's path) on ``backend``.

    Raises ``InvalidProblemError`` with every violation where the validator refuses the call.  A backend
    that cannot run gives a :class:`Result` without output, which says why; its ``out`` raises that reason.
    """
    call = load_call(operands)
    chosen = find_backend(backend, call.problem, precision)
    validate(call.problem, call.arrays).raise_for_violations()
    return _refuse_misfit(run_backend(chosen, call, progress), call)


def _refuse_misfit(result: Result, call: Operands) -> Result:
    """An output of another shape or type than the call's is a failure, no result."""
    if result.output is None:
        return result
    expected, out = (call.batch, call.problem.n), result.output
    if out.shape == expected and out.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return result
    reason = f"out: expected float32 {expected}, got {out.dtype.name} {out.shape}"
    return Result(result.backend, reason=f"failed: {reason}", failed=True)


def run_backend(
    backend: Backend, operands: Operands, progress: Progress | None = None, repeats: int = 1
) -> Result:
    """Run a valid call; a refusal or a failure becomes a result without output.

    With ``repeats`` above 1 the result's seconds are the median of that many runs.
    """
    reason = backend.refusal(operands.problem)
    if reason is not None:
        return _not_run(backend, operands, reason)
    try:
        with one_run():
            results = [backend.run(operands, progress) for _ in range(repeats)]
    except UsageFailure:
        raise
    except NotRunError as error:
        return _not_run(backend, operands, str(error))
    except Exception as error:  # a library may break off in any way
        failure = _failure(backend, error)
        note(operands, failure)
        return failure
    seconds = [result.seconds for result in results if result.seconds is not None]
    result = replace(results[-1], seconds=statistics.median(seconds) if seconds else None)
    note(operands, result)
    return result


def _not_run(backend: Backend, operands: Operands, reason: str) -> Result:
    result = Result(backend.name, reason=reason)
    note(operands, result)
    return result


def _failure(backend: Backend, error: Exception) -> Result:
    """What broke off, as a result.  The user's own kernel comes with its frames; others log theirs."""
    if isinstance(error, KernelError):
        sys.stderr.write(error.traceback)
        return Result(backend.name, reason=f"failed: {error}", failed=True, refused=error.refused)
    _LOG.debug("%s broke off", backend.name, exc_info=error)
    reason = f"failed: {type(error).__name__}: {error}"
    return Result(backend.name, reason=reason, failed=True, refused=is_refusal(error))

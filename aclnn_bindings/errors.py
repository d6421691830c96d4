"""Everything the binding raises, and the one translator of status codes.

:class:`BindingError` is the base.  :class:`AclError` carries a status of the library; the others are found
before a library is called.
"""

from __future__ import annotations

from collections.abc import Sequence

from reference.status import STATUSES, status_name


class BindingError(Exception):
    """Base of every error of this package."""


class LibraryNotFoundError(BindingError, OSError):
    """No library with the operator was found; ``attempts`` lists what was tried, in order."""

    def __init__(self, message: str, attempts: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)


class MissingSymbolError(BindingError):
    """A function that the opened libraries lack: ``symbol`` is its name."""

    def __init__(self, message: str, symbol: str) -> None:
        super().__init__(message)
        self.symbol = symbol


class ClosedHandleError(BindingError, ValueError):
    """A handle, buffer or plan was used after it was closed."""


class ForkedProcessError(BindingError, RuntimeError):
    """The runtime was started before this process was forked."""


class AclError(BindingError, RuntimeError):
    """A call of the library failed.

    ``code`` is the status, ``name`` its enumerator, ``message`` what the library itself said (None where it
    said nothing), ``what`` what was being called.
    """

    def __init__(self, code: int, message: str | None, what: str, note: str | None = None) -> None:
        self.code = code
        self.name = status_name(code)
        self.message = message
        self.what = what
        self.note = note
        super().__init__(_sentence(self))


class RejectedError(AclError, ValueError):
    """Phase 1 refused the call (161001, 161002 or 561xxx)."""


class OutOfDeviceMemoryError(AclError, MemoryError):
    """The device has no memory left for an allocation."""


class SynchronizeTimeoutError(AclError, TimeoutError):
    """The device did not finish in the given time; its buffers stay reserved until it does."""


class DeviceFaultError(AclError):
    """Work on the device failed; the error came up when the stream was synchronised."""


def _sentence(error: AclError) -> str:
    row = STATUSES.get(error.code)
    text = f"{error.what} returned {error.code} {error.name}"
    text += f": {row.meaning}" if row else ""
    text += f"\nlibrary: {error.message}" if error.message else "\nlibrary: no message"
    text += f"\nusual cause: {row.cause}" if row and row.cause else ""
    return text + (f"\n{error.note}" if error.note else "")


#: A wait that ran out of time; the work goes on.
TIMEOUT_CODES = (107019, 507046)

_BY_CODE: dict[int, type[AclError]] = {
    161001: RejectedError,
    161002: RejectedError,
    200000: OutOfDeviceMemoryError,
    207001: OutOfDeviceMemoryError,
    207018: OutOfDeviceMemoryError,
    **dict.fromkeys(TIMEOUT_CODES, SynchronizeTimeoutError),
}
_BY_RANGE: tuple[tuple[range, type[AclError]], ...] = (
    (range(507000, 508000), DeviceFaultError),
    (range(561000, 562000), RejectedError),
)


def error_of(code: int, message: str | None, what: str, note: str | None = None) -> AclError:
    """The exception for a status that is not 0."""
    kind = _BY_CODE.get(code)
    if kind is None:
        kind = next((kind for codes, kind in _BY_RANGE if code in codes), AclError)
    return kind(code, message, what, note)

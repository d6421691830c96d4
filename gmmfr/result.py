"""What a backend hands back: the output, and where and how long it ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


class NotRunError(RuntimeError):
    """A backend did not run; the message is the reason."""


@dataclass(frozen=True, eq=False)
class Result:
    """One backend's result.

    ``output`` (batch, n) float32, None where the backend did not run; ``device`` says where it ran;
    ``seconds`` is the computation alone (for a device from phase 1 to synchronise, operands loaded);
    ``failed`` tells a run that broke off from one that could not start; ``refused`` says that the
    library's phase 1 did not take the call; ``notes`` are remarks for the user.
    """

    backend: str
    output: NDArray[Any] | None = None
    device: str | None = None
    seconds: float | None = None
    reason: str | None = None
    failed: bool = False
    notes: tuple[str, ...] = field(default=())
    refused: bool = False

    @property
    def ran(self) -> bool:
        """Whether there is an output."""
        return self.output is not None

    @property
    def out(self) -> NDArray[np.float32]:
        """The output; :class:`NotRunError` with the reason where there is none."""
        if self.output is None:
            raise NotRunError(f"{self.backend}: {self.reason}")
        return self.output

    @property
    def cause(self) -> str:
        """The reason without the word that a failure's begins with."""
        return (self.reason or "").removeprefix("failed: ")

    def to_json(self) -> dict[str, Any]:
        """``{"ran", "device", "seconds", "reason"}`` of the command line's JSON."""
        value: dict[str, Any] = {
            "ran": self.ran,
            "device": self.device,
            "seconds": self.seconds,
            "reason": self.reason,
        }
        if self.refused:
            value["refused"] = True
        if self.notes:
            value["notes"] = list(self.notes)
        return value

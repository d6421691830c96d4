"""What one expert adds to the golden's output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Contribution:
    """What one expert's rows add, before the scatter: all (rows, n) but ``terms`` (a number)."""

    value: NDArray[Any]
    magnitude: NDArray[np.float32] | None
    rounding: NDArray[np.float32] | None
    terms: int

"""The hardware that the operator runs on: platforms, SoC names, and what differs between families.

Platform limits are data with a source; code loops over rows and never asks ``if platform ==``.
Sources: the operator definition (op registration), op_api ``NpuArch`` test, torch_npu's SoC table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["a2a3", "950"]


@dataclass(frozen=True)
class Platform:
    """One platform: its ``family`` of checks, the SoC names it answers with, a default SoC to simulate."""

    name: str
    title: str
    family: Family
    default_soc: str
    soc_names: tuple[str, ...]
    soc_prefix: str | None = None
    pypto_arch: str = ""

    def has_soc(self, soc: str) -> bool:
        """Whether a device that calls itself ``soc`` is of this platform."""
        return soc in self.soc_names or (self.soc_prefix is not None and soc.startswith(self.soc_prefix))


PLATFORMS: dict[str, Platform] = {
    row.name: row
    for row in (
        Platform(
            "atlas_a2",
            "Atlas A2",
            "a2a3",
            "Ascend910B2",
            ("Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1"),
            pypto_arch="DAV_2201",
        ),
        Platform(
            "atlas_a3",
            "Atlas A3",
            "a2a3",
            "Ascend910_9391",
            (
                "Ascend910_9391",
                "Ascend910_9392",
                "Ascend910_9381",
                "Ascend910_9382",
                "Ascend910_9372",
                "Ascend910_9362",
                "Ascend910_9363",
            ),
            pypto_arch="DAV_2201",
        ),
        Platform(
            "ascend950",
            "Ascend 950",
            "950",
            "Ascend950PR_9579",
            ("Ascend950PR_9579",),
            soc_prefix="Ascend950",
            pypto_arch="DAV_3510",
        ),
    )
}

ALIASES = {"atlas_350": "ascend950"}


def find_platform(name: str) -> Platform:
    """Return the platform called ``name`` (or its alias); ``ValueError`` lists the known names."""
    try:
        return PLATFORMS[ALIASES.get(name, name)]
    except (KeyError, TypeError):
        known = ", ".join([*PLATFORMS, *ALIASES])
        raise ValueError(f"platform {name!r} is unknown; expected one of {known}") from None


def platform_of_soc(soc: str) -> Platform | None:
    """The platform of a SoC name as ``aclrtGetSocName`` gives it; None where the operator has no kernel."""
    return next((row for row in PLATFORMS.values() if row.has_soc(soc)), None)

"""Which CANN release first has a function, as far as public sources say.

Sources: the first public revision of the operator library (version.info 8.3.RC1) and the vendor's
documentation pages by release.  Nothing here decides anything: functions are found by name.
"""

from __future__ import annotations

#: Beginning of a function's name to the first release; the longest match counts.
_FIRST_RELEASE = {
    "aclnnGroupedMatmulFinalizeRoutingV3": "8.3.RC1",
}
#: The operator's older and newer siblings, looked up only to say what a library has instead.
SIBLINGS = (
    "aclnnGroupedMatmulFinalizeRouting",
    "aclnnGroupedMatmulFinalizeRoutingV2",
    "aclnnGroupedMatmulFinalizeRoutingWeightNz",
    "aclnnGroupedMatmulFinalizeRoutingWeightNzV2",
)
#: The first release whose operator takes MX formats on Ascend 950.
MX_RELEASE = "9.0.0"


def first_release(name: str) -> str | None:
    """The first CANN release known to have the function ``name``, or None where no source says."""
    matches = [prefix for prefix in _FIRST_RELEASE if name.startswith(prefix)]
    return _FIRST_RELEASE[max(matches, key=len)] if matches else None


def requirement(name: str) -> str:
    """The sentence for a message about the missing function ``name``."""
    release = first_release(name)
    return (
        f"needs CANN {release} or newer"
        if release
        else "no public source says which CANN release has it first"
    )

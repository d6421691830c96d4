"""Which installed version does not fit, what would, and how to get it: the findings of ``gmmfr doctor``.

Only rules with a source: what the installed packages themselves require, the first CANN release with the
operator and with MX formats (:mod:`aclnn_bindings.versions`), one version for toolkit and operator package
(an operator package of another release loses attributes), and the variables without which phase 1 ends with
561107.  No source relates the driver's version to the others: it is listed, never judged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from gmmfr.installed import cann_version
from gmmfr.requirements import installed_version, is_older, requirements, satisfies
from reference.platforms import PLATFORMS

#: Packages whose requirements are looked at, and the package that shows an extra to be in use.
_REQUIRING: Mapping[str, Mapping[str | None, str]] = {
    "gmmfr": {None: "gmmfr", "torch": "torch", "npu": "torch_npu", "pypto": "pypto"},
    "torch_npu": {None: "torch_npu"},
}
#: What the search says of a library with a relative of the operator.
_OLDER = re.compile(r"found instead: (?!no member)")
_SOURCE_IT = "source the set_env.sh of the toolkit that is meant"


@dataclass(frozen=True)
class Misfit:
    """One version or variable that does not fit: what was found, what fits and why, how to get there."""

    what: str
    found: str
    fits: str
    remedy: str

    def to_json(self) -> dict[str, str]:
        """The fields as the JSON of ``gmmfr doctor`` has them."""
        return asdict(self)


def find_misfits(soc: str | None, library_found: bool, attempts: Iterable[object]) -> list[Misfit]:
    """Everything that does not fit here.

    ``soc`` is the SoC of an NPU that answers; ``library_found`` says that the vendor's library with the
    operator was opened, which proves more than a version; ``attempts`` are the places that were searched.
    """
    lacking = () if library_found else _libraries(attempts)
    return [*_packages(), *_cann(soc, library_found), *lacking, *_variables(library_found)]


def _packages() -> Iterator[Misfit]:
    """Python packages that another one, or an extra that is in use, requires in another version."""
    for owner, users in _REQUIRING.items():
        version = installed_version(owner)
        for wanted in requirements(owner):
            found, user = installed_version(wanted.package), users.get(wanted.extra)
            if found is None or user is None or installed_version(user) is None:
                continue
            if not wanted.applies or satisfies(found, wanted.clauses):
                continue
            whose = f"the extra {wanted.extra} of {owner}" if wanted.extra else f"{owner} {version}"
            yield Misfit(
                wanted.package,
                found,
                f"{whose} requires {wanted.clauses}",
                f"pip install '{wanted.package}{wanted.clauses}'",
            )


def _cann(soc: str | None, library_found: bool) -> Iterator[Misfit]:
    """The toolkit against the operator and the device, and the operator package against the toolkit."""
    from aclnn_bindings.functions import OPERATOR
    from aclnn_bindings.versions import MX_RELEASE, first_release, requirement

    toolkit, ops = cann_version("toolkit"), cann_version("ops")
    if toolkit is None:
        return
    update = f"install toolkit and ops of one such version, then {_SOURCE_IT}"
    if not library_found and is_older(toolkit, first_release(OPERATOR) or toolkit):
        yield Misfit("CANN toolkit", toolkit, f"the operator {requirement(OPERATOR)}", update)
    elif soc and PLATFORMS["ascend950"].has_soc(soc) and is_older(toolkit, MX_RELEASE):
        yield Misfit("CANN toolkit", toolkit, f"{soc} with MX needs CANN {MX_RELEASE} or newer", update)
    if ops is not None and ops != toolkit:
        fits = f"ops and toolkit must be of one version, and the toolkit is {toolkit}"
        yield Misfit("CANN ops", ops, fits, f"install ops {toolkit}, or toolkit {ops}")


def _libraries(attempts: Iterable[object]) -> Iterator[Misfit]:
    """Libraries with older members of the operator's family only."""
    from aclnn_bindings.functions import OPERATOR
    from aclnn_bindings.search import Attempt
    from aclnn_bindings.versions import requirement

    for attempt in attempts:
        if isinstance(attempt, Attempt) and _OLDER.search(attempt.outcome):
            fits = f"{attempt.outcome}; the operator {requirement(OPERATOR)}"
            yield Misfit("operator library", attempt.path, fits, f"install one, then {_SOURCE_IT}")


def _variables(library_found: bool) -> Iterator[Misfit]:
    """Variables that phase 1 needs, where there is a CANN at all."""
    home, packages = os.environ.get("ASCEND_HOME_PATH"), os.environ.get("ASCEND_OPP_PATH")
    if home and not os.path.isdir(home):
        yield Misfit("ASCEND_HOME_PATH", home, "expected the toolkit's folder, got none", _SOURCE_IT)
    if not packages and (home or library_found):
        yield Misfit("ASCEND_OPP_PATH", "not set", "phase 1 ends with 561107 without it", _SOURCE_IT)
    elif packages and not os.path.isdir(packages):
        fits = "expected the operator packages' folder, got none; phase 1 ends with 561107"
        yield Misfit("ASCEND_OPP_PATH", packages, fits, _SOURCE_IT)

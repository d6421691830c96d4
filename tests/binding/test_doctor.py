"""What ``gmmfr doctor`` says of the vendor's libraries that it finds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FakeFactory = Callable[..., Any]
Gmmfr = Callable[..., Any]


@pytest.fixture
def misfits_with(
    compile_fake: FakeFactory, gmmfr: Gmmfr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], dict[str, dict[str, str]]]:
    """Doctor's findings, by what they are about, with a compiled stand-in as the toolkit's library."""

    def find(switch: str) -> dict[str, dict[str, str]]:
        shutil.copytree(compile_fake(switch, name="libopapi_nn.so").path.parent, tmp_path / "lib64")
        info = tmp_path / "x86_64-linux" / "ascend_toolkit_install.info"
        info.parent.mkdir()
        info.write_text("version=8.2.RC1\n")
        monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
        monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path))
        return {row["what"]: row for row in gmmfr("doctor", "--json").json["misfits"]}

    return find


def test_a_library_with_older_operators_alone_is_named(misfits_with: Any, tmp_path: Path) -> None:
    row = misfits_with("-DFAKE_V2_ONLY")["operator library"]
    assert row["found"] == f"{tmp_path}/lib64/libopapi_nn.so"
    assert row["fits"] == (
        "lacks aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize and aclnnGroupedMatmulFinalizeRoutingV3; "
        "found instead: GroupedMatmulFinalizeRoutingV2; the operator needs CANN 8.3.RC1 or newer"
    )


def test_a_library_that_has_the_operator_says_more_than_the_toolkits_version(misfits_with: Any) -> None:
    found = misfits_with('-DFAKE_SOC="Ascend910B3"')
    assert "operator library" not in found
    assert "CANN toolkit" not in found


def test_a_device_that_needs_a_newer_toolkit_is_found_by_its_library(misfits_with: Any) -> None:
    row = misfits_with('-DFAKE_SOC="Ascend950PR_9579"')["CANN toolkit"]
    assert row["fits"] == "Ascend950PR_9579 with MX needs CANN 9.0.0 or newer"

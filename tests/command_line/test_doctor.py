"""``gmmfr doctor``: each version that does not fit is named, with what fits and how to get it."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gmmfr import installed, machine
from gmmfr.requirements import is_older, read_requirement, satisfies

Gmmfr = Callable[..., Any]
Misfits = Callable[[], dict[tuple[str, str], dict[str, str]]]


@pytest.fixture
def misfits(gmmfr: Gmmfr) -> Misfits:
    """The findings of ``gmmfr doctor --json``, by what and found; people read the same."""

    def find() -> dict[tuple[str, str], dict[str, str]]:
        found = gmmfr("doctor", "--json").json["misfits"]
        text = gmmfr("doctor").out
        for row in found:
            assert f"  {row['what']} {row['found']}: {row['fits']}; {row['remedy']}\n" in text
        assert ("nothing, by the rules that have a public source" in text) == (not found)
        return {(row["what"], row["found"]): row for row in found}

    return find


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs the files of a CANN that say its versions, and sets the variables of set_env.sh."""

    def install(version: str, ops: str | None = None) -> Path:
        folder, packages = tmp_path / f"{platform.machine()}-linux", tmp_path / "opp"
        for path in (folder, packages):
            path.mkdir()
        (folder / "ascend_toolkit_install.info").write_text(f"package_name=toolkit\nversion={version}\n")
        if ops:
            (folder / "ascend_ops_install.info").write_text(f"package_name=ops\nversion={ops}\n")
        monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
        monkeypatch.setenv("ASCEND_OPP_PATH", str(packages))
        return tmp_path

    return install


def pretend(folder: Path, package: str, version: str, *requires: str) -> None:
    """Put the metadata of an installed package into ``folder``."""
    info = folder / f"{package}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Requires-Dist: {line}" for line in requires]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", f"Name: {package}", *lines]) + "\n")
    with (info / "METADATA").open("a") as file:
        file.write(f"Version: {version}\n")


def test_a_torch_of_another_version_than_torch_npus_is_named_with_the_one_that_fits(
    misfits: Misfits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, "torch_npu", "2.13.0", "torch==2.13.0.*", "numpy", "pyyaml")
    pretend(tmp_path, "torch", "2.12.0+cpu")
    monkeypatch.syspath_prepend(tmp_path)
    assert misfits()["torch", "2.12.0+cpu"] == {
        "what": "torch",
        "found": "2.12.0+cpu",
        "fits": "torch_npu 2.13.0 requires ==2.13.0.*",
        "remedy": "pip install 'torch==2.13.0.*'",
    }


def test_a_torch_npu_that_this_project_was_not_made_for_is_named(
    misfits: Misfits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, "torch_npu", "2.9.0", "torch==2.9.0.*")
    pretend(tmp_path, "torch", "2.9.0")
    monkeypatch.syspath_prepend(tmp_path)
    found = misfits()
    assert found["torch_npu", "2.9.0"]["fits"] == "the extra npu of gmmfr requires ==2.13.0"
    assert found["torch_npu", "2.9.0"]["remedy"] == "pip install 'torch_npu==2.13.0'"
    assert found["torch", "2.9.0"]["fits"] == "the extra npu of gmmfr requires ==2.13.0"


def test_versions_that_fit_are_no_findings(
    misfits: Misfits, toolkit: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path / "packages", "torch_npu", "2.13.0", "torch==2.13.0.*")
    pretend(tmp_path / "packages", "torch", "2.13.0+cpu")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    toolkit("8.3.RC1", ops="8.3.RC1")
    assert misfits() == {}


def test_a_toolkit_older_than_the_operator_is_named(misfits: Misfits, toolkit: Callable[..., Path]) -> None:
    toolkit("8.2.RC1", ops="8.2.RC1")
    assert list(misfits().values()) == [
        {
            "what": "CANN toolkit",
            "found": "8.2.RC1",
            "fits": "the operator needs CANN 8.3.RC1 or newer",
            "remedy": "install toolkit and ops of one such version, then source the set_env.sh of the "
            "toolkit that is meant",
        }
    ]


def test_on_ascend_950_a_toolkit_without_mx_is_named(
    misfits: Misfits, toolkit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit("8.5.0")
    assert misfits() == {}  # fits Atlas A2 and A3
    monkeypatch.setattr(machine, "device_soc", lambda: "Ascend950PR_9579")
    row = misfits()["CANN toolkit", "8.5.0"]
    assert row["fits"] == "Ascend950PR_9579 with MX needs CANN 9.0.0 or newer"


def test_an_operator_package_of_another_release_than_the_toolkit_is_named(
    misfits: Misfits, toolkit: Callable[..., Path]
) -> None:
    toolkit("9.1.0", ops="9.2.0")
    row = misfits()["CANN ops", "9.2.0"]
    assert row["fits"] == "ops and toolkit must be of one version, and the toolkit is 9.1.0"
    assert row["remedy"] == "install ops 9.1.0, or toolkit 9.2.0"


def test_a_missing_operator_path_is_named_where_there_is_a_toolkit(
    misfits: Misfits, toolkit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = toolkit("9.1.0")
    monkeypatch.delenv("ASCEND_OPP_PATH")
    assert "561107" in misfits()["ASCEND_OPP_PATH", "not set"]["fits"]
    monkeypatch.setenv("ASCEND_OPP_PATH", f"{home}/gone")
    row = misfits()["ASCEND_OPP_PATH", f"{home}/gone"]
    assert row["remedy"] == "source the set_env.sh of the toolkit that is meant"
    monkeypatch.setenv("ASCEND_HOME_PATH", f"{home}/old")
    assert ("ASCEND_HOME_PATH", f"{home}/old") in misfits()


def test_the_vendors_versions_are_listed(
    gmmfr: Gmmfr, toolkit: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit("9.1.0", ops="9.1.0")
    (tmp_path / "version.info").write_text("Version=25.5.1\nascendhal_version=7.35.19\n")
    monkeypatch.setattr(installed, "DRIVER_FILE", tmp_path / "version.info")
    vendor = gmmfr("doctor", "--json").json["vendor"]
    assert vendor == {"driver": "25.5.1", "CANN toolkit": "9.1.0", "CANN ops": "9.1.0", "SoC": None}
    assert "  driver: 25.5.1\n" in gmmfr("doctor").out


@pytest.mark.parametrize(
    ("version", "clauses", "fits"),
    [
        ("2.13.0+cpu", "==2.13.0", True),
        ("2.13.0rc1", "==2.13.0", False),
        ("2.13.1", "==2.13.0.*", False),
        ("2.13.0.post1", "==2.13.0.*", True),
        ("2.7", ">=2.7,<3", True),
        ("3.0.0", ">=2.7,<3", False),
        ("2.10.0", ">=2.9", True),
        ("2.5.0", "~=2.4.1", False),
        ("2.4.3", "~=2.4.1", True),
        ("1.0", "", True),
    ],
)
def test_a_version_is_within_its_clauses(version: str, clauses: str, fits: bool) -> None:
    assert satisfies(version, clauses) is fits


def test_a_requirement_is_read_with_its_extra_and_its_python() -> None:
    read = read_requirement("pypto==0.2.0; python_version < '3.0' and extra == 'pypto'")
    assert (read.package, read.clauses, read.extra, read.applies) == ("pypto", "==0.2.0", "pypto", False)
    assert read_requirement("torch (>=2.7)").clauses == ">=2.7"
    with pytest.raises(ValueError, match="version clause: expected == "):
        satisfies("1.0", "<>1")


def test_candidates_of_a_release_count_as_the_release() -> None:
    assert is_older("8.2.RC1", "8.3.RC1")
    assert not is_older("8.3.RC1.alpha003", "8.3.RC1")
    assert not is_older("9.0.RC1", "9.0.0")
    assert is_older("8.5.0.alpha001", "9.0.0")

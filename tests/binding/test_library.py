"""Finding a library: the order, the report of every attempt, and what is said when something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aclnn_bindings
from aclnn_bindings.headers import LIBRARY_DIRECTORY, SIMULATED_RUNTIME
from aclnn_bindings.search import candidates

FakeFactory = Callable[..., Any]


def test_a_wrong_path_is_named_with_the_loaders_reason(tmp_path: Path) -> None:
    path = tmp_path / "libopapi.so"
    with pytest.raises(aclnn_bindings.LibraryNotFoundError) as caught:
        aclnn_bindings.find_library(path)
    assert str(path) in str(caught.value)
    assert "No such file" in str(caught.value)
    assert "needs CANN 8.3.RC1 or newer" in str(caught.value)
    assert len(caught.value.attempts) == 1


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "libopapi.so"
    path.write_bytes(b"\x7fELF but not really")
    with pytest.raises(aclnn_bindings.LibraryNotFoundError, match=r"libopapi\.so"):
        aclnn_bindings.find_library(path)


def test_a_library_with_only_v2_says_what_it_has_and_what_it_lacks(compile_fake: FakeFactory) -> None:
    fake = compile_fake("-DFAKE_V2_ONLY")
    with pytest.raises(aclnn_bindings.LibraryNotFoundError) as caught:
        aclnn_bindings.find_library(fake.path)
    text = str(caught.value)
    assert (
        "lacks aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize and aclnnGroupedMatmulFinalizeRoutingV3"
        in text
    )
    assert "found instead: GroupedMatmulFinalizeRoutingV2" in text


def test_a_library_without_a_needed_runtime_function_says_which(compile_fake: FakeFactory) -> None:
    fake = compile_fake("-DFAKE_MISSING_STREAMS")
    with pytest.raises(aclnn_bindings.MissingSymbolError) as caught:
        aclnn_bindings.find_library(fake.path)
    assert caught.value.symbol == "aclrtCreateStream"
    assert str(fake.path) in str(caught.value)


def test_a_missing_optional_function_raises_its_name_when_it_is_used(compile_fake: FakeFactory) -> None:
    library = aclnn_bindings.find_library(compile_fake().path)
    assert not library.functions.has("aclrtGetMemInfo")
    with pytest.raises(
        aclnn_bindings.MissingSymbolError, match="lacks aclrtGetMemInfo; it no public source says"
    ) as c:
        library.functions.aclrtGetMemInfo(0, None, None)
    assert c.value.symbol == "aclrtGetMemInfo"


def test_an_unknown_function_name_is_an_attribute_error(compile_fake: FakeFactory) -> None:
    library = aclnn_bindings.find_library(compile_fake().path)
    with pytest.raises(AttributeError, match="aclrtNoSuchThing"):
        library.functions.aclrtNoSuchThing()


def test_the_search_follows_torch_npus_order(tmp_path: Path) -> None:
    home, opp = tmp_path / "home", tmp_path / "opp"
    (home / "lib64").mkdir(parents=True)
    for name in ("libopapi_nn.so", "libopapi_math.so", "libother.so"):
        (home / "lib64" / name).touch()
    (opp / "vendors").mkdir(parents=True)
    (opp / "vendors" / "config.ini").write_text("# written by the installer\nload_priority=first, second\n")
    environment = {
        "ASCEND_CUSTOM_OPP_PATH": "/c1::/c2",
        "ASCEND_OPP_PATH": str(opp),
        "ASCEND_HOME_PATH": str(home),
    }
    assert [path for _, path in candidates(environment)] == [
        "/c1/op_api/lib/libcust_opapi.so",
        "/c2/op_api/lib/libcust_opapi.so",
        f"{opp}/vendors/first/op_api/lib/libcust_opapi.so",
        f"{opp}/vendors/second/op_api/lib/libcust_opapi.so",
        f"{home}/lib64/libopapi_math.so",
        f"{home}/lib64/libopapi_nn.so",
        "libopapi.so",
        "libaclnn_ops_infer.so",
        "libaclnn_ops_train.so",
        "libaclnn_math.so",
        "libaclnn_sparse.so",
        "libaclnn_fft.so",
        "libaclnn_rand.so",
    ]


def custom_package(tmp_path: Path, library: Path) -> Path:
    """A custom operator package with ``library``, and what lies beside it, in it."""
    shutil.copytree(library.parent, tmp_path / "custom" / "op_api" / "lib")
    return tmp_path / "custom"


def test_a_custom_package_comes_before_the_toolkit(
    compile_fake: FakeFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = custom_package(tmp_path, compile_fake(name="libcust_opapi.so").path)
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{tmp_path}/absent:{package}")
    library = aclnn_bindings.find_library()
    assert library.path == f"{package}/op_api/lib/libcust_opapi.so"
    assert library.provider == "vendor"
    assert [attempt.reason for attempt in library.attempts[:2]] == ["ASCEND_CUSTOM_OPP_PATH"] * 2
    assert "No such file" in library.attempts[0].outcome


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_custom_package_of_another_user_is_not_loaded(
    compile_fake: FakeFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = custom_package(tmp_path, compile_fake(name="libcust_opapi.so").path)
    os.chown(package / "op_api" / "lib" / "libcust_opapi.so", 12345, 12345)
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(package))
    with pytest.raises(aclnn_bindings.LibraryNotFoundError, match="skipped: its owner is user 12345"):
        aclnn_bindings.find_library()


def test_a_folder_stands_for_the_operator_libraries_in_it(compile_fake: FakeFactory) -> None:
    fake = compile_fake()
    assert aclnn_bindings.find_library(fake.path.parent).path == str(fake.path)


def run_python(code: str, **environment: str) -> str:
    """Run ``code`` in an interpreter of its own, which may load what it likes; returns what it prints."""
    command = [sys.executable, "-c", code]  # in a folder without packages, which "-c" would put first
    here, variables = Path(__file__).parent, {**os.environ, **environment}
    done = subprocess.run(command, cwd=here, check=True, capture_output=True, text=True, env=variables)
    return done.stdout.strip()


def test_what_a_library_lacks_comes_from_the_loaders_search_path(
    compile_fake: FakeFactory, tmp_path: Path
) -> None:
    alone, support = tmp_path / "libopapi.so", tmp_path / "toolkit" / "libascendcl.so"
    support.parent.mkdir()
    shutil.copy(compile_fake("-DFAKE_MISSING_STREAMS").path, alone)
    shutil.copy(compile_fake().path, support)
    printed = run_python(
        "from aclnn_bindings import find_library\n"
        f"origins = find_library({str(alone)!r}).functions.origins\n"
        "print(origins['aclrtMalloc'], origins['aclrtCreateStream'])",
        LD_LIBRARY_PATH=str(support.parent),
    )
    assert printed.split() == [str(alone), str(support)]


def test_a_stand_in_takes_nothing_from_a_simulator_under_the_vendors_names(compile_fake: FakeFactory) -> None:
    path = str(compile_fake().path)
    printed = run_python(
        "import ctypes; from aclnn_bindings import find_library\n"
        f"simulator = ctypes.CDLL({str(SIMULATED_RUNTIME)!r})\n"
        f"found = find_library({path!r}); print(found.provider, *set(found.functions.origins.values()))"
    )
    assert printed == f"vendor {path}"


def test_the_simulators_folder_is_a_provider_of_the_vendors_names() -> None:
    folder = str(LIBRARY_DIRECTORY)
    printed = run_python(
        f"from aclnn_bindings import find_library, simulator; found = find_library({folder!r});"
        "print(found.provider, found.path, simulator().path)"
    )
    assert printed == f"simulator {folder}/libascendcl.so {folder}/libascendcl.so"


def test_the_simulator_does_not_stand_in_for_the_vendors_runtime() -> None:
    printed = run_python(
        "from aclnn_bindings import simulator; print(simulator().path); import ctypes\n"
        "try: print(hasattr(ctypes.CDLL('libascendcl.so'), 'gmmfrSimThreads'))\n"
        "except OSError: print(False)"
    )
    assert printed.split() == [f"{LIBRARY_DIRECTORY}/libgmmfr_simulator.so", "False"]


def test_the_simulator_answers_as_the_soc_it_was_asked_for() -> None:
    assert aclnn_bindings.simulator("Ascend910B2").platform.name == "atlas_a2"
    assert aclnn_bindings.simulator("Ascend910_9391").platform.name == "atlas_a3"
    assert aclnn_bindings.simulator("Ascend950PR_9579").platform.name == "ascend950"
    assert aclnn_bindings.simulator("Ascend910B2").soc == "Ascend910B2"


def test_an_unknown_soc_lists_the_known_ones() -> None:
    with pytest.raises(
        aclnn_bindings.BindingError, match=r"soc: 'Ascend310' is unknown.*Ascend910B2.*Ascend950PR_9579"
    ):
        aclnn_bindings.simulator("Ascend310")


def test_a_soc_without_a_kernel_is_named(compile_fake: FakeFactory) -> None:
    library = aclnn_bindings.find_library(compile_fake('-DFAKE_SOC="Ascend310P3"').path)
    with pytest.raises(
        aclnn_bindings.BindingError, match="SoC Ascend310P3: the operator runs on Atlas A2, Atlas A3"
    ):
        _ = library.platform


def test_two_libraries_live_side_by_side_in_one_process(compile_fake: FakeFactory) -> None:
    fake = aclnn_bindings.find_library(compile_fake('-DFAKE_SOC="Ascend910B3"').path)
    simulated = aclnn_bindings.simulator("Ascend950PR_9579")
    assert (fake.soc, simulated.soc, fake.soc) == ("Ascend910B3", "Ascend950PR_9579", "Ascend910B3")
    assert fake.functions.origins["aclrtMalloc"] != simulated.functions.origins["aclrtMalloc"]

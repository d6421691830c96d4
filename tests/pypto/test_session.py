"""The child process: one compile after another, errors with their cause, crashes, timeouts, a clean end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pypto_impl import KernelCrashError, KernelError, KernelTimeoutError, Session, TilingError, run
from pypto_impl.call import KernelArgument, KernelCall
from pypto_impl.failures import shorten
from pypto_impl.interpreter import Counters, Interpreter, InterpreterError
from pypto_impl.kernel_run import prepare
from pypto_impl.session import end_process
from pypto_impl.tiling import Tiles
from pypto_impl.toolchain import EXTENSION_SOURCE
from reference.operands import Operands

Maker = Callable[..., Operands]
needs_pypto = pytest.mark.usefixtures("interpreter")


@pytest.fixture
def session(interpreter: None) -> Iterator[Session]:
    """A session of its own."""
    with Session("DAV_3510") as opened:
        yield opened


def with_argument(call: KernelCall, name: str, array: np.ndarray) -> KernelCall:
    """The call with one array exchanged."""
    arguments = (
        KernelArgument(name, array, entry.dtype) if entry.name == name else entry for entry in call.arguments
    )
    return KernelCall(call.spec, tuple(arguments))


def test_illegal_tiles_are_refused_before_anything_starts(
    make_mx: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setattr("pypto_impl.kernel_run.availability", lambda platform: None)
    with pytest.raises(TilingError, match="cube_k L0 96 must be a multiple of 64"):
        run(make_mx([2]), on="interpreter", tiles={"cube_k": (96, 96)})


def test_the_compiler_finds_what_the_tile_check_is_not_asked(session: Session, make_mx: Maker) -> None:
    """A tile that overflows the unified buffer: the message carries the cause from PyPTO's own log."""
    call = prepare(make_mx([64], n=1024))
    huge = replace(call.spec.tiles, vector=(64, 1024), rows=64, cube_m=(64, 64))
    with pytest.raises(KernelError) as caught:
        session.run(KernelCall(replace(call.spec, tiles=huge), call.arguments))
    message = str(caught.value)
    assert caught.value.stage == "compiling"
    assert "while compiling; arguments: x1 float8_e4m3fn [64, 64], x2 float8_e4m3fn [64, 1024]" in message
    assert "exceeds" in message
    assert "[253952]" in message


def test_the_next_call_gets_a_new_process(session: Session, make_mx: Maker) -> None:
    call = prepare(make_mx([64], n=1024, integers=True))
    huge = replace(call.spec.tiles, vector=(64, 1024), rows=64, cube_m=(64, 64))
    right = session.run(call).out
    with pytest.raises(KernelError):
        session.run(KernelCall(replace(call.spec, tiles=huge), call.arguments))
    assert session.pid is None
    np.testing.assert_array_equal(session.run(call).out, right)
    assert session.starts == 2


def test_a_row_index_outside_out_is_an_error_of_the_interpreter(session: Session, make_mx: Maker) -> None:
    call = with_argument(prepare(make_mx([2], batch=4)), "row_index", np.array([0, 9]))
    with pytest.raises(KernelError, match="while interpreting") as caught:
        session.run(call)
    assert ".so(" not in str(caught.value)


def test_a_crash_is_an_exception_with_signal_stage_and_shapes(session: Session, make_mx: Maker) -> None:
    session.start()
    child = session.pid
    assert child is not None
    os.kill(child, signal.SIGSTOP)

    def crash() -> None:
        os.kill(child, signal.SIGABRT)
        os.kill(child, signal.SIGCONT)

    threading.Timer(0.5, crash).start()
    with pytest.raises(
        KernelCrashError, match=r"DAV_3510\) died by SIGABRT, while .*x1 float8_e4m3fn \[2, 64\]"
    ):
        session.run(prepare(make_mx([2])))
    assert session.run(prepare(make_mx([2]))).out.shape == (4, 32)


def test_a_child_that_died_between_calls_is_replaced(session: Session, make_mx: Maker) -> None:
    session.start()
    child = session.pid
    assert child is not None
    os.kill(child, signal.SIGKILL)
    while session._process is not None and session._process.poll() is None:
        time.sleep(0.01)
    assert session.run(prepare(make_mx([2]))).out.shape == (4, 32)
    assert session.starts == 2


def test_a_product_without_its_scales_is_an_error(make_mx: Maker) -> None:
    """Three tiles of rows need three products by the extension; fewer mean that PyPTO went another way."""
    interpreter = object.__new__(Interpreter)
    interpreter.counters = Counters()
    call = prepare(make_mx([20, 0, 16]))
    interpreter._count_products(call, 3)
    with pytest.raises(
        InterpreterError, match="2 scaled products were computed with their scales, expected 3"
    ):
        interpreter._count_products(call, 2)


def test_a_call_that_takes_too_long_is_stopped(session: Session, make_mx: Maker) -> None:
    session.start()
    child = session.pid
    assert child is not None
    os.kill(child, signal.SIGSTOP)
    begin = time.monotonic()
    with pytest.raises(KernelTimeoutError, match="timed out and was stopped"):
        session.run(prepare(make_mx([2])), timeout=0.5)
    assert time.monotonic() - begin < 30
    assert not Path(f"/proc/{child}").exists()


def test_closing_ends_the_child_and_removes_its_folder(session: Session, make_mx: Maker) -> None:
    session.run(prepare(make_mx([2])))
    child, folder = session.pid, session._folder
    assert folder is not None
    assert folder.exists()
    session.close()
    session.close()
    assert not Path(f"/proc/{child}").exists()
    assert not folder.exists()


@needs_pypto
def test_the_end_of_the_program_ends_the_child(tmp_path: Path) -> None:
    code = (
        "from pypto_impl.session import session\n"
        "opened = session('DAV_2201'); opened.start(); print(opened.pid, opened._folder)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    child, folder = done.stdout.split()
    assert not Path(f"/proc/{child}").exists()
    assert not Path(folder).exists()


@needs_pypto
def test_nothing_is_written_outside_the_cache(
    make_mx: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("GMMFR_CACHE", str(Path(os.environ.get("GMMFR_CACHE", "~/.cache/gmmfr")).expanduser()))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    with Session("DAV_3510") as opened:
        opened.run(prepare(make_mx([2])))
    assert not list((tmp_path / "home").iterdir())
    assert not list((tmp_path / "work").iterdir())


@needs_pypto
def test_the_extension_compiles_without_a_warning() -> None:
    from pypto_impl.interpreter import installed_package

    sources = installed_package() / "lib" / "calculator"
    command = [
        "g++",
        "-std=c++17",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-D_GLIBCXX_USE_CXX11_ABI=0",
    ]
    command += ["-isystem", str(sources / "src"), "-isystem", str(sources / "include"), str(EXTENSION_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_busy_child_is_killed() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.PIPE)
    end_process(child)
    assert child.returncode == -signal.SIGKILL


def test_native_backtraces_are_cut_from_messages() -> None:
    text = (
        "Errcode: F3!\nlibtile_fwk.so(npu::x()+0x1) [0x7f15899e56b5]\npython(_start+0x21) [0x55]\nthe cause"
    )
    assert shorten(text) == "Errcode: F3!\nthe cause"


def test_tiles_can_be_chosen_by_the_caller(interpreter: None, make_mx: Maker) -> None:
    operands = make_mx([20, 12], integers=True)
    chosen = run(operands, on="interpreter")
    tiles = Tiles(rows=32, cube_m=(16, 32), cube_k=(64, 64), cube_n=(32, 32), vector=(8, 32))
    result = run(operands, on="interpreter", tiles=tiles)
    assert result.tiles == tiles
    np.testing.assert_array_equal(result.out, chosen.out)

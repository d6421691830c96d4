"""The pytest plugin: cases and backends as fixtures, and what did not run in the summary.

    def test_my_kernel(gmmfr_case):
        call = gmmfr_case("c8")
        assert_matches_golden(my_kernel(call), call)

    @pytest.mark.gmmfr_cases("w0", "c8")
    def test_backend(gmmfr_operands, gmmfr_backend):
        assert_matches_golden(gmmfr_backend(gmmfr_operands), gmmfr_operands)

``--gmmfr-backend NAME`` (more than once for several) says what ``gmmfr_backend`` runs: a backend's name or
``file.py:function``; without it, ``auto``.  What cannot run is skipped with its reason; where a backend that
was asked for ran in no test, the session fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reference.operands import Operands

#: What ``gmmfr_operands`` runs through without a ``gmmfr_cases`` marker: small, of every path.
DEFAULT_CASES = ("w0", "w1", "m0", "c2", "c4", "c8", "c10", "c12", "c15", "c18_w4a8", "c18_mxfp8")


class _Record:
    """What ran, and what did not, with the reasons and the number of tests."""

    def __init__(self) -> None:
        self.ran: set[str] = set()
        self.not_run: dict[tuple[str, str], int] = {}

    def skip(self, name: str, reason: str) -> None:
        """Count a reason and skip the test."""
        self.not_run[name, reason] = self.not_run.get((name, reason), 0) + 1
        pytest.skip(f"NOT RUN: {name}: {reason}")


_RECORD = pytest.StashKey[_Record]()


class BackendRunner:
    """Runs calls on one backend: ``runner(operands)`` returns the output."""

    def __init__(self, name: str, record: _Record) -> None:
        self.name = name
        self._record = record

    def __call__(self, operands: Operands) -> Any:
        """The output (batch, n) float32; skips the test where the backend cannot run the call."""
        from gmmfr.running import run

        result = run(operands, self.name)
        if result.failed:
            pytest.fail(f"{result.backend}: {result.reason}")
        if not result.ran:
            self._record.skip(result.backend, result.reason or "")
        self._record.ran.add(self.name)
        return result.out

    def __repr__(self) -> str:
        return self.name


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--gmmfr-backend``."""
    group = parser.getgroup("gmmfr")
    group.addoption(
        "--gmmfr-backend",
        action="append",
        default=None,
        metavar="NAME",
        help="backend of the fixture gmmfr_backend: auto, simulator, aclnn, pypto, torch_npu, golden or "
        "file.py:function; more than once for several (default: auto)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.stash[_RECORD] = _Record()
    config.addinivalue_line("markers", "npu: needs an Ascend device and CANN")
    config.addinivalue_line("markers", "gmmfr_cases(*names): the cases of the fixture gmmfr_operands")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with ``gmmfr_backend`` on each backend asked for, with ``gmmfr_operands`` on each case."""
    if "gmmfr_backend" in metafunc.fixturenames:
        names = metafunc.config.getoption("--gmmfr-backend") or ["auto"]
        metafunc.parametrize("gmmfr_backend", names, indirect=True, scope="session")
    if "gmmfr_operands" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("gmmfr_cases")
        cases = marker.args if marker is not None else DEFAULT_CASES
        metafunc.parametrize("gmmfr_operands", cases, indirect=True, scope="session")


@pytest.fixture(scope="session")
def gmmfr_case() -> Callable[..., Operands]:
    """``gmmfr_case(name, seed=0)``: the operands of a named case or of a bundle."""
    from gmmfr.loading import load_call

    return load_call


@pytest.fixture(scope="session")
def gmmfr_operands(request: pytest.FixtureRequest) -> Operands:
    """The operands of one case: see the marker ``gmmfr_cases``."""
    from gmmfr.loading import load_call

    return load_call(request.param)


@pytest.fixture(scope="session")
def gmmfr_backend(request: pytest.FixtureRequest) -> BackendRunner:
    """One backend, to be called with operands: see ``--gmmfr-backend``."""
    return BackendRunner(request.param, request.config.stash[_RECORD])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked ``npu`` where no device answers."""
    if item.get_closest_marker("npu") is not None:
        reason = _device_refusal()
        if reason is not None:
            item.config.stash[_RECORD].skip("npu", reason)


def _device_refusal() -> str | None:
    """Why no device of any platform answers; None where one does."""
    from gmmfr.backends import AclnnBackend
    from reference.cases import make_case

    reasons = [AclnnBackend().refusal(make_case(name).problem) for name in ("w0", "c3", "m0")]
    return None if None in reasons else reasons[0]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List what did not run, and why."""
    record = config.stash[_RECORD]
    if not record.not_run:
        return
    terminalreporter.section("gmmfr: NOT RUN")
    for (name, reason), count in sorted(record.not_run.items()):
        terminalreporter.write_line(f"{name} ({count} test{'s' if count > 1 else ''}): {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session in which a backend that was asked for ran in no test."""
    record = session.config.stash[_RECORD]
    asked = session.config.getoption("--gmmfr-backend") or []
    if record.not_run and set(asked) - record.ran and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

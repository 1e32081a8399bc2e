"""What all tests share: a root, a clock that stands still, a guarded home, and the --soak switch."""

from __future__ import annotations

import os
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import hypothesis
import pytest

import deermem
from deermem.testing import FakeClock

CHECKOUT = Path(__file__).resolve().parent.parent

hypothesis.settings.register_profile(
    "default", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=60
)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=500, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="also run the long crash, kill and concurrency tests")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("soak" if config.getoption("--soak") else "default")
    package = Path(deermem.__file__).resolve()
    if os.environ.get("DEERMEM_TEST_INSTALLED") and package.is_relative_to(CHECKOUT / "deermem"):
        raise pytest.UsageError(f"the installed package was to be tested, but {package} was imported")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--soak"):
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="a soak test; switched on with --soak"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A log line may name a file whose name is no UTF-8, which no worker can send to the process that reports."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = len(terminalreporter.stats.get("passed", []))
    terminalreporter.write_line(f"{passed} passed, testing {Path(deermem.__file__).resolve().parent}")


@pytest.fixture(autouse=True)
def guarded_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of the test's own, so that a default root never is the real one."""
    home = tmp_path_factory.mktemp("home")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("DEERMEM_DATA_DIR", str(home / "data"))
    # Else tokens would be counted by what a machine happens to hold, from the moment at which it is loaded.
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(home / "tiktoken"))
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root folder that does not exist yet."""
    return tmp_path / "store"


@pytest.fixture
def clock() -> FakeClock:
    """Noon of a Monday."""
    return FakeClock(datetime(2026, 11, 30, 12, 0, tzinfo=UTC))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Fixtures and measuring data kept outside: $DEERMEM_SHARED, else `shared` beside the checkout."""
    folder = Path(os.environ.get("DEERMEM_SHARED") or CHECKOUT.parent / "shared")
    if not (folder / "fixtures").is_dir():
        pytest.skip(f"no shared fixtures at {folder}; name their folder with DEERMEM_SHARED")
    return folder

"""A real broker, a real console in a process of its own, a real browser.

Each module has a shop of its own, because tests of one buy and give back what others count.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from rocketq.testing import LocalBroker
from tests.cli.programs import Server, serving
from tests.console.browser import ARTIFACTS, Browser, chromium, missing
from tests.console.sample import Shop, shop
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


@pytest.fixture(scope="module")
def filled(broker: LocalBroker) -> Iterator[Shop]:
    with shop(broker.namesrv) as goods:
        yield goods


@pytest.fixture(scope="module")
def console_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console") / "console.log"


@pytest.fixture(scope="module")
def console(broker: LocalBroker, filled: Shop, console_log: Path) -> Iterator[Server]:
    log = ("--log-file", str(console_log))
    with serving("console", "-n", broker.namesrv, "--port", "0", *log) as running:
        yield running


@pytest.fixture(scope="module")
def url(console: Server) -> str:
    return console.facts["console"]


@pytest.fixture(scope="session")
def _chromium() -> Iterator[Browser]:
    lacking = missing()
    if lacking is not None:
        pytest.skip(lacking)
    with chromium() as running:
        yield running


@pytest.fixture
def browser(_chromium: Browser) -> Iterator[Browser]:
    """The one browser, as it was before; what it complained about fails the test."""
    _chromium.driver.delete_all_cookies()
    _chromium.problems()
    yield _chromium
    assert _chromium.problems() == []
    _chromium.driver.get("about:blank")  # or it would miss its console when that has stopped


@pytest.fixture
def audited(console_log: Path) -> Callable[[str], None]:
    """Waits until a change is in the audit log, and fails when it is there twice."""

    def wait_for(change: str) -> None:
        def count() -> int:
            lines = console_log.read_text().splitlines()
            return sum("rocketq.audit: console: " + change in line for line in lines)

        wait_until(lambda: count() > 0, f"{change} in the audit log")
        assert count() == 1

    return wait_for


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A picture of what a test saw when it failed."""
    report = yield
    browser = getattr(item, "funcargs", {}).get("browser")
    if report.when == "call" and report.failed and isinstance(browser, Browser):
        browser.picture(ARTIFACTS / f"failed-{item.name.partition('[')[0]}.png")
    return report

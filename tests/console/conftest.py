"""A real broker, a real console in a process of its own, a real browser."""

from collections.abc import Generator, Iterator

import pytest

from rocketq.testing import LocalBroker
from tests.cli.programs import Server, serving
from tests.console.browser import ARTIFACTS, Browser, chromium, missing
from tests.console.sample import Shop, shop


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


@pytest.fixture(scope="session")
def filled(broker: LocalBroker) -> Iterator[Shop]:
    with shop(broker.namesrv) as goods:
        yield goods


@pytest.fixture(scope="session")
def console(broker: LocalBroker, filled: Shop) -> Iterator[Server]:
    with serving("console", "-n", broker.namesrv, "--port", "0") as running:
        yield running


@pytest.fixture(scope="session")
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

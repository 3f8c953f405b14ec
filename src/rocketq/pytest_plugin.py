"""The pytest fixture `rocketq_broker`, registered by the package's entry point.

It is light until the fixture is used. How long one broker lives is an ini option, for suites
that would rather share it: `rocketq_broker_scope = session`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rocketq.testing import LocalBroker


def pytest_addoption(parser: pytest.Parser) -> None:
    """Called by pytest."""
    parser.addini(
        "rocketq_broker_scope",
        "how long one rocketq_broker lives: function, class, module, package or session",
        default="function",
    )


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getini("rocketq_broker_scope")


@pytest.fixture(scope=_scope)
def rocketq_broker() -> Iterator[LocalBroker]:
    """A real NameServer and broker in this process: see `rocketq.testing`."""
    from rocketq.testing import LocalBroker

    with LocalBroker() as broker:
        yield broker

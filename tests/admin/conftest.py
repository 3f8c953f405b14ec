"""A real broker for the whole package, and topics and groups nobody else uses."""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count

import pytest

from rocketq.admin import connected
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.testing import LocalBroker


@pytest.fixture(scope="package")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
async def api(broker: LocalBroker) -> AsyncIterator[BrokerApi]:
    async with connected(broker.namesrv) as api:
        yield api


_numbers = count(1)


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Names that no other test has."""
    return lambda kind: f"{kind}-{next(_numbers)}"

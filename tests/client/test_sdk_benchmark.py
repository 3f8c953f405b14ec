"""The SDK's benchmark, run small so that it cannot rot."""

import pytest
from benchmarks import sdk

from rocketq.testing import LocalBroker


@pytest.mark.parametrize("name", sorted(sdk.LOADS))
async def test_a_load_runs(name: str, local_broker: LocalBroker) -> None:
    result = await sdk.measured(name, local_broker.namesrv, local_broker.new_name(), 2000)
    assert result["errors"] == 0
    assert result["count"] >= 1900
    assert result["tps"] > 0
    assert set(sdk.JAVA) == set(sdk.LOADS) == set(sdk.GOALS)

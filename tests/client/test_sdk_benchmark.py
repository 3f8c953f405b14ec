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


def test_the_page_says_what_share_of_javas_cpu_it_takes() -> None:
    def line(client: str, cost: float, tps: float) -> dict[str, object]:
        figures = {"client_cpu_s_per_million": cost, "tps": tps}
        return {"broker": "rocketq", "client": client, "load": "consume", **figures}

    costs = [line("Java", 8, 1e5), line("rocketq", 2, 6e5), line("rocketq", 4, 5e5)]
    page = sdk.page(costs, 1_000, 2)
    assert "| Java | 100,000 (100,000-100,000) | 8.00 (8.00-8.00) |  |" in page
    assert "| 550,000 (500,000-600,000) | 3.00 (2.00-4.00) | 0.38 (goal 0.5: reached) |" in page

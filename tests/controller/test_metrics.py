"""A controller's figures and health, as Prometheus reads them."""

import asyncio
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.controller.wire_broker import running_controller, wire_brokers


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return str(response.read().decode())


async def test_figures_and_health(tmp_path: Path) -> None:
    async with (
        running_controller(
            tmp_path, metrics_exporter_type="PROM", metrics_prom_exporter_port=0
        ) as controller,
        wire_brokers(controller.address, 2) as (first, second),
    ):
        await first.join()
        await first.become_master()
        await second.join()
        text = await asyncio.to_thread(fetch, controller.metrics_url)
        found = {
            (sample.name, sample.labels.get("broker_set", "")): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert found["role", ""] == 3
        assert found["active_broker_num", "broker-a"] == 2
        assert found["election_total", "broker-a"] == 1
        assert found["rocketq_controller_broker_sets", ""] == 1
        assert found["rocketq_controller_broker_sets_without_master", ""] == 0
        requests = {
            (sample.labels["request_type"], sample.labels["request_handle_status"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "request_total"
        }
        assert requests["controller_elect_master", "success"] == 1
        assert 'request_latency_microseconds_count{node_type="controller",group=' in text
        assert f'address="{controller.address}"' in text

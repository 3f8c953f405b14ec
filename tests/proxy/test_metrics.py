"""What a proxy says of itself: figures and health, in a broker's process and before it."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rocketq.proxy.protocol import messages as pb
from tests.cli.programs import serving
from tests.cli.servers.test_metrics_port import page
from tests.http_pages import Page, ask
from tests.proxy.harness import BEFORE, HERE, place
from tests.waiting import eventually, wait_until

ON: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}


def samples(answer: Page) -> dict[tuple[str, str, str], Any]:
    """By name, RPC and result."""
    return {
        (each.name, each.labels.get("rpc", ""), each.labels.get("result", "")): each
        for family in text_string_to_metric_families(answer.body.decode())
        for each in family.samples
    }


@pytest.mark.parametrize(("mode", "named"), [(HERE, "local"), (BEFORE, "cluster")])
async def test_calls_clients_and_connections_are_counted(
    tmp_path: Path, mode: str, named: str
) -> None:
    async with place(tmp_path, mode, proxy=ON, **ON) as at:
        await at.create_topic("t")
        client = at.client()
        introduced = await client.introduce(client.producer_settings("t"))
        assert (await client.send("t")).status.code == pb.OK
        request = pb.QueryRouteRequest(topic=pb.Resource(name="no"), endpoints=client.endpoints)
        await client.call("QueryRoute", request)
        assert introduced is not None

        found = samples(await ask(at.server.metrics_url))
        assert found["rocketmq_proxy_up", "", ""].value == 1
        assert found["rocketmq_proxy_up", "", ""].labels["proxy_mode"] == named
        assert found["rocketmq_proxy_up", "", ""].labels["node_type"] == "proxy"
        assert found["rocketq_proxy_clients", "", ""].value == 1
        assert found["rocketq_proxy_connections", "", ""].value == 1
        assert found["rocketq_proxy_call_milliseconds_count", "SendMessage", "OK"].value == 1
        assert found["rocketq_proxy_call_milliseconds_count", "QueryRoute", "REFUSED"].value == 1
        # One page for all that is in the process.
        assert (("rocketmq_broker_permission", "", "") in found) == (mode == HERE)


async def test_a_proxy_that_reaches_no_name_server_is_not_ready(tmp_path: Path) -> None:
    async with place(tmp_path, BEFORE, proxy=ON) as at:
        url = at.server.metrics_url

        async def status(path: str) -> int:
            return (await ask(url, path)).status

        assert await status("/readyz") == 200
        assert at.names is not None
        await at.names.stop()
        await eventually(lambda: _is(status("/readyz"), 503))
        assert await status("/livez") == 200


async def _is(asked: Awaitable[int], wanted: int) -> bool:
    return await asked == wanted


def test_the_command_says_where_its_figures_are(tmp_path: Path) -> None:
    names = ("namesrv", "--host", "127.0.0.1", "--port", "0")
    kept = ("--set", f"kvConfigPath={tmp_path}/kv.json")
    with serving(*names, *kept) as namesrv:
        words = ("proxy", "-n", namesrv.facts["namesrv"], "--host", "127.0.0.1")
        with serving(*words, "--grpc-port", "0", "--metrics-port", "0") as proxy:
            url = proxy.facts["metrics"]
            wait_until(lambda: page(url, "/readyz")[0] == 503, "no broker is there")
            assert "no broker is registered" in page(url, "/readyz")[1]
            assert page(url, "/livez")[0] == 200
            assert 'rocketmq_proxy_up{cluster="DefaultCluster"' in page(url)[1]
            assert proxy.stop() == 0

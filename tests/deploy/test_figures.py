"""Every figure that the dashboard and the alerts name is exported, with the labels they use."""

import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from rocketq.broker.metrics import families
from rocketq.common.metrics import monitoring
from rocketq.common.metrics.family import Kind
from rocketq.controller import metrics as controller_metrics
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.namesrv import metrics as namesrv
from rocketq.proxy import metrics as proxy_metrics
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.server import GrpcServer
from rocketq.remoting import Command
from rocketq.remoting.headers import ConsumerSendMsgBack, UpdateConsumerOffset
from rocketq.store.config import BrokerRole
from tests.broker.replication import pairs
from tests.controller.wire_broker import running_controller, wire_brokers
from tests.http_pages import ask
from tests.waiting import eventually

DEPLOY = Path(__file__).parents[2] / "deploy"
ON: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
DECLARED = {
    family.name: family
    for family in (
        *families.FAMILIES,
        *monitoring.FAMILIES,
        *namesrv.FAMILIES,
        *proxy_metrics.FAMILIES,
        *controller_metrics.FAMILIES,
    )
}
# Set by Prometheus itself, or by whoever names the target.
BY_PROMETHEUS = {"instance", "job", "le"}
OF_EVERY_BROKER = {"cluster", "node_id", "node_type"}

_WORDS = {
    *("sum", "rate", "topk", "max", "min", "by", "on", "and", "histogram_quantile", "increase"),
    *("label_values", "up"),
}


def expressions() -> Iterator[tuple[str, str, str]]:
    """Where, the expression, and the text beside it that uses its labels."""
    dashboard = json.loads((DEPLOY / "grafana" / "rocketq.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"], ""
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"], rule["annotations"]["summary"]


ALL = list(expressions())


def names_in(expression: str) -> set[str]:
    found = set(re.findall(r"\b((?:rocketq|rocketmq|process)_\w+)", expression))
    return {name for name in found if name not in _WORDS}


def family_of(name: str) -> str:
    """A histogram's series have endings."""
    for ending in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(ending)
        if base != name and base in DECLARED and DECLARED[base].kind is Kind.HISTOGRAM:
            return base
    return name


@pytest.mark.parametrize(
    ("where", "expression", "text"), [pytest.param(*each, id=each[0]) for each in ALL]
)
def test_names_and_labels_are_declared(where: str, expression: str, text: str) -> None:
    names = names_in(expression)
    labels: set[str] = set(BY_PROMETHEUS)
    for name in names:
        family = DECLARED[family_of(name)]
        labels |= {*family.labels}
        if family in families.FAMILIES:
            labels |= OF_EVERY_BROKER
        # Labels that are chosen by must be those of this very family.
        for chosen in re.findall(rf"{name}\{{([^}}]*)\}}", expression):
            used = set(re.findall(r"(\w+)\s*=~?", chosen))
            assert used <= {*family.labels, *OF_EVERY_BROKER}, where
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    used = {label.strip() for group in grouped for label in group.split(",")}
    used |= set(re.findall(r"\{\{ ?\$?(?:labels\.)?(\w+)", text)) - {"value"}
    assert used <= labels, where
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


def test_alerts_have_what_alerts_have() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    found = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in found}) == len(found) >= 12
    for rule in found:
        assert re.fullmatch(r"\d+[smh]", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")


def selectors(expression: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The series an expression asks for: a name, and expressions for the values of labels."""
    for name, chosen in re.findall(
        r"\b((?:rocketq|rocketmq|process)_\w+|role|active_broker_num)(?:\{([^}]*)\})?", expression
    ):
        if chosen is None or name in _WORDS:
            continue
        matchers = re.findall(r'(\w+)\s*=(~?)\s*"([^"]*)"', chosen)
        yield (
            name,
            {
                # A variable of the dashboard stands for any of its values.
                label: ".*" if value.startswith("$") else value if fits else re.escape(value)
                for label, fits, value in matchers
            },
        )


def without_data(samples: list[Sample]) -> list[str]:
    """The expressions whose series nobody exports."""

    def is_there(name: str, wanted: dict[str, str]) -> bool:
        return any(
            sample.name == name
            and all(re.fullmatch(text, sample.labels.get(at, "")) for at, text in wanted.items())
            for sample in samples
        )

    return [
        f"{where}: {name}{wanted}"
        for where, expression, _ in ALL
        for name, wanted in selectors(expression.replace("label_values(", "("))
        if not is_there(name, wanted)
    ]


async def test_every_query_finds_data_in_a_live_cluster(tmp_path: Path) -> None:
    config = NamesrvConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=str(tmp_path / "kv.json"),
        config_store_path=str(tmp_path / "namesrv.properties"),
        metrics_exporter_type="PROM",
        metrics_prom_exporter_port=0,
    )
    name_server = NameServer(config)
    await name_server.start()
    try:
        async with (
            AsyncExitStack() as stack,
            pairs.broker(
                tmp_path / "a", name_server.address, broker_role=BrokerRole.ASYNC_MASTER, **ON
            ) as master,
            pairs.broker(tmp_path / "b", name_server.address, slave_id=1, **ON) as slave,
        ):
            sent = await master.send("orders")
            await master.heartbeat(group="group", topic="orders", producer_group="shop")
            await master.pull("orders")
            commit = UpdateConsumerOffset(
                consumer_group="group", topic="orders", queue_id=0, commit_offset=0
            )
            await master.call(Command.request(commit))
            await master.send("later", properties={"UNIQ_KEY": "A", "TIMER_DELAY_SEC": "600"})
            await master.send("later", properties={"UNIQ_KEY": "B", "DELAY": "18"})
            fields = sent.ext_fields
            assert fields is not None
            for level in (3, -1):  # again later, and never again
                back = ConsumerSendMsgBack(
                    offset=int(fields["msgId"][16:], 16),
                    group="group",
                    delay_level=level,
                    origin_msg_id="x",
                    origin_topic="orders",
                    unit_mode=False,
                    max_reconsume_times=16,
                )
                assert (await master.call(Command.request(back))).code == 0
            proxy = GrpcServer(
                ProxyConfig(
                    grpc_server_port=0,
                    bind_address="127.0.0.1",
                    namesrv_addr=name_server.address,
                    **ON,
                )
            )
            controller = await stack.enter_async_context(running_controller(tmp_path / "c", **ON))
            (joined,) = await stack.enter_async_context(wire_brokers(controller.address, 1))
            await joined.join()
            await stack.enter_async_context(proxy.serving())
            urls = [
                name_server.metrics_url,
                master.broker.metrics_url,
                slave.broker.metrics_url,
                proxy.metrics_url,
                controller.metrics_url,
            ]

            async def missing() -> list[str]:
                samples: list[Sample] = []
                for url in urls:
                    text = (await ask(url)).body.decode()
                    for family in text_string_to_metric_families(text):
                        samples += family.samples
                return without_data(samples)

            async def is_complete() -> bool:
                return not await missing()

            try:
                await eventually(is_complete)
            except AssertionError:
                raise AssertionError(f"without data: {await missing()}") from None
    finally:
        await name_server.stop()

"""What a real broker says about itself, as Prometheus and whoever watches health see it."""

import asyncio
import errno
import gc
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from rocketq.broker.metrics import families
from rocketq.common.config import ConfigError
from rocketq.common.metrics import monitoring
from rocketq.common.metrics.family import Kind
from rocketq.common.metrics.monitoring import Monitoring
from rocketq.common.metrics.text import TextWriter
from rocketq.remoting import Command, RequestCode
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.headers import CreateTopic, EndTransaction, UpdateConsumerOffset
from rocketq.store.config import BrokerRole, FlushDiskType
from tests.broker.harness import TestBroker, running_broker
from tests.broker.pop.test_pop import pop_request
from tests.broker.replication import pairs
from tests.http_pages import ask
from tests.store.disks import FaultyDisk
from tests.waiting import eventually

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics-5.5.0.json"
ON: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}


async def figures(broker: TestBroker) -> dict[str, Metric]:
    """Read by the parser of Prometheus' own client, which refuses what it could not read."""
    page = await ask(broker.broker.metrics_url)
    assert page.status == 200
    found = {}
    for family in text_string_to_metric_families(page.body.decode()):
        assert family.name not in found, "a family must be written in one piece"
        series = [(each.name, tuple(sorted(each.labels.items()))) for each in family.samples]
        assert len(series) == len(set(series)), f"{family.name}: a series stands twice"
        assert family.documentation
        found[family.name] = family
    return found


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    """That of the one series with these labels."""
    family = found[name.removesuffix("_total").removesuffix("_count")]
    (sample,) = [
        each
        for each in family.samples
        if each.name == name and labels.items() <= each.labels.items()
    ]
    return float(sample.value)


async def until(broker: TestBroker, holds: Callable[[dict[str, Metric]], bool]) -> None:
    async def look() -> bool:
        return holds(await figures(broker))

    await eventually(look)


async def commit(broker: TestBroker, group: str, topic: str, offset: int) -> None:
    header = UpdateConsumerOffset(
        consumer_group=group, topic=topic, queue_id=0, commit_offset=offset
    )
    await broker.call(Command.request(header))


# --- figures ------------------------------------------------------------------------------


async def test_messages_and_lag(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        for _ in range(10):
            await broker.send("orders", b"x" * 100)
        await broker.heartbeat(group="billing", topic="orders", producer_group="shop")
        reply = await broker.pull("orders", consumer_group="billing", max_msg_nums=4)
        assert reply.code == 0
        await commit(broker, "billing", "orders", 3)
        # What is sent is told to the statistics a few times a second.
        await until(
            broker,
            lambda now: (
                "rocketmq_messages_in" in now
                and value(now, "rocketmq_messages_in_total", topic="orders") == 10
            ),
        )
        found = await figures(broker)
        labels = {"cluster": "TestCluster", "node_id": "broker-t", "node_type": "broker"}
        orders = {**labels, "topic": "orders", "is_system": "false"}
        billing = {**orders, "consumer_group": "billing", "is_retry": "false"}
        assert value(found, "rocketmq_messages_in_total", **orders, message_type="normal") == 10
        assert value(found, "rocketmq_throughput_in_total", **orders) > 1000
        assert value(found, "rocketmq_messages_out_total", **billing) == 4
        assert value(found, "rocketmq_consumer_lag_messages", **billing) == 7
        assert value(found, "rocketmq_consumer_lag_latency_milliseconds", **billing) > 0
        in_flight = value(found, "rocketmq_consumer_inflight_messages", **billing)
        assert value(found, "rocketmq_consumer_ready_messages", **billing) == 7 - in_flight
        assert value(found, "rocketmq_producer_connections", language="python") == 1
        members = value(found, "rocketmq_consumer_connections", consumer_group="billing")
        assert members == 1
        assert value(found, "rocketmq_broker_permission", **labels) == 6
        assert value(found, "rocketq_store_messages_total") == 10
        sends = value(
            found, "rocketmq_rpc_latency_milliseconds_count", request_code="send_message_v2"
        )
        assert sends > 0
        await commit(broker, "billing", "orders", 10)
        await until(
            broker, lambda now: value(now, "rocketmq_consumer_lag_messages", **billing) == 0
        )
        done = await figures(broker)
        assert value(done, "rocketmq_consumer_lag_latency_milliseconds", **billing) == 0


async def test_held_pulls_and_timers_and_transactions(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        held = broker.start_pull("empty", sys_flag=6, suspend_timeout_millis=20_000)
        await broker.send("empty", queue_id=1)
        await broker.send("later", properties={"UNIQ_KEY": "A1", "TIMER_DELAY_SEC": "600"})
        half = {"UNIQ_KEY": "A2", "TRAN_MSG": "true", "PGROUP": "shop"}
        sent = await broker.send("paid", properties=half, sys_flag=4)
        await until(broker, lambda now: "rocketmq_half_messages" in now)
        assert value(await figures(broker), "rocketmq_half_messages", topic="paid") == 1
        fields = sent.ext_fields
        assert fields is not None
        offset_id = fields["msgId"]
        decision = EndTransaction(
            producer_group="shop",
            tran_state_table_offset=int(fields["queueOffset"]),
            commit_log_offset=int(offset_id[16:], 16),
            commit_or_rollback=8,
            from_transaction_check=False,
            msg_id="A2",
            transaction_id="A2",
        )
        assert (await broker.call(Command.request(decision))).code == 0
        await until(
            broker,
            lambda now: (
                value(now, "rocketq_held_requests", kind="pull") == 1
                and value(now, "rocketmq_timer_message_snapshot", timer_bound_s="86400") >= 0
                and {"rocketmq_timing_messages", "rocketmq_commit_messages"} <= now.keys()
                and value(now, "rocketmq_timing_messages", topic="later") == 1
            ),
        )
        found = await figures(broker)
        assert value(found, "rocketmq_commit_messages_total", topic="paid") == 1
        assert value(found, "rocketmq_rollback_messages_total", topic="paid") == 0
        count = "rocketmq_finish_message_latency_milliseconds_count"
        assert value(found, count, topic="paid") == 1
        assert value(found, "rocketq_open_transactions") == 0
        assert "rocketmq_half_messages" not in found
        assert value(found, "rocketmq_timer_enqueue_total", topic="later") == 1
        await broker.send("empty", queue_id=0)
        assert (await held).code == 0


async def test_sizes_creations_and_delays_are_distributions(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await broker.send("orders", b"x" * 100)
        await broker.send("orders", b"x" * 3_000)
        await broker.send("orders", b"x" * 100_000)
        await broker.send("soon", properties={"UNIQ_KEY": "A1", "TIMER_DELAY_MS": "1"})
        made = CreateTopic(topic="made", default_topic="TBW102", read_queue_nums=1,
                           write_queue_nums=1, perm=6, topic_filter_type="SINGLE_TAG",
                           topic_sys_flag=0, order=False)  # fmt: skip
        assert (await broker.call(Command.request(made))).code == 0
        too_many = replace(made, read_queue_nums=-1)
        assert (await broker.call(Command.request(too_many))).code != 0
        group = SubscriptionGroupConfig(group_name="readers")
        await broker.call(
            Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group.encode())
        )
        size = "rocketmq_message_size"
        delay = "rocketmq_delay_message_latency_seconds"

        def is_complete(now: dict[str, Metric]) -> bool:
            if not {size, delay} <= now.keys():
                return False
            return value(now, f"{size}_count", topic="orders") == 3

        await until(broker, is_complete)
        found = await figures(broker)
        upto = {
            each.labels["le"]: each.value
            for each in found[size].samples
            if each.name == f"{size}_bucket" and each.labels["topic"] == "orders"
        }
        assert (upto["1024.0"], upto["4096.0"], upto["524288.0"]) == (1, 2, 3)
        assert value(found, f"{delay}_count", topic="soon") == 1
        assert value(found, "rocketmq_timer_dequeue_total", topic="soon") == 1
        topics = "rocketmq_topic_create_execution_time_milliseconds"
        for status in ("success", "failure"):
            labels = {"invocation_status": status, "is_system": "false"}
            assert value(found, f"{topics}_count", **labels) == 1
        groups = "rocketmq_consumer_group_create_execution_time_milliseconds"
        assert value(found, f"{groups}_count", invocation_status="success") == 1


async def test_what_pops_write_and_read_is_counted_by_group(tmp_path: Path) -> None:
    """A short pop goes to the revive log at once, and comes back from there."""
    async with running_broker(tmp_path, **ON) as broker:
        await broker.send("orders")
        reply = await broker.call(
            pop_request("orders", consumer_group="poppers", invisible_time=1_000)
        )
        assert reply.code == 0
        mine = {"consumer_group": "poppers", "topic": "orders", "revive_message_type": "CK"}
        name = "rocketmq_pop_revive_out_message"
        await until(broker, lambda now: name in now)
        found = await figures(broker)
        assert value(found, "rocketmq_pop_revive_in_message_total", **mine) == 1
        assert value(found, f"{name}_total", **mine) == 1


async def test_names_and_labels_are_those_of_rocketmq(tmp_path: Path) -> None:
    """Held against what a 5.5.0 broker was seen to export."""
    golden: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())
    declared = {family.name: family for family in families.FAMILIES}
    for name in golden:
        assert declared[name].kind is Kind(golden[name]["type"]), name
        own = {*declared[name].labels, "cluster", "node_id", "node_type"}
        assert own >= set(golden[name]["labels"]), name
    async with running_broker(tmp_path, **ON) as broker:
        await broker.send("orders")
        await broker.heartbeat(group="group", topic="orders", producer_group="shop")
        await broker.pull("orders")
        await commit(broker, "group", "orders", 0)
        names = {name.removesuffix("_total") for name in golden}
        await until(broker, lambda now: now.keys() >= names)


async def test_nothing_is_said_that_is_not_declared(tmp_path: Path) -> None:
    declared = {
        family.name.removesuffix("_total"): family
        for family in (*families.FAMILIES, *monitoring.FAMILIES)
    }
    async with running_broker(tmp_path, **ON) as broker:
        await broker.send("orders")
        for name, family in (await figures(broker)).items():
            assert declared[name].kind.value == family.type
            assert declared[name].help.startswith(family.documentation[:20])


async def test_groups_of_figures_can_be_left_out(tmp_path: Path) -> None:
    off: dict[str, Any] = {
        f"enable_{name}_metrics": False
        for name in (
            "connection",
            "lag_and_dlq",
            "message_store",
            "pop",
            "remoting",
            "request",
            "stats",
            "transaction",
        )
    }
    async with running_broker(tmp_path, **ON, **off) as broker:
        await broker.send("orders")
        assert not [name for name in await figures(broker) if name.startswith("rocketmq_")]


async def test_without_metrics_nobody_listens(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        assert broker.broker.metrics_url == ""


async def test_a_collector_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="metricsGrpcExporterTarget"):
        async with running_broker(tmp_path, metrics_exporter_type="OTLP_GRPC"):
            pass


async def test_many_topics_do_not_hold_the_loop(tmp_path: Path) -> None:
    """40,000 topics with a group each: no turn of the loop may take long for a scrape."""
    count = 40_000
    async with running_broker(tmp_path, **ON) as broker:
        await broker.send("orders")
        stats, offsets, topics = _insides(broker)
        template = topics.get("orders")
        assert template is not None
        topics.put_all(replace(template, topic_name=f"topic-{n}") for n in range(count))
        for number in range(count):
            stats.messages_put(f"topic-{number}", 0, 1, 100)
            offsets.commit("group", f"topic-{number}", 0, 0)
        found = broker.broker.monitoring
        assert found is not None
        # The CPU time of this thread: what else runs on the machine, and how much garbage the
        # suite has left behind, is not the question. Of three the best, because tables of so
        # many topics are also written to files meanwhile.
        slowest = []
        gc.disable()
        try:
            for _ in range(3):
                text, longest = await _made_in_turns(found)
                slowest.append(longest)
        finally:
            gc.enable()
    assert text.count(b"rocketmq_messages_in_total{") == count + 1
    assert len(text) < 64 << 20
    assert min(slowest) < 0.05


async def _made_in_turns(found: Monitoring) -> tuple[bytes, float]:
    """The text, and the CPU time of the longest turn of the loop while it was made."""
    longest = 0.0
    making = asyncio.ensure_future(_collected(found))
    while not making.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    return making.result(), longest


async def _collected(found: Monitoring) -> bytes:
    writer, lines = TextWriter({}), []
    async for _, points in found.points():
        some: list[str] = []
        for point in points:
            writer.write(point, some)
        lines.append("".join(some).encode())
    return b"".join(lines)


def _insides(broker: TestBroker) -> tuple[Any, Any, Any]:
    """The tables of a broker, found through the collectors that read them."""
    found = broker.broker.monitoring
    assert found is not None
    bound = [
        each
        for part in found.parts
        for each in part.collectors
        if hasattr(each, "__self__") and type(each.__self__).__module__.startswith("rocketq.broker")
    ]
    owners = {type(each.__self__).__name__: each.__self__ for each in bound}
    traffic, lag = owners["TrafficFigures"], owners["LagFigures"]
    return traffic._stats, lag._offsets, traffic._topics


# --- health -------------------------------------------------------------------------------


async def faults(broker: TestBroker, page: str = "/healthz") -> dict[str, str]:
    found: dict[str, str] = (await ask(broker.broker.metrics_url, page)).json["faults"]
    return found


async def test_a_broker_that_serves_is_well(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        assert await faults(broker) == {}
        assert (await ask(broker.broker.metrics_url, "/readyz")).status == 200


@pytest.mark.parametrize("flush", [FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH])
async def test_a_disk_that_fails_is_told_within_two_seconds(
    tmp_path: Path, flush: FlushDiskType
) -> None:
    disk = FaultyDisk()
    async with running_broker(tmp_path, **ON, disk=disk, flush_disk_type=flush) as broker:
        assert (await broker.send("orders")).code == 0
        disk.fail("sync", errno.EIO)
        await broker.send("orders")

        async def is_red() -> bool:
            return "broker.disk" in await faults(broker, "/readyz")

        await eventually(is_red, within_s=2)
        assert "Input/output error" in (await faults(broker))["broker.disk"]
        disk.mend()


async def test_a_full_disk_is_told_within_two_seconds(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running_broker(tmp_path, **ON, disk=disk) as broker:
        assert await faults(broker) == {}
        disk.ratio = 0.97

        async def is_red() -> bool:
            return "broker.space" in await faults(broker, "/readyz")

        await eventually(is_red, within_s=2)
        disk.ratio = 0.1

        async def is_green() -> bool:
            return await faults(broker) == {}

        await eventually(is_green, within_s=4)


async def test_a_log_that_cannot_grow_is_told_within_two_seconds(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running_broker(tmp_path, **ON, disk=disk) as broker:
        disk.fail("write", errno.ENOSPC, only="commitlog")
        disk.fail("create", errno.ENOSPC, only="commitlog")
        assert (await broker.send("orders", b"x" * 500_000)).code != 0

        async def is_red() -> bool:
            return (await faults(broker)).get("broker.space") == "the log cannot grow"

        await eventually(is_red, within_s=2)
        disk.mend()


async def test_a_slave_that_goes_is_told_within_two_seconds(tmp_path: Path) -> None:
    async with (
        pairs.name_server(tmp_path) as namesrv,
        pairs.broker(
            tmp_path / "a",
            namesrv.address,
            **ON,
            broker_role=BrokerRole.SYNC_MASTER,
            in_sync_replicas=2,
        ) as master,
    ):

        async def is_red() -> bool:
            return "broker.replication" in await faults(master)

        async def is_green() -> bool:
            return await faults(master) == {}

        await eventually(is_red, within_s=2)
        assert (await ask(master.broker.metrics_url, "/readyz")).status == 200
        async with pairs.broker(tmp_path / "b", namesrv.address, slave_id=1, **ON) as slave:
            await eventually(is_green)
            assert await faults(slave) == {}
            found = await figures(master)
            assert value(found, "rocketq_slaves", state="in_sync") == 1
            assert len(found["rocketq_slave_lag_bytes"].samples) == 1
            assert (await master.send("Topic", b"body")).code == 0
            await until(master, lambda now: value(now, "rocketq_slave_delay_seconds_count") > 0)
            assert value(await figures(slave), "rocketq_follows_master") == 1
        await eventually(is_red, within_s=2)
        assert (await faults(master))["broker.replication"] == "1 of 2 copies are in sync"


async def test_a_slave_without_its_master_is_told_within_two_seconds(tmp_path: Path) -> None:
    async with (
        pairs.name_server(tmp_path) as namesrv,
        pairs.broker(tmp_path / "a", namesrv.address) as master,
        pairs.broker(tmp_path / "b", namesrv.address, slave_id=1, **ON) as slave,
    ):

        async def is_green() -> bool:
            return await faults(slave) == {}

        async def is_red() -> bool:
            return "broker.replication" in await faults(slave)

        await eventually(is_green)
        await master.broker.stop()
        await eventually(is_red, within_s=2)


async def test_a_name_server_that_is_away_is_told(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON, namesrv_addr="127.0.0.1:1") as broker:
        found = await faults(broker)
        assert found == {"broker.name_servers": "not registered at 127.0.0.1:1"}
        assert (await ask(broker.broker.metrics_url, "/readyz")).status == 200

"""`delivery=transactional`: a batch is visible as a whole or not at all."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketq import Message
from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.message.message import MessageExt
from rocketq.message.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.errors import ConnectionLost
from rocketq.spark.options import InvalidOptions, sink_options
from rocketq.spark.wire.broker_socket import BrokerSocket
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.rows import WriteFailed, write_rows
from rocketq.spark.write.whole import commit
from rocketq.spark.write.whole.commit import BatchIsOver, commit_batch
from rocketq.spark.write.whole.ends import Ends
from rocketq.spark.write.whole.ledger import COMMITS_TOPIC, Ledger, Part, Record
from rocketq.spark.write.whole.places import HalfPlace, pack, places_of
from rocketq.spark.write.written import Prepared
from rocketq.testing import LocalBroker
from tests.cli.programs import serving
from tests.spark.conftest import SETTINGS, Cluster
from tests.spark.readers import batch_rows, numbers
from tests.waiting import wait_until

ROWS = 200


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "_IN_THE_PIPE_S", 0.05)


def tables(rows: Sequence[int], **columns: pa.Array) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), 20):
        body = pa.array([b"%d" % row for row in rows[at : at + 20]], pa.binary())
        others = [column[at : at + 20] for column in columns.values()]
        yield pa.RecordBatch.from_arrays([body, *others], names=["body", *columns])


class Sink:
    """A query that writes to a topic, as Spark would have it do."""

    def __init__(self, cluster: Cluster, topic: str, query: str = "", **options: Any) -> None:
        self.query = query or topic
        given = {"namesrv": cluster.namesrv, "topic": topic, "delivery": "transactional"}
        self.options = sink_options({**given, **{name: str(v) for name, v in options.items()}})

    def task(self, batch: int, partition: int, rows: Iterator[pa.RecordBatch]) -> Prepared:
        name = TaskName(sink=self.query, batch=batch, partition=partition)
        prepared = write_rows(self.options, name, rows)
        assert isinstance(prepared, Prepared)
        return prepared

    def tasks(self, batch: int, rows: Sequence[int]) -> list[Prepared]:
        """Two, each with a half of the rows."""
        return [self.task(batch, number, tables(rows[number::2])) for number in (0, 1)]

    def commit(self, prepared: Sequence[Prepared]) -> None:
        commit_batch(self.options, prepared)

    def write(self, batch: int, rows: Sequence[int]) -> None:
        self.commit(self.tasks(batch, rows))


def seen(cluster: Cluster, topic: str, **options: Any) -> Counter[int]:
    given = {name: str(value) for name, value in options.items()}
    return Counter(numbers(batch_rows(namesrv=cluster.namesrv, subscribe=topic, **given)))


class Killed(BaseException):
    """What ends a driver in the middle of its work."""


def kill_after(monkeypatch: pytest.MonkeyPatch, ends: int) -> None:
    """Let a driver end so many half messages, and die."""
    left = itertools.count(ends, -1)

    def one_by_one(self: Ends, halves: Any, may_go_on: Any) -> None:
        for half in halves:
            if next(left) <= 0:
                raise Killed
            original(self, [half], may_go_on)

    original = Ends.commit
    monkeypatch.setattr(Ends, "commit", one_by_one)


def test_a_batch_is_seen_when_the_driver_has_committed_it(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    sink = Sink(any_cluster, topic)
    prepared = sink.tasks(0, range(ROWS))
    assert sum(each.messages for each in prepared) == ROWS
    assert seen(any_cluster, topic) == Counter()
    sink.commit(prepared)
    assert seen(any_cluster, topic) == Counter(range(ROWS))
    assert seen(any_cluster, topic, wholeBatches="true") == Counter(range(ROWS))


def test_a_batch_that_is_run_again_is_not_seen_again(any_cluster: Cluster) -> None:
    """Spark had no time to note that it was committed; its tasks give other rows now."""
    topic = any_cluster.new_topic()
    sink = Sink(any_cluster, topic)
    sink.write(0, range(ROWS))
    sink.write(0, range(1000, 1000 + ROWS))
    assert seen(any_cluster, topic) == Counter(range(ROWS))
    sink.write(1, range(ROWS, 2 * ROWS))
    assert seen(any_cluster, topic) == Counter(range(2 * ROWS))
    with pytest.raises(BatchIsOver, match="batch 0 is over: the query is at 1"):
        sink.write(0, range(ROWS))
    assert seen(any_cluster, topic) == Counter(range(2 * ROWS))


@pytest.mark.parametrize("ends", [0, 1, 77, ROWS])
def test_a_driver_that_dies_while_it_commits_leaves_a_batch_that_is_finished_later(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, ends: int
) -> None:
    topic = any_cluster.new_topic()
    sink = Sink(any_cluster, topic)
    sink.write(0, [-1, -2])
    prepared = sink.tasks(1, range(ROWS))
    with monkeypatch.context() as dying:
        kill_after(dying, ends)
        if ends < ROWS:
            with pytest.raises(Killed):
                sink.commit(prepared)
        else:  # all is visible, and nobody has noted that
            dying.setattr(commit.Commit, "_done", lambda *_: asyncio.sleep(0))
            sink.commit(prepared)
    wait_until(lambda: len(seen(any_cluster, topic)) == 2 + ends)
    assert seen(any_cluster, topic, wholeBatches="true") == Counter([-1, -2])
    sink.write(1, range(1000, 1000 + ROWS))  # the first decision counts
    assert seen(any_cluster, topic) == Counter([-1, -2, *range(ROWS)])
    assert seen(any_cluster, topic, wholeBatches="true") == Counter([-1, -2, *range(ROWS)])
    sink.write(2, [-3])
    assert seen(any_cluster, topic) == Counter([-1, -2, -3, *range(ROWS)])


def test_what_one_query_has_left_another_one_finishes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.new_topic()
    first, second = Sink(cluster, topic, "first"), Sink(cluster, topic, "second")
    prepared = first.tasks(7, range(ROWS))
    with monkeypatch.context() as dying:
        kill_after(dying, 50)
        with pytest.raises(Killed):
            first.commit(prepared)
    second.write(0, [-1])
    assert seen(cluster, topic) == Counter([-1, *range(ROWS)])
    first.write(7, range(ROWS))
    assert seen(cluster, topic) == Counter([-1, *range(ROWS)])


def test_a_batch_on_two_brokers_is_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    with serving("up", "--dir", str(tmp_path), "--brokers", "2", *ports) as server:
        cluster = Cluster(server.facts["namesrv"])
        topic = new_topic_on_all(cluster)
        sink = Sink(cluster, topic)
        sink.write(0, [-1, -2])
        prepared = sink.tasks(1, range(ROWS))
        brokers = {broker for task in prepared for broker in task.places}
        assert len(brokers) == 2
        with monkeypatch.context() as dying:
            kill_after(dying, ROWS * 2 // 3)  # one broker is done, the other is not
            with pytest.raises(Killed):
                sink.commit(prepared)
        assert len(seen(cluster, topic)) == 2 + ROWS * 2 // 3
        assert seen(cluster, topic, wholeBatches="true") == Counter([-1, -2])
        sink.write(1, range(1000, 1000 + ROWS))
        assert seen(cluster, topic) == Counter([-1, -2, *range(ROWS)])
        assert seen(cluster, topic, wholeBatches="true") == Counter([-1, -2, *range(ROWS)])
        server.stop()


def new_topic_on_all(cluster: Cluster) -> str:
    """A topic with two queues on every broker."""
    config = TopicConfig(topic_name="on-all", read_queue_nums=2, write_queue_nums=2)

    async def create() -> int:
        async with ClientInstance.opened(ClientConfig(namesrv=cluster.namesrv)) as client:
            brokers = (await client.api.cluster_info()).broker_addr_table.values()
            for broker in brokers:
                await client.api.create_topic(broker.broker_addrs[0], config)
            return 2 * len(brokers)

    queues = loop_thread().run(create())

    async def count() -> int:
        async with ClientInstance.opened(ClientConfig(namesrv=cluster.namesrv)) as client:
            route = await client.api.route(config.topic_name)
            return 0 if route is None else sum(data.read_queue_nums for data in route.queue_datas)

    wait_until(lambda: loop_thread().run(count()) == queues)
    return config.topic_name


def test_connections_that_break_while_a_batch_is_ended_double_nothing(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests go out, and their answers are lost."""
    topic, chance = any_cluster.new_topic(), random.Random(3)
    sink = Sink(any_cluster, topic)
    prepared = sink.tasks(0, range(ROWS))
    original, left = Ends._wait_for, itertools.count(3, -1)

    def lose(self: Ends, under_way: int) -> None:
        if next(left) >= 0 and chance.random() < 0.7:
            raise ConnectionLost("cut")
        original(self, under_way)

    monkeypatch.setattr(Ends, "_wait_for", lose)
    sink.commit(prepared)
    assert seen(any_cluster, topic) == Counter(range(ROWS))


def test_sends_whose_answer_is_lost_are_sent_again_and_seen_once(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = any_cluster.new_topic()
    sink = Sink(any_cluster, topic)
    original, turns = BrokerSocket.receive, itertools.count()

    def lose(self: BrokerSocket) -> Any:
        if next(turns) in (10, 60):
            raise ConnectionLost("cut")
        return original(self)

    with monkeypatch.context() as losing:
        losing.setattr(BrokerSocket, "receive", lose)
        prepared = sink.tasks(0, range(ROWS))
    sink.commit(prepared)
    assert seen(any_cluster, topic) == Counter(range(ROWS))


def test_two_attempts_at_a_task_are_one_in_the_topic(any_cluster: Cluster) -> None:
    """Speculation: both send all rows, the driver hears of one."""
    topic = any_cluster.new_topic()
    sink = Sink(any_cluster, topic)
    sink.task(0, 0, tables(range(ROWS)))
    sink.commit([sink.task(0, 0, tables(range(ROWS)))])
    assert seen(any_cluster, topic) == Counter(range(ROWS))


def test_rows_of_one_key_stay_in_order(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    sink = Sink(any_cluster, topic)
    keys = pa.array([f"k{row % 3}" for row in range(ROWS)])
    sink.commit([sink.task(0, 0, tables(range(ROWS), sharding_key=keys))])
    by_queue: dict[int, list[int]] = {}
    rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic)
    for row in sorted(rows, key=lambda row: (row["queue_id"], row["queue_offset"])):
        by_queue.setdefault(row["queue_id"], []).append(int(row["body"]))
    for numbers_of_queue in by_queue.values():
        for key in range(3):
            of_key = [number for number in numbers_of_queue if number % 3 == key]
            assert of_key == sorted(of_key)
    assert sum(map(len, by_queue.values())) == ROWS


def test_batches_that_are_decided_later_are_not_cut_by_a_reader_between(cluster: Cluster) -> None:
    """A reader asked for the ends, and then a batch was written: it sees nothing of it."""
    from rocketq.spark.read.whole_batches import cut_to_whole

    topic = cluster.new_topic()
    sink = Sink(cluster, topic)
    sink.write(0, range(20))

    async def ends(client: ClientInstance, address: str) -> Any:
        queues = await client.routes.subscribe_queues(topic)
        return {queue: await client.api.max_offset(address, queue) for queue in queues}

    async def cut(client: ClientInstance, _: str) -> Any:
        await client.routes.refresh(topic)
        return await cut_to_whole(client, asked)

    asked = cluster.ask(ends)
    assert cluster.ask(cut) == asked
    sink.write(1, range(20, 40))
    assert cluster.ask(cut) == asked
    queue = max(asked, key=lambda each: asked[each])
    asked = {**asked, queue: asked[queue] + 1}  # it came a moment later to this one
    assert sum(cluster.ask(cut).values()) == 20
    assert sum(cluster.ask(ends).values()) == 40


def test_brokers_ask_about_what_is_left_over_and_are_told_to_drop_it() -> None:
    settings = {**SETTINGS, "transactionTimeOut": "1000", "transactionCheckInterval": "1000"}
    with LocalBroker(settings=settings) as broker:
        cluster = Cluster(broker.namesrv)
        topic = cluster.new_topic()
        sink = Sink(cluster, topic, producerGroup="left-over")
        sink.task(0, 0, tables(range(30)))  # its executor died
        sink.write(0, range(ROWS))
        sink.task(1, 0, tables(range(5)))  # nobody knows yet what becomes of these
        wait_until(lambda: asked_about(cluster) <= 10, within_s=60)
        assert asked_about(cluster) > 0
        assert seen(cluster, topic) == Counter(range(ROWS))


def asked_about(cluster: Cluster) -> int:
    """How many half messages a broker still asks about, or a few more."""
    broker_name = cluster.broker_name()

    async def ask(client: ClientInstance, address: str) -> int:
        queue = MessageQueue(TRANSACTION_HALF_TOPIC, broker_name, 0)
        reached = await client.api.query_offset(address, TRANSACTION_GROUP, queue)
        return await client.api.max_offset(address, queue) - (reached or 0)

    found: int = cluster.ask(ask)
    return found


def test_what_fails_in_a_task_is_dropped(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    sink = Sink(any_cluster, topic)

    def cut_short() -> Iterator[pa.RecordBatch]:
        yield from tables(range(40))
        raise WriteFailed("cut short")

    with pytest.raises(WriteFailed):
        sink.task(0, 0, cut_short())
    sink.write(0, range(40))
    assert seen(any_cluster, topic) == Counter(range(40))


def test_places_are_packed_and_found_again() -> None:
    chance = random.Random(1)
    places = [
        (row, chance.randrange(8), 10**12 + 317 * row, 5_000_000_000 + row) for row in range(1000)
    ]
    packed = pack(places)
    assert len(packed) < 8 * len(places)
    found = list(places_of(packed, "P" * 24, is_ordered=True))
    assert found[7] == HalfPlace("P" * 24 + "00000007", *places[7][1:], True)
    assert [each[1:4] for each in found] == [place[1:] for place in places]
    assert list(places_of(pack([]), "P" * 24)) == []
    part = Part(3, "broker-ä", packed)
    assert Part.decode(part.encode()) == part


def test_what_is_no_record_is_passed_over(cluster: Cluster) -> None:
    record = Record(kind="decided", home="b", topic="t", before={"b": {"0": 5}}, parts=[1])
    assert Record.decode(record.encode()) == record
    for noise in (b"", b"[]", b"{}", b'{"kind": 1, "x": 2}', b"\xff", b"\x00\x01"):
        assert Record.decode(noise) is None
    assert Record.decode(b'{"kind": "done", "home": "b", "before": {"b": {"x": "y"}}}') is None
    topic = cluster.new_topic()
    sink = Sink(cluster, topic)
    sink.write(0, range(20))

    async def number(client: ClientInstance, _: str) -> int:
        return Ledger(client, "any", topic, "g").queue.queue_id

    strange = [Message(COMMITS_TOPIC, body) for body in (b"noise", b"{}", b"[1]")]
    cluster.send(strange, queue=cluster.ask(number))
    sink.write(0, range(20))
    sink.write(1, range(20, 40))
    assert seen(cluster, topic) == Counter(range(40))


def test_rows_say_which_batch_they_belong_to(local_broker: LocalBroker) -> None:
    cluster = Cluster(local_broker.namesrv)
    topic = cluster.new_topic()
    sink = Sink(cluster, topic)
    for batch in (0, 1):
        sink.write(batch, [batch])
    found: list[MessageExt] = local_broker.messages(topic)
    labels = {int(message.body): message.get_property("SPARK_BATCH") or "" for message in found}
    tags = {label.partition(":")[0] for label in labels.values()}
    assert len(tags) == 1
    assert {number: int(label.partition(":")[2]) for number, label in labels.items()} == {
        0: 0,
        1: 1,
    }


def test_a_batch_is_a_whole_in_one_topic() -> None:
    from pyspark.sql.types import StringType, StructField, StructType

    from rocketq.spark.write.sink import check_schema

    schema = StructType([StructField("body", StringType()), StructField("topic", StringType())])
    given = {"namesrv": "a:1", "delivery": "Transactional"}
    with pytest.raises(InvalidOptions, match="delivery=transactional needs the option topic"):
        check_schema(sink_options(given), schema)
    assert sink_options({**given, "topic": "t"}).delivery == "transactional"

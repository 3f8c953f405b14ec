"""What a source reads, by its options. The same on rocketq and on real RocketMQ."""

import json
import time
import zlib

import pytest

from rocketq import Message, Producer, TransactionProducer, TransactionState
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.errors import NoRoute
from rocketq.message.flags import SysFlag
from rocketq.remoting.headers import ResetOffset, SendMessageV2
from rocketq.spark.options import InvalidOptions
from rocketq.spark.read.damage import DamagedMessage
from rocketq.spark.read.data_loss import DataLoss
from tests.spark.conftest import Cluster
from tests.spark.readers import Query, batch_rows, numbers
from tests.waiting import wait_until


def test_a_batch_read_gives_everything_that_is_there(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    any_cluster.send_numbers(topic, range(100))
    rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic)
    assert numbers(rows) == list(range(100))
    assert {row["queue_id"] for row in rows} == {0, 1, 2, 3}
    assert {row["topic"] for row in rows} == {topic}


def test_every_column_says_what_was_sent(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=1)
    before_ms = time.time_ns() // 1_000_000
    message = Message(
        topic, b"hello", tags="paid", keys=["k1", "k2"], properties={"city": "Oslo"}, flag=7
    )
    any_cluster.send([message, Message(topic, b"plain")], queue=0)
    first, second = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic)
    assert first["topic"] == topic
    assert first["broker_name"] == any_cluster.broker_name()
    assert (first["queue_id"], first["queue_offset"]) == (0, 0)
    assert (second["queue_id"], second["queue_offset"]) == (0, 1)
    assert first["msg_id"] == dict(first["properties"])["UNIQ_KEY"]
    assert (first["keys"], first["tags"], first["body"]) == ("k1 k2", "paid", b"hello")
    assert (second["keys"], second["tags"]) == (None, None)
    assert dict(first["properties"])["city"] == "Oslo"
    for name in ("born_timestamp", "store_timestamp"):
        assert before_ms <= first[name].timestamp() * 1000 <= time.time() * 1000 + 1000
    assert first["born_host"].startswith("127.0.0.1:")
    assert (first["reconsume_times"], first["flag"]) == (0, 7)


def test_compressed_bodies_are_decompressed(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=1)
    body = b"again and again " * 1000
    any_cluster.send([Message(topic, body)], queue=0)
    (row,) = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic)
    assert row["sys_flag"] & 1, "the producer compresses what is larger than 4 KB"
    assert (zlib.crc32(row["body"]), len(row["body"])) == (zlib.crc32(body), len(body))


def test_messages_of_a_batch_are_rows_of_their_own(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=1)
    with Producer("batches", namesrv=any_cluster.namesrv) as producer:
        for first in (0, 3):
            producer.send_batch(
                [Message(topic, b"%d" % n, tags="t") for n in range(first, first + 3)]
            )
    rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic)
    assert [(row["queue_offset"], row["body"]) for row in rows] == [
        (number, b"%d" % number) for number in range(6)
    ]
    assert len({row["msg_id"] for row in rows}) == 6
    assert {row["tags"] for row in rows} == {"t"}


def test_half_messages_never_show(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=1)
    states = [TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN]
    producer = TransactionProducer(
        f"transactions-{time.time_ns():x}",
        namesrv=any_cluster.namesrv,
        execute=lambda message, state: state,
        check=lambda message: TransactionState.UNKNOWN,
    )
    with producer:
        for number, state in enumerate(states):
            producer.send_in_transaction(Message(topic, b"%d" % number), state)
        common = {"namesrv": any_cluster.namesrv, "subscribe": topic}
        wait_until(lambda: batch_rows(**common))
        assert numbers(batch_rows(**common)) == [0]
        with Query(**common, startingOffsets="earliest") as query:
            assert numbers(query.trigger() or []) == [0]


def test_several_topics_are_read_as_one_table(any_cluster: Cluster) -> None:
    first, second = any_cluster.new_topic(), any_cluster.new_topic()
    any_cluster.send_numbers(first, range(5))
    any_cluster.send_numbers(second, range(5, 9))
    rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=f"{first}, {second}")
    assert numbers(rows) == list(range(9))
    assert {row["topic"] for row in rows} == {first, second}


def test_a_pattern_matches_whole_names_of_users_topics(any_cluster: Cluster) -> None:
    stem = any_cluster.new_topic()
    matching = any_cluster.new_topic(name=f"{stem}-a")
    other = any_cluster.new_topic(name=f"{stem}-a-b")
    any_cluster.send_numbers(matching, [1])
    any_cluster.send_numbers(other, [2])
    assert numbers(batch_rows(namesrv=any_cluster.namesrv, subscribePattern=f"{stem}-.")) == [1]
    with Query(namesrv=any_cluster.namesrv, subscribePattern=".*") as query:
        assert not {"TBW102", "SELF_TEST_TOPIC"} & query.at.keys()


def test_single_queues_may_be_assigned(any_cluster: Cluster) -> None:
    topic, broker = any_cluster.new_topic(), any_cluster.broker_name()
    for queue in range(4):
        any_cluster.send_numbers(topic, [queue], queue=queue)
    assign = json.dumps({topic: {broker: [1, 3]}})
    assert numbers(batch_rows(namesrv=any_cluster.namesrv, assign=assign)) == [1, 3]
    missing = json.dumps({topic: {broker: [9]}})
    with pytest.raises(InvalidOptions, match=f"assign names queue 9 of broker '{broker}'"):
        batch_rows(namesrv=any_cluster.namesrv, assign=missing)


def test_a_topic_that_is_not_there_is_named(any_cluster: Cluster) -> None:
    with pytest.raises(NoRoute, match="'no-such-topic'"):
        batch_rows(namesrv=any_cluster.namesrv, subscribe="no-such-topic")


def test_reading_begins_and_ends_where_it_is_told_to(any_cluster: Cluster) -> None:
    topic, broker = any_cluster.new_topic(queues=2), any_cluster.broker_name()
    for queue in range(2):
        any_cluster.send_numbers(topic, range(10 * queue, 10 * queue + 10), queue=queue)
    common = {"namesrv": any_cluster.namesrv, "subscribe": topic}

    def of_queues(first: object, second: object) -> str:
        return json.dumps({topic: {broker: {"0": first, "1": second}}})

    bounds = {"startingOffsets": of_queues(2, "earliest"), "endingOffsets": of_queues(5, -1)}
    assert numbers(batch_rows(**common, **bounds)) == [2, 3, 4, *range(10, 20)]
    assert batch_rows(**common, startingOffsets="latest") == []
    # Queues that are not named begin at the beginning.
    only_one = json.dumps({topic: {broker: {"1": 8}}})
    assert numbers(batch_rows(**common, startingOffsets=only_one)) == [*range(10), 18, 19]
    unknown = json.dumps({topic: {broker: {"7": 1}}})
    with pytest.raises(InvalidOptions, match="queue 7 is not among the queues"):
        batch_rows(**common, startingOffsets=unknown)


def test_times_are_found_as_offsets(any_cluster: Cluster) -> None:
    topic, broker = any_cluster.new_topic(queues=1), any_cluster.broker_name()
    common = {"namesrv": any_cluster.namesrv, "subscribe": topic}
    any_cluster.send_numbers(topic, [1, 2, 3], queue=0)
    stored = [row["store_timestamp"] for row in batch_rows(**common)]
    time.sleep(0.02)  # so that the moment lies between two messages
    moment = int(stored[-1].timestamp() * 1000) + 10
    any_cluster.send_numbers(topic, [4, 5], queue=0)
    assert numbers(batch_rows(**common, startingTimestamp=moment)) == [4, 5]
    assert numbers(batch_rows(**common, endingTimestamp=moment)) == [1, 2, 3]
    of_queue = json.dumps({topic: {broker: {"0": moment}}})
    assert numbers(batch_rows(**common, startingOffsetsByTimestamp=of_queue)) == [4, 5]
    assert numbers(batch_rows(**common, endingOffsetsByTimestamp=of_queue)) == [1, 2, 3]
    for option in ({"startingTimestamp": moment}, {"startingOffsetsByTimestamp": of_queue}):
        with Query(**common, **option) as query:
            assert numbers(query.trigger() or []) == [4, 5]
    # Before all, and after all.
    later = moment + 3_600_000
    assert numbers(batch_rows(**common, startingTimestamp=1, endingTimestamp=later)) == [
        *range(1, 6)
    ]
    assert batch_rows(**common, startingTimestamp=later) == []


def test_a_time_for_one_queue_leaves_the_others_where_they_begin(any_cluster: Cluster) -> None:
    topic, broker = any_cluster.new_topic(queues=2), any_cluster.broker_name()
    common = {"namesrv": any_cluster.namesrv, "subscribe": topic}
    for queue in range(2):
        any_cluster.send_numbers(topic, [queue], queue=queue)
    moment = time.time_ns() // 1_000_000 + 3_600_000
    of_queue = json.dumps({topic: {broker: {"1": moment}}})
    assert numbers(batch_rows(**common, startingOffsetsByTimestamp=of_queue)) == [0]
    with Query(**common, startingOffsetsByTimestamp=of_queue) as query:
        assert query.trigger() is None, "a stream begins with what is new"


def test_brokers_filter_by_tags(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=2)
    tags = ["paid", "open", None, "late"]
    any_cluster.send([Message(topic, b"%d" % i, tags=tags[i % 4]) for i in range(40)])
    rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic, filter="paid || late")
    assert numbers(rows) == [i for i in range(40) if i % 4 in (0, 3)]


def test_tags_with_the_same_hash_are_told_apart(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=1)
    any_cluster.send([Message(topic, b"1", tags="Aa"), Message(topic, b"2", tags="BB")], queue=0)
    rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic, filter="Aa")
    assert numbers(rows) == [1]


def test_brokers_filter_by_sql(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=2)
    any_cluster.send([Message(topic, b"%d" % i, properties={"price": str(i)}) for i in range(20)])
    rows = batch_rows(
        namesrv=any_cluster.namesrv, subscribe=topic, sqlFilter="price BETWEEN 5 AND 7"
    )
    assert numbers(rows) == [5, 6, 7]


def test_long_ranges_are_cut_into_more_tasks(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=2)
    any_cluster.send_numbers(topic, range(100))
    for option in ({"minPartitions": 7}, {"maxRecordsPerPartition": 9}, {"pullBytes": 1024}):
        rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic, **option)
        assert numbers(rows) == list(range(100)), option


def test_only_the_columns_asked_for_are_made(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=1)
    any_cluster.send_numbers(topic, [5], queue=0)
    rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic, columns="queue_offset, body")
    assert rows == [{"queue_offset": 0, "body": b"5"}]


def test_many_messages_arrive_once_and_in_order(any_cluster: Cluster) -> None:
    """More than one answer of any broker holds: the ranges of the answers must fit together."""
    topic = any_cluster.new_topic(queues=2)
    any_cluster.send_numbers(topic, range(5000))
    rows = batch_rows(namesrv=any_cluster.namesrv, subscribe=topic, pullBytes=65536)
    assert numbers(rows) == list(range(5000))
    for queue in range(2):
        places = [row["queue_offset"] for row in rows if row["queue_id"] == queue]
        assert places == list(range(len(places)))


def test_an_end_beyond_the_end_is_data_loss(any_cluster: Cluster) -> None:
    topic, broker = any_cluster.new_topic(queues=1), any_cluster.broker_name()
    any_cluster.send_numbers(topic, range(3), queue=0)
    options = {
        "namesrv": any_cluster.namesrv,
        "subscribe": topic,
        "endingOffsets": json.dumps({topic: {broker: {"0": 10}}}),
    }
    with pytest.raises(DataLoss, match=r"messages 3 to 9 .*queue 0 are gone: the queue now ends"):
        batch_rows(**options)
    assert numbers(batch_rows(**options, failOnDataLoss="false")) == [0, 1, 2]


def test_a_stream_gives_what_comes_batch_by_batch(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    any_cluster.send_numbers(topic, range(10))
    common = {"namesrv": any_cluster.namesrv, "subscribe": topic}
    with Query(**common) as late, Query(**common, startingOffsets="earliest") as early:
        assert late.trigger() is None
        assert numbers(early.trigger() or []) == list(range(10))
        any_cluster.send_numbers(topic, range(10, 15))
        assert numbers(late.trigger() or []) == numbers(early.trigger() or []) == [*range(10, 15)]
        assert late.trigger() is None


def test_a_range_gives_the_same_rows_again(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic()
    any_cluster.send_numbers(topic, range(50))
    with Query(namesrv=any_cluster.namesrv, subscribe=topic, startingOffsets="earliest") as query:
        start = query.at
        rows = query.trigger()
        any_cluster.send_numbers(topic, range(50, 80))
        assert query.read(start, query.at) == rows


def test_progress_is_reported_to_the_group(any_cluster: Cluster) -> None:
    topic, group = any_cluster.new_topic(), f"group-{time.time_ns():x}"
    any_cluster.send_numbers(topic, range(20))
    options = {"startingOffsets": "earliest", "groupId": group, "maxOffsetsPerTrigger": 15}
    with Query(namesrv=any_cluster.namesrv, subscribe=topic, **options) as query:
        for count, behind in ((15, 5), (5, 0)):
            assert len(query.trigger() or []) == count
            assert any_cluster.lag(group) == behind


def test_the_group_may_be_reset_without_harm(any_cluster: Cluster) -> None:
    """Brokers tell the next pull of a group whose offset was set; that is not data loss."""
    topic, group = any_cluster.new_topic(queues=1), f"group-{time.time_ns():x}"
    any_cluster.send_numbers(topic, range(4), queue=0)
    options = {"startingOffsets": "earliest", "groupId": group}
    with Query(namesrv=any_cluster.namesrv, subscribe=topic, **options) as query:
        assert len(query.trigger() or []) == 4
        any_cluster.ask(lambda client, address: _reset(client, address, topic, group))
        any_cluster.send_numbers(topic, [4, 5], queue=0)
        assert numbers(query.trigger() or []) == [4, 5]


async def _reset(client: ClientInstance, address: str, topic: str, group: str) -> None:
    header = ResetOffset(topic=topic, group=group, timestamp=0, is_force=True)
    await client.api.invoke(address, header)


# What anybody may send


def send_as_compressed(cluster: Cluster, topic: str, body: bytes) -> None:
    """Send a message that says it is compressed, as anybody can."""

    async def send(client: ClientInstance, address: str) -> None:
        header = SendMessageV2(
            producer_group="anybody",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=SysFlag.COMPRESSED,
            born_timestamp=2**63 - 1,
            flag=0,
        )
        await client.api.invoke(address, header, body)

    cluster.ask(send)


def test_a_message_falsely_marked_compressed_can_be_passed(any_cluster: Cluster) -> None:
    topic = any_cluster.new_topic(queues=1)
    any_cluster.send_numbers(topic, [0], queue=0)
    send_as_compressed(any_cluster, topic, b"not compressed")
    any_cluster.send_numbers(topic, [2], queue=0)
    common = {"namesrv": any_cluster.namesrv, "subscribe": topic}
    with pytest.raises(DamagedMessage, match=rf"message 1 of topic '{topic}'.*failOnDamage=false"):
        batch_rows(**common)
    assert [row["queue_offset"] for row in batch_rows(**common, columns="queue_offset")] == [
        0,
        1,
        2,
    ]
    rows = batch_rows(**common, failOnDamage="false")
    assert [row["body"] for row in rows] == [b"0", None, b"2"]
    assert "the body is damaged" in rows[1]["body_error"]
    assert rows[1]["born_timestamp"].year == 9999

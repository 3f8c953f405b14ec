"""Topics straight from the files of a broker, beside what the broker itself says."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual

from rocketq import Message
from rocketq.message.names import is_system_topic
from rocketq.spark.files.directory import NoStore, StoreDirectory
from rocketq.spark.files.planning import disjoint
from rocketq.spark.files.reader import FilesReader, PruningFilesReader
from rocketq.spark.options import InvalidOptions, source_options
from rocketq.spark.read.damage import DamagedRecord
from rocketq.store.inspect.dump import dump_store
from rocketq.testing import LocalBroker
from tests.spark.conftest import SETTINGS, Cluster
from tests.spark.readers import batch_rows
from tests.spark.test_streams import _delete_topic
from tests.store.support import Golden

Rows = list[dict[str, Any]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """With small files, so that there are several."""
    settings = {
        **SETTINGS,
        "mappedFileSizeCommitLog": str(256 * 1024),
        "mappedFileSizeConsumeQueue": str(300 * 20),
    }
    with LocalBroker(settings, folder=tmp_path / "broker-a") as running:
        yield running


@pytest.fixture
def cluster(broker: LocalBroker) -> Cluster:
    return Cluster(broker.namesrv)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Two topics whose messages lie mixed in the log."""
    topic, other = cluster.new_topic(queues=2), cluster.new_topic(queues=1)
    for start in range(0, 1000, 100):
        numbers = range(start, start + 100)
        cluster.send(
            [
                Message(topic, b"%d" % n + b" " * (n % 700), tags=f"t{n % 3}", keys=[f"k{n}"])
                for n in numbers
            ]
        )
        cluster.send_numbers(other, numbers)
    return topic


def file_rows(*folders: Path, **options: Any) -> Rows:
    given = {"store": ",".join(map(str, folders))}
    given |= {name: str(value) for name, value in options.items()}
    return rows_of(FilesReader(source_options(given, streaming=False)))


def rows_of(reader: FilesReader) -> Rows:
    parts = reader.partitions()
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def by_place(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"filter": "t1"},
        {"startingOffsets": '{"TOPIC": {"broker-a": {"0": 100, "1": 490}}}'},
        {"minPartitions": "7"},
    ],
)
def test_the_files_say_what_the_broker_says(
    cluster: Cluster, topic: str, tmp_path: Path, options: dict[str, str]
) -> None:
    options = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    through_broker = batch_rows(namesrv=cluster.namesrv, subscribe=topic, **options)
    from_files = file_rows(tmp_path / "broker-a", subscribe=topic, **options)
    assert len(from_files) > 100
    assert by_place(from_files) == by_place(through_broker)


def test_a_dead_broker_leaves_its_files(
    broker: LocalBroker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    everything = batch_rows(namesrv=cluster.namesrv, subscribe=topic)
    broker.stop()
    assert by_place(file_rows(tmp_path / "broker-a", subscribe=topic)) == by_place(everything)
    topics = {row["topic"] for row in file_rows(tmp_path / "broker-a", columns="topic")}
    assert topic in topics
    assert len(topics) == 2, "all topics, but not the system's own"


def test_times_are_found_in_the_files(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    everything = by_place(batch_rows(namesrv=cluster.namesrv, subscribe=topic))
    moment = everything[len(everything) // 3]["store_timestamp"]
    milliseconds = int(moment.timestamp() * 1000)
    from_files = file_rows(tmp_path / "broker-a", subscribe=topic, startingTimestamp=milliseconds)
    assert by_place(from_files) == [row for row in everything if row["store_timestamp"] >= moment]


def test_a_key_is_found_by_the_index(
    broker: LocalBroker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.send([Message(topic, b"again", keys=["other", "k77"])], queue=1)
    everything = batch_rows(namesrv=cluster.namesrv, subscribe=topic)
    broker.stop()
    folder = tmp_path / "broker-a"
    wanted = [row for row in everything if "k77" in (row["keys"] or "").split()]
    assert len(wanted) == 2
    assert by_place(file_rows(folder, key="k77")) == by_place(wanted)
    given = {"store": str(folder), "subscribe": topic, "key": "k77"}
    reader = FilesReader(source_options(given, streaming=False))
    assert len(reader.partitions()) == 2, "and nothing else is read"
    unique = wanted[0]["msg_id"]
    assert file_rows(folder, key=unique) == [wanted[0]]
    assert file_rows(folder, subscribe=topic, key="nobody's") == []
    with pytest.raises(InvalidOptions, match="key: they are for stores"):
        source_options({"namesrv": "a:1", "subscribe": "t", "key": "k"}, streaming=False)


def test_filters_save_reading(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    given = {"store": str(tmp_path / "broker-a"), "subscribe": topic, "pushFilters": "true"}
    reader = PruningFilesReader(source_options(given, streaming=False))
    filters = [EqualTo(("queue_id",), 1), GreaterThanOrEqual(("queue_offset",), 495)]
    assert not list(reader.pushFilters(filters))
    assert [row["queue_offset"] for row in rows_of(reader)] == [495, 496, 497, 498, 499]


def test_a_topic_made_again_begins_anew(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.new_topic(queues=1)
    cluster.send_numbers(topic, range(20), queue=0)
    _delete_topic(cluster, topic)
    cluster.new_topic(queues=1, name=topic)
    cluster.send_numbers(topic, range(100, 105), queue=0)
    found = file_rows(tmp_path / "broker-a", subscribe=topic)
    assert [row["body"] for row in found] == [b"%d" % n for n in range(100, 105)]
    assert found == batch_rows(namesrv=cluster.namesrv, subscribe=topic)


@pytest.mark.parametrize("name", ["store-4.9.8", "store-5.5.0"])
def test_the_files_of_java_are_read(name: str, tmp_path: Path) -> None:
    golden = Golden(name, tmp_path)
    messages = {
        (message.topic, message.queue_id, message.queue_offset): message
        for message in dump_store(tmp_path, config=golden.config)
        if not (message.topic.startswith(("%", "rmq_")) or is_system_topic(message.topic))
    }
    found = file_rows(tmp_path)
    assert found
    for row in found:
        message = messages.pop((row["topic"], row["queue_id"], row["queue_offset"]))
        assert (row["body"], row["tags"]) == (message.body, message.tags)
        assert dict(row["properties"]) == message.properties
    assert not messages, "each is in its queue"


# Damage


def damage(folder: Path, topic: str, queue_id: int, offset: int, at: int = 100) -> int:
    """Turn a byte of a record; where the record is."""
    directory = StoreDirectory(folder)
    (entry,) = directory.entries(topic, queue_id, offset, offset + 1)
    position = int(entry["position"])
    segment = directory.segment(position)
    assert segment is not None
    with open(segment.path, "r+b") as file:
        file.seek(position - segment.start + at)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x40]))
    return position


@pytest.mark.parametrize("at", [1, 5, 22, 92])
def test_a_damaged_record_is_named_and_the_others_are_read(
    broker: LocalBroker, cluster: Cluster, topic: str, tmp_path: Path, at: int
) -> None:
    everything = by_place(batch_rows(namesrv=cluster.namesrv, subscribe=topic))
    broker.stop()
    folder = tmp_path / "broker-a"
    position = damage(folder, topic, 1, 250, at)
    with pytest.raises(DamagedRecord, match=f"message 250 .* queue 1 .* position {position} of"):
        file_rows(folder, subscribe=topic)
    found = by_place(file_rows(folder, subscribe=topic, failOnDamage="false"))
    assert len(found) == len(everything)
    (bad,) = [row for row in found if row["body_error"] is not None]
    assert (bad["queue_id"], bad["queue_offset"], bad["body"]) == (1, 250, None)
    assert f"the record at {position} of" in bad["body_error"]
    good = [{n: v for n, v in row.items() if n != "body_error"} for row in found if row != bad]
    assert good == [row for row in everything if (row["queue_id"], row["queue_offset"]) != (1, 250)]


def test_checksums_may_be_left_alone(
    broker: LocalBroker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    broker.stop()
    folder = tmp_path / "broker-a"
    damage(folder, topic, 1, 250, 92)  # in the body
    assert len(file_rows(folder, subscribe=topic, checkCrc="false")) == 1000
    damage(folder, topic, 1, 260, 5)  # in the head
    with pytest.raises(DamagedRecord, match="message 260 "):
        file_rows(folder, subscribe=topic, checkCrc="false")


def test_copies_of_a_log_count_once_and_stand_in_for_each_other(
    broker: LocalBroker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "broker-a", tmp_path / "slave")  # it stays behind
    cluster.send([Message(topic, b"%d" % n) for n in range(1000, 1100)])
    everything = by_place(batch_rows(namesrv=cluster.namesrv, subscribe=topic))
    broker.stop()
    folders = (tmp_path / "broker-a", tmp_path / "slave")
    damage(folders[0], topic, 0, 100)
    for order in (folders, folders[::-1]):
        found = by_place(file_rows(*order, subscribe=topic))
        assert [row["body"] for row in found] == [row["body"] for row in everything]
    damage(folders[1], topic, 0, 100)
    with pytest.raises(DamagedRecord, match="message 100 "):
        file_rows(*folders, subscribe=topic)


def test_several_brokers_are_one_table(tmp_path: Path) -> None:
    expected = []
    for name in ("east", "west"):
        settings = {**SETTINGS, "mappedFileSizeCommitLog": str(256 * 1024)}
        with LocalBroker(settings, folder=tmp_path / name) as running:
            cluster = Cluster(running.namesrv)
            cluster.new_topic(queues=1, name="orders")
            cluster.send([Message("orders", f"{name} {n}".encode()) for n in range(10)], queue=0)
        expected += [(name, f"{name} {n}".encode()) for n in range(10)]
    found = file_rows(tmp_path / "east", tmp_path / "west", subscribe="orders")
    assert sorted((row["broker_name"], row["body"]) for row in found) == sorted(expected)
    named = file_rows(Path(f"a={tmp_path / 'east'}"), columns="broker_name")
    assert {row["broker_name"] for row in named} == {"a"}
    with pytest.raises(InvalidOptions, match="names 'a' twice"):
        file_rows(Path(f"a={tmp_path / 'east'}"), Path(f"a={tmp_path / 'west'}"))


def test_spans_of_copies_are_covered_once() -> None:
    assert disjoint([(0, 120), (50, 140)]) == [(0, 120, 0), (120, 140, 1)]
    assert disjoint([(50, 100), (0, 140)]) == [(0, 50, 1), (50, 100, 0), (100, 140, 1)]
    assert disjoint([(0, 10), (20, 30)]) == [(0, 10, 0), (20, 30, 1)]
    assert disjoint([(5, 5)]) == []


def test_what_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="has no folder commitlog"):
        file_rows(tmp_path)
    with pytest.raises(InvalidOptions, match="read without brokers"):
        file_rows(tmp_path, namesrv="a:1")
    with pytest.raises(InvalidOptions, match=r"by spark\.read only"):
        source_options({"store": str(tmp_path)}, streaming=True)

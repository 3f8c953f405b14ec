"""Topics kept as Parquet, read again together with brokers, and brought back."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rocketq import Message
from rocketq.spark.archive import archiver as archiving
from rocketq.spark.archive import replay as replaying
from rocketq.spark.archive.archiver import Archiver, Round
from rocketq.spark.archive.delta import NoDelta
from rocketq.spark.archive.ledger import ArchiveInUse, Ledger, NoArchive
from rocketq.spark.archive.reader import ArchiveReader
from rocketq.spark.archive.replay import Pace, Replay, run_replay, sink_for
from rocketq.spark.options import InvalidOptions, sink_options, source_options
from rocketq.spark.read.data_loss import DataLoss
from rocketq.testing import LocalBroker
from tests.spark.conftest import SETTINGS, Cluster
from tests.spark.readers import batch_rows
from tests.spark.test_streams import forget

Rows = list[dict[str, Any]]


def archiver(cluster: Cluster, root: Path, topic: str, **settings: Any) -> Archiver:
    return Archiver(root, {"namesrv": cluster.namesrv, "subscribe": topic}, **settings)


def archive_rows(root: Path, **options: Any) -> Rows:
    given = {"archive": str(root), **{name: str(value) for name, value in options.items()}}
    reader = ArchiveReader(source_options(given, streaming=False))
    parts = reader.partitions()
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def by_place(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))


def orders(topic: str, numbers: range) -> list[Message]:
    return [
        Message(
            topic,
            b"%d" % n,
            tags=f"t{n % 3}",
            keys=[f"k{n}"],
            properties={"n": str(n)},
        )
        for n in numbers
    ]


def test_an_archive_and_its_broker_are_one_table(any_cluster: Cluster, tmp_path: Path) -> None:
    topic = any_cluster.new_topic(queues=3)
    keeper = archiver(any_cluster, tmp_path, topic)
    brokers = {"namesrv": any_cluster.namesrv, "subscribe": topic}
    for start in range(0, 300, 100):
        any_cluster.send(orders(topic, range(start, start + 100)))
        assert keeper.round() == Round(rows=100, files=3)
        assert keeper.round() == Round()
        through_broker = by_place(batch_rows(**brokers))
        assert by_place(archive_rows(tmp_path, subscribe=topic)) == through_broker
    any_cluster.send(orders(topic, range(300, 330)))
    through_broker = by_place(batch_rows(**brokers))
    assert len(archive_rows(tmp_path)) == 300
    both = archive_rows(tmp_path, **brokers)
    assert by_place(both) == through_broker
    keeper.close()

    # What is asked for is asked of both.
    for options in (
        {"filter": "t1"},
        {"columns": "key,value,offset"},
        {"startingOffsets": json.dumps({topic: {any_cluster.broker_name(): {"0": 50, "1": 105}}})},
    ):
        wanted = batch_rows(**brokers, **options)
        found = archive_rows(tmp_path, **brokers, **options)
        assert wanted
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    # Of several messages of one millisecond old brokers begin with any; archives with the first.
    moment = through_broker[40]["store_timestamp"]
    since = int(moment.timestamp() * 1000)
    found = archive_rows(tmp_path, **brokers, startingTimestamp=since)
    assert by_place(found) == [row for row in through_broker if row["store_timestamp"] >= moment]


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[LocalBroker]:
    settings = {**SETTINGS, "mappedFileSizeCommitLog": str(256 * 1024)}
    with LocalBroker(settings, folder=tmp_path / "broker") as broker:
        yield broker


def test_what_a_broker_has_forgotten_is_in_the_archive(
    forgetful: LocalBroker, tmp_path: Path
) -> None:
    cluster = Cluster(forgetful.namesrv)
    topic = cluster.new_topic(queues=1)
    cluster.send([Message(topic, b"%d" % i + b" " * 1000) for i in range(300)], queue=0)
    keeper = archiver(cluster, tmp_path / "archive", topic)
    keeper.round()
    cluster.send([Message(topic, b"%d" % i + b" " * 1000) for i in range(300, 600)], queue=0)
    first = forget(cluster, tmp_path / "broker", topic)
    brokers = {"namesrv": cluster.namesrv, "subscribe": topic}
    if first <= 300:
        found = archive_rows(tmp_path / "archive", **brokers)
        assert [int(row["body"]) for row in by_place(found)] == list(range(600))
    else:
        with pytest.raises(DataLoss, match=f"messages 300 to {first - 1} .*archive ends before"):
            archive_rows(tmp_path / "archive", **brokers)
        with pytest.raises(DataLoss, match=f"messages 300 to {first - 1} .*not archived"):
            keeper.round()
        tolerant = Archiver(tmp_path / "archive", {**brokers, "failOnDataLoss": "false"})
        assert tolerant.round().rows == 600 - first
        found = archive_rows(tmp_path / "archive")
        assert [int(row["body"]) for row in by_place(found)] == [
            *range(300),
            *range(first, 600),
        ]


def test_small_files_become_large_and_old_ones_go(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.new_topic(queues=1)
    now = [datetime.now(UTC).timestamp() - 100]  # the archiver's clock alone counts
    keeper = archiver(cluster, tmp_path, topic, clock=lambda: now[0], keep_days=7)
    for start in range(0, 80, 10):
        cluster.send(orders(topic, range(start, start + 10)), queue=0)
        done = keeper.round()
    assert done.compacted == 8
    (file,) = keeper.ledger.files
    assert (file.start, file.end, file.rows) == (0, 80, 80)
    assert [int(row["body"]) for row in by_place(archive_rows(tmp_path))] == list(range(80))
    assert len(list(tmp_path.rglob("*.parquet"))) == 9, "somebody may still read the old ones"
    now[0] += 3601
    keeper.round()
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    now[0] += 8 * 86_400
    assert keeper.round().expired == 1
    assert archive_rows(tmp_path, subscribe=topic) == []
    # What went is not archived again.
    cluster.send(orders(topic, range(80, 90)), queue=0)
    assert keeper.round().rows == 10


def test_an_archive_is_a_delta_table_as_well(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")
    topic = cluster.new_topic(queues=2)
    keeper = archiver(cluster, tmp_path, topic, delta=True)

    def listed() -> set[str]:
        return set(deltalake.DeltaTable(str(tmp_path / "data")).file_uris())

    def is_the_archive() -> bool:
        table = deltalake.DeltaTable(str(tmp_path / "data")).to_pyarrow_table()
        archived = archive_rows(tmp_path, columns=",".join(table.column_names))
        return by_place(table.to_pylist()) == by_place(archived)

    for start in range(0, 300, 100):
        cluster.send(orders(topic, range(start, start + 100)))
        keeper.round()
        assert is_the_archive()
    assert len(listed()) == 6

    # What was missed when a process died is made up for; small files that became one are gone.
    archiver(cluster, tmp_path, topic).round()
    monkeypatch.setattr(archiving, "_FILES_TO_COMPACT", 3)
    keeper = archiver(cluster, tmp_path, topic, delta=True)
    assert keeper.round().compacted == 6
    assert len(listed()) == 2
    assert is_the_archive()


def test_a_delta_table_without_its_package_is_told_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(NoDelta, match=r"need the extra delta: pip install '.\[delta\]'"):
        Archiver(tmp_path, {"namesrv": "127.0.0.1:1", "subscribe": "t"}, delta=True)


def test_files_end_with_the_day_and_when_they_are_full(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.new_topic(queues=1)
    cluster.send([Message(topic, bytes(1000)) for _ in range(400)], queue=0)
    given = {"namesrv": cluster.namesrv, "subscribe": topic, "pullBytes": "50000"}
    keeper = Archiver(tmp_path, given, file_bytes=100_000)
    assert keeper.round().files > 3
    files = keeper.ledger.files
    assert [file.start for file in files][1:] == [file.end for file in files][:-1]
    assert (files[0].start, files[-1].end, sum(file.rows for file in files)) == (0, 400, 400)
    assert {file.day for file in files} <= {str(datetime.now(UTC).date()), files[0].day}


def test_a_crash_leaves_nothing_doubled(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.new_topic(queues=2)
    cluster.send(orders(topic, range(100)))
    with monkeypatch.context() as crash:

        def refuse(*_: object) -> None:
            raise KeyboardInterrupt

        crash.setattr(Ledger, "commit", refuse)
        with pytest.raises(KeyboardInterrupt):
            archiver(cluster, tmp_path, topic).round()
    assert list(tmp_path.rglob("*.parquet"))
    assert Ledger.opened(tmp_path).files == []
    cluster.send(orders(topic, range(100, 110)))
    archiver(cluster, tmp_path, topic).round()
    assert sorted(int(row["body"]) for row in archive_rows(tmp_path)) == list(range(110))


def test_two_archivers_do_not_meddle(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.new_topic(queues=1)
    first, second = (archiver(cluster, tmp_path, topic) for _ in range(2))
    cluster.send(orders(topic, range(10)))
    first.round()
    with pytest.raises(ArchiveInUse):
        second.round()
    assert len(archive_rows(tmp_path)) == 10


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoArchive, match="rocketq archive run"):
        archive_rows(tmp_path)
    with pytest.raises(InvalidOptions, match=r"by spark\.read only"):
        source_options({"archive": str(tmp_path)}, streaming=True)
    with pytest.raises(InvalidOptions, match="not for archives"):
        archive_rows(tmp_path, sqlFilter="a = 1")
    with pytest.raises(InvalidOptions, match="startingOffsets is earliest"):
        archive_rows(tmp_path, startingOffsets="latest")


# Bringing back


@pytest.fixture
def archived(cluster: Cluster, tmp_path: Path) -> str:
    topic = cluster.new_topic(queues=3)
    for queue in range(3):
        messages = orders(topic, range(100 * queue, 100 * queue + 100))
        for message in messages:
            message.sharding_key = f"s{queue}"
        cluster.send(messages, queue=queue)
    archiver(cluster, tmp_path, topic).round()
    return topic


def replayed(cluster: Cluster, root: Path, replay: Replay, **pace: Any) -> int:
    sink = sink_for(sink_options({"namesrv": cluster.namesrv}), replay.target)
    return run_replay(root, replay, sink, **pace)


def test_messages_come_back_in_order_with_all_they_had(
    cluster: Cluster, tmp_path: Path, archived: str
) -> None:
    target = cluster.new_topic(queues=3)
    assert replayed(cluster, tmp_path, Replay(topic=archived, target=target)) == 300
    queues: dict[int, list[int]] = defaultdict(list)
    for row in by_place(batch_rows(namesrv=cluster.namesrv, subscribe=target)):
        number = int(row["body"])
        queues[row["queue_id"]].append(number)
        said = dict(row["properties"])
        assert (row["tags"], row["keys"], said["n"]) == (
            f"t{number % 3}",
            f"k{number}",
            f"{number}",
        )
        assert said["__SHARDINGKEY"] == f"s{number // 100}"
    assert sorted(queues.values()) == [list(range(start, start + 100)) for start in (0, 100, 200)]
    # The same replay once more brings nothing back twice, with what it noted and without.
    replayed(cluster, tmp_path, Replay(topic=archived, target=target))
    for noted in (tmp_path / "replays").iterdir():
        noted.unlink()
    replayed(cluster, tmp_path, Replay(topic=archived, target=target))
    assert cluster.size(target) == 300
    assert replayed(cluster, tmp_path, Replay(topic=archived, target=target, name="again")) == 300
    assert cluster.size(target) == 600


class CutShort(Pace):
    """Ctrl-C after so many batches."""

    def __init__(self, after: int) -> None:
        super().__init__(None)
        self._left = after

    def take(self, count: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt


def test_a_replay_that_was_cut_short_goes_on(
    cluster: Cluster, tmp_path: Path, archived: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "_OFFSETS_AT_ONCE", 40)
    target = cluster.new_topic(queues=2)
    replay = Replay(topic=archived, target=target)
    for after in (1, 2, 4):
        with pytest.raises(KeyboardInterrupt):
            replayed(cluster, tmp_path, replay, pace=CutShort(after))
    replayed(cluster, tmp_path, replay)
    found = [int(row["body"]) for row in batch_rows(namesrv=cluster.namesrv, subscribe=target)]
    assert sorted(found) == list(range(300))


def test_a_range_of_time_comes_back(cluster: Cluster, tmp_path: Path, archived: str) -> None:
    target = cluster.new_topic(queues=1)
    rows = archive_rows(tmp_path)
    times = sorted(int(row["store_timestamp"].timestamp() * 1000) for row in rows)
    since, until = times[60], times[200]
    replay = Replay(topic=archived, target=target, since_ms=since, until_ms=until)
    wanted = sum(since <= each < until for each in times)
    assert replayed(cluster, tmp_path, replay) == wanted
    assert cluster.size(target) == wanted


def test_a_pace_is_kept() -> None:
    slept: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(100, lambda: now[0], sleep)
    for _ in range(5):
        pace.take(50)
    assert sum(slept) == pytest.approx(2.0)
    Pace(None, lambda: now[0], sleep).take(1_000_000)
    assert sum(slept) == pytest.approx(2.0)


# The command


def rocketq(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rocketq.cli", "archive", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_archives_and_brings_back(cluster: Cluster, tmp_path: Path) -> None:
    topic, target = cluster.new_topic(), cluster.new_topic()
    cluster.send_numbers(topic, range(50))
    where = (str(tmp_path / "a"), "-n", cluster.namesrv)
    done = rocketq("run", *where, "--topics", topic, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "50 messages archived in" in done.stdout
    back = rocketq("replay", *where, "--topic", topic, "--to-topic", target, "--from", "2020-01-01")
    assert (back.returncode, back.stderr) == (0, "")
    assert back.stdout == f"50 messages of {topic} are in {target}\n"
    assert cluster.size(target) == 50
    wrong = rocketq("replay", str(tmp_path), "--topic", topic)
    assert wrong.returncode == 1
    assert "is no archive" in wrong.stderr


def test_a_commit_counts_large_archives(tmp_path: Path) -> None:
    assert archiving.FILE_BYTES == 128 << 20
    ledger = Ledger.opened(tmp_path, create=True)
    ledger.commit((), ())
    other = Ledger.opened(tmp_path)
    other.commit((), ())
    with pytest.raises(ArchiveInUse):
        ledger.commit((), ())
    ledger.refresh()
    ledger.commit((), ())

"""Consumer offsets: how far groups have read, in memory and on disk."""

import errno
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.broker.tables.consumer_offsets import ConsumerOffsets
from rocketq.broker.tables.offset_table import PAIR_SIZE, OffsetTable, key_of
from rocketq.common import json
from rocketq.common.clock import ManualClock
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.headers import CloneGroupOffset, QueryConsumerOffset, UpdateConsumerOffset
from tests.broker.golden import config_file
from tests.broker.harness import running_broker
from tests.store.disks import FaultyDisk


def offsets_in(folder: Path) -> ConsumerOffsets:
    return ConsumerOffsets(folder / "consumerOffset.json", ManualClock(), version_step=3)


def test_what_is_committed_is_found(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)

    offsets.commit("group", "topic", 0, 25)
    offsets.commit("group", "topic", 1, 24)

    assert offsets.query("group", "topic", 0) == 25
    assert offsets.query("group", "topic", 2) == -1
    assert offsets.query("other", "topic", 0) == -1
    assert offsets.stored("group", "topic") == {0: 25, 1: 24}


def test_no_group_stays_ahead_of_a_log_that_has_lost_its_end(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("group", "topic", 0, 25)
    offsets.commit("group", "topic", 1, 3)

    offsets.follow_log(lambda topic, queue_id: 20)

    assert offsets.stored("group", "topic") == {0: 20, 1: 3}


def test_a_negative_offset_means_nothing_was_consumed_and_is_not_stored(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("group", "topic", 0, 7)

    offsets.commit("group", "topic", 0, -1)
    offsets.commit("group", "topic", 1, -1)

    assert offsets.stored("group", "topic") == {0: 7}


def test_a_consumer_may_go_back_on_purpose(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("group", "topic", 0, 7)

    offsets.commit("group", "topic", 0, 3, client="somebody")

    assert offsets.query("group", "topic", 0) == 3
    assert "went back" in caplog.text
    assert "somebody" in caplog.text


def test_a_pending_reset_wins_until_a_pull_has_taken_it(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("group", "topic", 0, 100)

    offsets.reset("group", "topic", 0, 10)

    assert offsets.has_reset("group", "topic", 0)
    assert not offsets.has_reset("group", "topic", 1)
    assert offsets.query("group", "topic", 0) == 10
    assert offsets.take_reset("group", "topic", 0) == 10
    assert offsets.take_reset("group", "topic", 0) is None
    assert offsets.query("group", "topic", 0) == 10


def test_the_version_advances_with_every_few_commits(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)

    for offset in range(7):
        offsets.commit("group", "topic", 0, offset)

    assert offsets.data_version.counter == 2


async def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("group", "topic", 0, 25)
    offsets.commit("group", "%RETRY%group", 0, 2)
    offsets.record_pull("group", "topic", 0, 32)
    await offsets.close()

    again = offsets_in(tmp_path)
    again.load()

    assert again.query("group", "topic", 0) == 25
    assert again.pull_offset("group", "topic", 0) == 32
    assert sorted(again.topics_of("group")) == ["%RETRY%group", "topic"]
    assert again.groups_of("topic") == ["group"]


async def test_the_file_has_rocketmqs_shape(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("group", "topic", 0, 25)
    offsets.commit("group", "topic", 1, 24)
    await offsets.close()

    text = (tmp_path / "consumerOffset.json").read_text()

    assert '"topic@group":{' in text
    assert "0:25," in text
    assert '"groupTopicMap":{' in text


async def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("group", "topic", 0, 1)
    offsets.record_pull("group", "topic", 0, 1)
    await offsets.close()
    (tmp_path / "consumerOffset.json").unlink()

    offsets.commit("group", "topic", 0, 1)
    offsets.record_pull("group", "topic", 0, 1)
    await offsets.close()

    assert not (tmp_path / "consumerOffset.json").exists()


def test_removing_and_cloning_groups(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("one", "topic", 0, 5)
    offsets.commit("two", "topic", 0, 3)
    offsets.commit("two", "other", 0, 9)

    offsets.clone("one", "three", "topic")
    assert offsets.stored("three", "topic") == {0: 5}
    assert offsets.minimum("topic") == {0: 3}
    assert offsets.minimum("topic", without_groups=["two"]) == {0: 5}

    offsets.remove_group("two")
    assert offsets.groups_of("other") == []
    offsets.remove_topic("topic")
    assert offsets.topics_of("one") == []


@pytest.mark.parametrize("store", ["store-4.9.8", "store-5.5.0"])
def test_files_of_java_brokers_are_read(store: str, tmp_path: Path) -> None:
    path, expected = config_file(store, "consumerOffset.json", tmp_path)

    offsets = ConsumerOffsets(path, ManualClock())
    offsets.load()

    for key, queues in expected["offsetTable"].items():
        topic, _, group = key.partition("@")
        stored = {int(queue_id): offset for queue_id, offset in queues.items()}
        assert offsets.stored(group, topic) == stored


def test_a_copy_costs_little_and_never_changes(tmp_path: Path) -> None:
    offsets = ConsumerOffsets(tmp_path / "offsets.json", ManualClock())
    for number in range(1_000):
        for queue_id in range(200):
            offsets.commit(f"group-{number}", "topic", queue_id, 1)
    began = time.thread_time()
    body = offsets.body()
    offsets.commit("group-9", "topic", 0, 2)
    took_s = time.thread_time() - began
    began = time.thread_time()
    first = body().offset_table
    everything = {key: dict(queues) for key, queues in first.items()}
    assert took_s < (time.thread_time() - began) / 10
    assert first["topic@group-9"][0] == 1

    offsets.commit("group-0", "topic", 0, 2)
    offsets.commit("group-0", "topic", 0, 3)
    offsets.commit("new", "topic", 0, 4)
    offsets.clone("group-1", "group-2", "topic")
    offsets.remove_group("group-3")
    second = offsets.body()().offset_table
    offsets.commit("group-0", "topic", 0, 5)
    offsets.commit("group-3", "topic", 7, 6)

    assert first == everything
    assert second["topic@group-0"][0] == 3
    assert second["topic@new"] == {0: 4}
    assert "topic@group-3" not in second
    assert offsets.query("group-0", "topic", 0) == 5
    assert offsets.stored("group-3", "topic") == {7: 6}


@pytest.mark.parametrize("is_failing", [False, True])
async def test_progress_is_written_behind_the_log(tmp_path: Path, is_failing: bool) -> None:
    """Else a loss of power takes messages that groups, pops or transactions have gone on from."""
    disk = FaultyDisk()
    async with running_broker(tmp_path, disk=disk, flush_interval_commit_log=60_000) as broker:
        await broker.send("topic")
        await broker.heartbeat(topic="topic")
        if is_failing:
            disk.fail("sync", errno.EIO, only="commitlog")
        update = UpdateConsumerOffset(
            consumer_group="group", topic="topic", queue_id=0, commit_offset=1
        )
        assert (await broker.call(Command.request(update))).code == 0
    saved = tmp_path / "config" / "consumerOffset.json"
    assert saved.exists() is not is_failing
    if not is_failing:
        assert json.loads(saved.read_bytes())["offsetTable"]["topic@group"] == {"0": 1}


async def test_offsets_are_not_cloned_for_groups_without_end(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_made_per_connection=5) as broker:
        await broker.send("topic")
        await broker.heartbeat(topic="topic")
        update = UpdateConsumerOffset(
            consumer_group="group", topic="topic", queue_id=0, commit_offset=1
        )
        assert (await broker.call(Command.request(update))).code == 0
        codes = []
        for number in range(10):
            clone = CloneGroupOffset(src_group="group", dest_group=f"copy-{number}", topic="topic")
            codes.append((await broker.call(Command.request(clone))).code)
        assert codes[0] == ResponseCode.SUCCESS
        assert codes[-1] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        query = QueryConsumerOffset(
            consumer_group="copy-9", topic="topic", queue_id=0, set_zero_if_not_found=False
        )
        assert (await broker.call(Command.request(query))).code == ResponseCode.QUERY_NOT_FOUND


# Limits


def test_there_is_room_for_so_many_offsets(tmp_path: Path) -> None:
    limit = 50
    offsets = ConsumerOffsets(tmp_path / "offsets.json", ManualClock(), limit=lambda: limit)
    taken = [
        (group, queue_id)
        for group in range(20)
        for queue_id in range(6)
        if offsets.commit(f"group-{group}", "topic", queue_id, 1)
    ]
    # Four for each pair of group and topic, one for each queue.
    assert len(taken) == 5 * 6
    assert offsets.commit("group-0", "topic", 0, 2)
    offsets.clone("group-0", "another", "topic")
    assert offsets.stored("another", "topic") == {}
    offsets.reset("another", "topic", 0, 7)
    assert not offsets.has_reset("another", "topic", 0)
    for group in range(100):
        offsets.record_pull(f"group-{group}", "topic", 0, 1)
    assert offsets.pull_offset("group-9", "topic", 0) == 1
    assert offsets.pull_offset("group-10", "topic", 0) == -1
    offsets.remove_group("group-0")
    assert offsets.commit("another", "topic", 0, 2)


async def test_a_consumer_is_told_that_there_is_no_room_for_its_offset(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_consumer_offsets=6) as broker:
        await broker.send("topic")
        await broker.heartbeat(topic="topic")
        codes = []
        for queue_id in (0, 1, 2, 3, 0):
            update = UpdateConsumerOffset(
                consumer_group="group", topic="topic", queue_id=queue_id, commit_offset=queue_id + 1
            )
            codes.append((await broker.call(Command.request(update))).code)
        assert codes == [0, 0, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR, 0]


changes = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit", "remove topic", "remove group", "clone", "copy"]),
        *[st.integers(0, 3)] * 4,
    )
)


@given(changes)
def test_tables_know_who_has_what(steps: list[tuple[str, int, int, int, int]]) -> None:
    table = OffsetTable()
    plain: dict[tuple[str, str], dict[int, int]] = {}
    copies = []
    for what, a, b, queue_id, offset in steps:
        topic, group = f"t{a}", f"g{b}"
        if what == "commit":
            table.set(key_of(group, topic), queue_id, offset)
            plain.setdefault((topic, group), {})[queue_id] = offset
        elif what == "clone" and (topic, group) in plain:
            table.put(key_of("g9", topic), dict(table.queues(key_of(group, topic))))
            plain[topic, "g9"] = dict(plain[topic, group])
        elif what == "remove topic":
            table.remove([key_of(each, topic) for each in table.groups_of(topic)])
            plain = {pair: queues for pair, queues in plain.items() if pair[0] != topic}
        elif what == "remove group":
            table.remove([key_of(group, each) for each in table.topics_of(group)])
            plain = {pair: queues for pair, queues in plain.items() if pair[1] != group}
        elif what == "copy":
            expected = {key_of(g, t): dict(queues) for (t, g), queues in plain.items()}
            copies.append((table.copy(), expected))
    copies.append((table.copy(), {key_of(g, t): queues for (t, g), queues in plain.items()}))
    for frozen, expected in copies:
        assert dict(frozen) == expected
        assert len(frozen) == len(expected)
    for number in (*range(4), 9):
        topic, group = f"t{number}", f"g{number}"
        assert set(table.groups_of(topic)) == {g for t, g in plain if t == topic}
        assert set(table.topics_of(group)) == {t for t, g in plain if g == group}
    assert table.size == sum(PAIR_SIZE + len(queues) for queues in plain.values())


def test_a_large_table_is_written_in_small_pieces(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    for number in range(2_000):
        for queue_id in range(8):
            offsets.commit(f"group-{number}", f"topic-{number % 10}", queue_id, number)
    pieces = list(offsets._encode()())
    assert max(map(len, pieces)) < 500
    whole = b"".join(pieces)
    table = json.loads(whole)["offsetTable"]
    assert len(table) == 2_000
    assert table["topic-3@group-13"] == {str(queue_id): 13 for queue_id in range(8)}

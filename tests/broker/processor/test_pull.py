"""Pulling: every outcome of the table, filters, waiting, and how much one pull returns."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketq.message import MessageExt
from rocketq.message.flags import PullFlag
from rocketq.message.record.reader import decode_records
from rocketq.remoting import (
    Command,
    ConnectionLost,
    RemotingClient,
    RequestCode,
    ResponseCode,
)
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.headers import (
    PullMessage,
    QueryConsumerOffset,
    ResetOffset,
    UpdateConsumerOffset,
)
from rocketq.store.files.disk import Disk
from tests.broker.harness import TestBroker, pull_request, running_broker, send_request

SUSPEND = PullFlag.SUSPEND | PullFlag.SUBSCRIPTION


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with running_broker(tmp_path, enable_property_filter=True) as running:
        yield running


@pytest.fixture
async def filled(broker: TestBroker) -> TestBroker:
    """Ten messages in queue 0 of `topic`: even ones tagged A, odd ones B, numbered by `n`."""
    for n in range(10):
        tag = "B" if n % 2 else "A"
        await broker.send(
            "topic", b"%d" % n, properties={"UNIQ_KEY": "u", "TAGS": tag, "n": str(n)}
        )
    return broker


def found(reply: Command) -> list[MessageExt]:
    assert reply.code == ResponseCode.SUCCESS, reply
    assert reply.remark == "FOUND"
    return decode_records(reply.body)


def offsets(reply: Command) -> tuple[int, int, int]:
    fields = reply.ext_fields
    return int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"])


async def test_messages_come_in_order_and_say_where_to_go_on(filled: TestBroker) -> None:
    reply = await filled.pull("topic", 3, max_msg_nums=4)

    assert [message.body for message in found(reply)] == [b"3", b"4", b"5", b"6"]
    assert offsets(reply) == (7, 0, 10)
    assert reply.ext_fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "7",
        "minOffset": "0",
        "maxOffset": "10",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }


@pytest.mark.parametrize(
    ("asked", "code", "remark", "next_offset"),
    [
        (10, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 10),
        (11, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 10),
        (107, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 10),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    ],
)
async def test_offsets_outside_the_queue_are_corrected(
    filled: TestBroker, asked: int, code: int, remark: str, next_offset: int
) -> None:
    reply = await filled.pull("topic", asked)

    assert (reply.code, reply.remark) == (code, remark)
    assert offsets(reply) == (next_offset, 0, 10)
    assert not len(reply.body)


@pytest.mark.parametrize(
    ("asked", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (5, ResponseCode.PULL_OFFSET_MOVED)]
)
async def test_a_queue_without_messages(filled: TestBroker, asked: int, code: int) -> None:
    reply = await filled.pull("topic", asked, queue_id=2)

    assert reply.code == code
    assert reply.remark in ("NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE")
    assert offsets(reply)[0] == 0


@pytest.mark.parametrize(
    ("more", "code", "remark"),
    [
        ({"topic": "nothing"}, 17, "topic[nothing] not exist, apply first please! \nSee https://"),
        (
            {"queue_id": 99},
            29,
            "queueId[99] is illegal, topic:[topic] topicConfig.readQueueNums:[4]",
        ),
        ({"queue_id": -1}, 29, "queueId[-1] is illegal"),
        ({"sys_flag": 0}, 24, "the consumer's group info not exist\nSee https://"),
        ({"subscription": "a >", "expression_type": "SQL92"}, 23, "parse the consumer's"),
        ({"sys_flag": 12}, 23, "class"),
        ({"consumer_group": "not possible!"}, 26, "subscription group [not possible!] does not"),
    ],
)
async def test_what_cannot_be_pulled_is_refused(
    filled: TestBroker, more: dict[str, Any], code: int, remark: str
) -> None:
    reply = await filled.pull(more.pop("topic", "topic"), **more)

    assert reply.code == code
    assert remark in (reply.remark or "")
    assert reply.ext_fields == {}


async def test_tags_are_filtered_by_their_hash(filled: TestBroker) -> None:
    reply = await filled.pull("topic", subscription="B || C")

    assert [message.body for message in found(reply)] == [b"1", b"3", b"5", b"7", b"9"]
    assert offsets(reply)[0] == 10


async def test_a_filter_that_nothing_passes_moves_on(filled: TestBroker) -> None:
    reply = await filled.pull("topic", subscription="C")

    assert (reply.code, reply.remark) == (
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        "NO_MATCHED_MESSAGE",
    )
    assert offsets(reply)[0] == 10


async def test_sql_filters_look_at_properties(filled: TestBroker) -> None:
    reply = await filled.pull(
        "topic", subscription="n BETWEEN 3 AND 5 AND TAGS = 'B'", expression_type="SQL92"
    )

    assert [message.body for message in found(reply)] == [b"3", b"5"]


async def test_sql_filters_can_be_switched_off(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("topic")
        reply = await broker.pull("topic", subscription="n > 3", expression_type="SQL92")

    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "does not support consumer to filter message by SQL92" in (reply.remark or "")


async def test_the_subscription_of_the_heartbeat_is_used(filled: TestBroker) -> None:
    await filled.heartbeat(group="group", topic="topic", subscription="A", version=5)

    reply = await filled.pull("topic", sys_flag=0, subscription=None, sub_version=5)
    assert [message.body for message in found(reply)] == [b"0", b"2", b"4", b"6", b"8"]

    early = await filled.pull("topic", sys_flag=0, subscription=None, sub_version=6)
    assert (early.code, early.remark) == (
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        "the consumer's subscription not latest",
    )
    other = await filled.pull("BenchmarkTest", sys_flag=0, subscription=None)
    assert other.code == ResponseCode.SUBSCRIPTION_NOT_EXIST


async def test_a_heartbeat_with_a_wrong_filter_registers_none(filled: TestBroker) -> None:
    await filled.heartbeat(subscription="a >", expression_type="SQL92")

    reply = await filled.pull("topic", sys_flag=0, subscription=None, sub_version=1)

    assert reply.code == ResponseCode.FILTER_DATA_NOT_EXIST


@pytest.mark.parametrize(
    ("options", "forbidden", "remark"),
    [
        ({"broker_permission": 2}, "1", "the broker[127.0.0.1] pulling message is forbidden"),
        ({"lite_pull_message_enable": False}, "1", "for lite pull consumer is forbidden"),
    ],
)
async def test_a_broker_can_refuse_to_be_read(
    tmp_path: Path, options: dict[str, Any], forbidden: str, remark: str
) -> None:
    async with running_broker(tmp_path, **options) as broker:
        await broker.send("topic")
        request = Command.request(
            pull_request("topic").header(PullMessage), code=RequestCode.LITE_PULL_MESSAGE
        )
        reply = await broker.call(request)

    assert reply.code == ResponseCode.NO_PERMISSION
    assert reply.ext_fields == {"forbiddenType": forbidden}
    assert remark in (reply.remark or "")


async def test_a_group_can_be_stopped(filled: TestBroker) -> None:
    config = SubscriptionGroupConfig(group_name="group", consume_enable=False)
    await filled.call(
        Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, config.encode())
    )

    reply = await filled.pull("topic")

    assert reply.code == ResponseCode.NO_PERMISSION
    assert reply.ext_fields == {"forbiddenType": "2"}


async def test_broadcasting_can_be_forbidden_to_a_group(filled: TestBroker) -> None:
    config = SubscriptionGroupConfig(group_name="group", consume_broadcast_enable=False)
    await filled.call(
        Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, config.encode())
    )
    await filled.heartbeat(message_model="BROADCASTING")

    reply = await filled.pull("topic", sys_flag=0, subscription=None)

    assert reply.ext_fields == {"forbiddenType": "4"}


# How much


async def test_as_many_messages_as_asked_for(filled: TestBroker) -> None:
    await asyncio.gather(
        *(filled.client.send(filled.address, send_request("many")) for _ in range(500))
    )

    assert len(found(await filled.pull("many", max_msg_nums=500))) == 500
    assert len(found(await filled.pull("many"))) == 32


async def test_no_more_bytes_than_a_quarter_megabyte_unless_asked_for(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, mapped_file_size_commit_log=1 << 24) as broker:
        for _ in range(80):
            await broker.send("big", b"x" * 10_000)

        default = await broker.pull("big", max_msg_nums=1000)
        small = await broker.pull("big", max_msg_nums=1000, max_msg_bytes=50_000)
        tiny = await broker.pull("big", max_msg_nums=1000, max_msg_bytes=1)
        all_of_it = await broker.pull("big", max_msg_nums=1000, max_msg_bytes=2**31 - 1)

    assert 200_000 < len(default.body) <= 262_144
    assert 30_000 < len(small.body) <= 50_000
    assert len(found(tiny)) == 1
    assert len(found(all_of_it)) == 80


# Waiting


async def test_a_pull_at_the_end_waits_for_the_next_message(filled: TestBroker) -> None:
    pull = filled.start_pull("topic", 10, sys_flag=SUSPEND, suspend_timeout_millis=15_000)
    await filled.send("topic", b"other queue", queue_id=1)
    assert not pull.done()

    await filled.send("topic", b"awaited")

    assert [message.body for message in found(await pull)] == [b"awaited"]


async def test_a_pull_of_a_queue_without_messages_waits_too(broker: TestBroker) -> None:
    await broker.send("topic", queue_id=1)
    pull = broker.start_pull("topic", 0, sys_flag=SUSPEND, suspend_timeout_millis=15_000)
    await broker.send("topic", b"first", queue_id=0)

    assert [message.body for message in found(await pull)] == [b"first"]


async def test_a_waiting_pull_is_not_woken_by_what_it_does_not_want(filled: TestBroker) -> None:
    pull = filled.start_pull(
        "topic", 10, sys_flag=SUSPEND, subscription="B", suspend_timeout_millis=15_000
    )
    await filled.send("topic", properties={"UNIQ_KEY": "u", "TAGS": "A"})
    await filled.send("topic", properties={"UNIQ_KEY": "u"})
    assert not pull.done()
    await filled.send("topic", b"wanted", properties={"UNIQ_KEY": "u", "TAGS": "B"})

    reply = await pull
    assert [message.body for message in found(reply)] == [b"wanted"]
    assert offsets(reply)[0] == 13


async def test_a_pull_whose_time_is_over_says_so(filled: TestBroker) -> None:
    reply = await filled.pull("topic", 10, sys_flag=SUSPEND, suspend_timeout_millis=50)

    assert (reply.code, reply.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")
    assert offsets(reply) == (10, 0, 10)


async def test_a_pull_that_saw_only_what_it_did_not_want_goes_on_behind_it(
    filled: TestBroker,
) -> None:
    pull = filled.start_pull(
        "topic", 10, sys_flag=SUSPEND, subscription="B", suspend_timeout_millis=300
    )
    await filled.send("topic", properties={"UNIQ_KEY": "u", "TAGS": "A"})

    reply = await pull

    assert (reply.code, reply.remark) == (
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        "NO_MATCHED_MESSAGE",
    )
    assert offsets(reply)[0] == 11


async def test_many_pulls_wait_and_all_are_answered(filled: TestBroker) -> None:
    pulls = [
        filled.start_pull(
            "topic",
            10,
            consumer_group=f"group-{n}",
            sys_flag=SUSPEND,
            suspend_timeout_millis=15_000,
        )
        for n in range(200)
    ]
    await filled.pull("topic")
    await filled.send("topic", b"for everybody")

    for reply in await asyncio.gather(*pulls):
        assert [message.body for message in found(reply)] == [b"for everybody"]


async def test_a_client_that_leaves_while_it_waits_is_forgotten(filled: TestBroker) -> None:
    client = RemotingClient()
    await client.call(filled.address, pull_request("topic"))
    pull = pull_request("topic", 10, sys_flag=SUSPEND, suspend_timeout_millis=15_000)
    waiting = client.send(filled.address, pull, 20.0)
    await client.close()
    with pytest.raises(ConnectionLost):
        await waiting

    assert (await filled.send("topic", b"nobody waits")).code == ResponseCode.SUCCESS


# Offsets


async def test_the_first_run_commits_the_offset_it_brings(filled: TestBroker) -> None:
    await filled.pull("topic", 3, sys_flag=PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET,
                      commit_offset=2)  # fmt: skip

    query = QueryConsumerOffset(consumer_group="group", topic="topic", queue_id=0)
    reply = await filled.call(Command.request(query))
    assert reply.ext_fields == {"offset": "2"}


async def test_a_reset_is_handed_to_the_next_pull_once(filled: TestBroker) -> None:
    await filled.pull("topic")
    reset = ResetOffset(topic="topic", group="group", timestamp=-1, is_force=True, queue_id=0,
                        offset=4)  # fmt: skip
    assert (await filled.call(Command.request(reset))).code == ResponseCode.SUCCESS

    update = UpdateConsumerOffset(
        consumer_group="group", topic="topic", queue_id=0, commit_offset=9
    )
    ignored = await filled.call(Command.request(update))
    assert (ignored.code, ignored.remark) == (0, "Offset has been previously reset")
    told = await filled.pull("topic", 9)
    assert (told.code, told.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert offsets(told) == (4, 0, 10)

    assert found(await filled.pull("topic", 4))[0].body == b"4"
    accepted = await filled.call(Command.request(replace(update, commit_offset=5)))
    assert accepted.remark is None


async def test_what_is_not_in_memory_is_fetched_by_a_thread_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart the kernel is asked: what it would have to read must not stop the loop."""
    async with running_broker(tmp_path) as broker:
        for n in range(5):
            await broker.send("topic", b"%d" % n)
    loaded: list[tuple[int, int, bool]] = []

    def load(disk: Disk, descriptor: int, offset: int, size: int) -> None:
        loaded.append((offset, size, threading.current_thread() is threading.main_thread()))

    monkeypatch.setattr(Disk, "is_resident", lambda disk, mapping, offset, size: bool(loaded))
    monkeypatch.setattr(Disk, "load", load)
    async with running_broker(tmp_path) as broker:
        reply = await broker.pull("topic", 1)

        assert [message.body for message in found(reply)] == [b"1", b"2", b"3", b"4"]
        assert offsets(reply) == (5, 0, 5)
        ((_, size, on_the_loop),) = loaded
        assert size == sum(len(message.record) for message in decode_records(reply.body))
        assert not on_the_loop


async def test_a_pull_that_looks_into_messages_looks_at_few_of_them_at_once(
    tmp_path: Path,
) -> None:
    """However long its expression is, and however much the messages have to say."""
    long = " OR ".join(f"a{number} = {number}" for number in range(400))
    async with running_broker(tmp_path, enable_property_filter=True) as broker:
        for number in range(100):
            properties = {"UNIQ_KEY": f"{number}", "b": "1" * (20_000 if number >= 50 else 1)}
            assert (await broker.send("topic", properties=properties)).code == 0
        for expression, offset in ((long, 0), ("b > 1.5 AND c = 1", 50)):
            reply = await broker.pull(
                "topic", offset, subscription=expression, expression_type="SQL92", max_msg_nums=90
            )
            assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
            looked_at = int(reply.ext_fields["nextBeginOffset"]) - offset
            assert 1 <= looked_at < 50
        everything = "b IS NOT NULL"
        reply = await broker.pull(
            "topic", subscription=everything, expression_type="SQL92", max_msg_nums=50
        )
        assert reply.code == ResponseCode.SUCCESS
        assert int(reply.ext_fields["nextBeginOffset"]) == 50


@pytest.mark.parametrize("name", ["queueId", "maxMsgNums", "sysFlag", "maxMsgBytes"])
async def test_a_number_that_is_too_large_is_refused_and_no_surprise(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("topic")
        request = pull_request("topic")
        request.ext_fields[name] = str(2**40)
        reply = await broker.call(request)
        assert reply.code == ResponseCode.INVALID_PARAMETER, reply
    assert not [record for record in caplog.records if record.levelname == "ERROR"]

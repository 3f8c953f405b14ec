"""Pop over the wire: taken, hidden, acknowledged, and back again when not."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.bodies.assignment import BatchAck, BatchAckRequest
from rocketq.remoting.headers.admin import ResetOffset, ViewBrokerStatsData
from rocketq.remoting.headers.offsets import (
    GetMaxOffset,
    GetMaxOffsetResponse,
    QueryConsumerOffset,
    QueryConsumerOffsetResponse,
)
from rocketq.remoting.headers.pop import (
    BatchAckMessageResponse,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    Notification,
    NotificationResponse,
    PeekMessage,
    PollingInfo,
    PollingInfoResponse,
    PopMessage,
    PopMessageResponse,
)
from rocketq.store import FlushDiskType
from tests.broker.harness import TestBroker, running_broker, send_request
from tests.broker.pop.pops import Popped, ack_request
from tests.broker.pop.pops import popped as client_popped
from tests.waiting import eventually

TOPIC = "BenchmarkTest"
FAST: dict[str, Any] = {"timer_precision_ms": 100, "revive_interval": 50}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with running_broker(tmp_path, **FAST) as running:
        yield running


def pop_request(topic: str = TOPIC, **more: Any) -> Command:
    options: dict[str, Any] = {
        "consumer_group": "group",
        "topic": topic,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": 60_000,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
    }
    return Command.request(PopMessage(**(options | more)))


def popped(reply: Command, topic: str = TOPIC, group: str = "group") -> list[Popped]:
    return client_popped(reply, topic, group, "broker-t")


async def pop(broker: TestBroker, **more: Any) -> list[Popped]:
    reply = await broker.call(pop_request(**more), timeout_s=40)
    return [] if reply.code == ResponseCode.POLLING_TIMEOUT else popped(reply)


async def pop_until(broker: TestBroker, count: int, **more: Any) -> list[Popped]:
    """Pop again and again until so many have come."""
    found: list[Popped] = []

    async def enough() -> bool:
        found.extend(await pop(broker, **more))
        return len(found) >= count

    await eventually(enough)
    return found


async def test_what_is_popped_is_hidden_from_others(broker: TestBroker) -> None:
    for number in range(5):
        await broker.send(TOPIC, b"%d" % number, queue_id=number % 3)

    first = await pop(broker)

    assert sorted(each.body for each in first) == [b"0", b"1", b"2", b"3", b"4"]
    assert await pop(broker) == []
    assert len(await pop(broker, consumer_group="others")) == 5


async def test_no_more_than_asked_for_and_the_rest_is_told(broker: TestBroker) -> None:
    for number in range(10):
        await broker.send(TOPIC, b"%d" % number)

    reply = await broker.call(pop_request(max_msg_nums=4, queue_id=0))

    header = PopMessageResponse.from_ext_fields(reply.ext_fields)
    assert len(popped(reply)) == 4
    assert header.rest_num == 6
    assert header.start_offset_info == "0 0 0"
    assert header.msg_offset_info == "0 0 0,1,2,3"


async def test_acknowledged_messages_stay_away_and_others_come_back(broker: TestBroker) -> None:
    for number in range(6):
        await broker.send(TOPIC, b"%d" % number)
    first = await pop(broker, invisible_time=500)
    for each in first[::2]:
        reply = await broker.call(ack_request(each))
        assert reply.code == ResponseCode.SUCCESS, reply

    again = await pop_until(broker, 3, invisible_time=60_000)

    assert sorted(each.body for each in again) == [b"1", b"3", b"5"]
    for each in again:
        assert each.message.topic == TOPIC
        assert each.message.reconsume_times == 1
        assert each.message.get_property("1ST_POP_TIME") is not None
        assert each.message.get_property("ORIGIN_GROUP") == "group"
        assert each.topic == f"%RETRY%group_{TOPIC}"
        assert (await broker.call(ack_request(each))).code == ResponseCode.SUCCESS
    assert await pop(broker) == []


async def test_a_message_nobody_acknowledges_counts_how_often_it_came(broker: TestBroker) -> None:
    await broker.send(TOPIC, b"poison")
    times = []
    for _ in range(3):
        (each,) = await pop_until(broker, 1, invisible_time=300)
        times.append(each.message.reconsume_times)
    assert times == [0, 1, 2]


async def test_retry_topics_of_the_second_kind(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **FAST, enable_retry_topic_v2=True) as broker:
        await broker.send(TOPIC, b"again")
        await pop(broker, invisible_time=300)
        (each,) = await pop_until(broker, 1)
        assert each.topic == f"%RETRY%group+{TOPIC}"
        assert (await broker.call(ack_request(each))).code == ResponseCode.SUCCESS


async def test_acks_in_a_batch(broker: TestBroker) -> None:
    for number in range(4):
        await broker.send(TOPIC, b"%d" % number)
    reply = await broker.call(pop_request(invisible_time=500))
    header = PopMessageResponse.from_ext_fields(reply.ext_fields)
    body = BatchAckRequest(
        broker_name="broker-t",
        acks=[
            BatchAck(
                consumer_group="group",
                topic=TOPIC,
                retry="0",
                start_offset=0,
                queue_id=0,
                revive_queue_id=header.revive_qid,
                pop_time=header.pop_time,
                invisible_time=header.invisible_time,
                bit_set=base64.b64encode(bytes([0b0111])).decode(),
            )
        ],
    )
    request = Command(RequestCode.BATCH_ACK_MESSAGE, body=body.encode())
    assert (await broker.call(request)).code == ResponseCode.SUCCESS

    (left,) = await pop_until(broker, 1)
    assert left.body == b"3"


def batch(*acks: BatchAck) -> Command:
    body = BatchAckRequest(broker_name="broker-t", acks=list(acks))
    return Command(RequestCode.BATCH_ACK_MESSAGE, body=body.encode())


async def test_a_batch_says_how_many_cannot_have_been_popped(broker: TestBroker) -> None:
    await broker.send(TOPIC, b"only")
    header = PopMessageResponse.from_ext_fields((await broker.call(pop_request())).ext_fields)
    ack = BatchAck(
        consumer_group="group",
        topic=TOPIC,
        revive_queue_id=header.revive_qid,
        pop_time=header.pop_time,
        invisible_time=header.invisible_time,
        bit_set=base64.b64encode(bytes([0b1111])).decode(),
    )
    reply = await broker.call(batch(ack, replace(ack, topic="unknown"), replace(ack, queue_id=-1)))
    assert reply.code == ResponseCode.SUCCESS
    # The end of the queue is let through, as when it is acknowledged alone.
    assert reply.header(BatchAckMessageResponse).passed_over == 2 + 4 + 4


async def test_a_large_batch_leaves_turns_to_others(broker: TestBroker) -> None:
    ack = BatchAck(
        consumer_group="group", topic=TOPIC, pop_time=1, invisible_time=1, bit_set="/w=="
    )
    large = asyncio.ensure_future(broker.call(batch(*[ack] * 4_000)))
    while not large.done():
        assert (await broker.call(pop_request(poll_time=0))).code != ResponseCode.SYSTEM_ERROR
    assert large.result().header(BatchAckMessageResponse).passed_over == 4_000 * 7


async def test_no_pop_has_that_many_messages(broker: TestBroker) -> None:
    await broker.send(TOPIC, b"m")
    ack = BatchAck(
        consumer_group="group", topic=TOPIC, bit_set=base64.b64encode(b"\xff" * 9).decode()
    )
    assert (await broker.call(batch(ack))).code == ResponseCode.MESSAGE_ILLEGAL


async def test_more_time_and_less(broker: TestBroker) -> None:
    await broker.send(TOPIC, b"slow")
    await broker.send(TOPIC, b"quick", queue_id=1)
    found = {each.body: each for each in await pop(broker, invisible_time=60_000)}
    slow, quick = found[b"slow"], found[b"quick"]

    for each, time_ms in ((slow, 120_000), (quick, 200)):
        change = ChangeInvisibleTime(
            consumer_group="group",
            topic=TOPIC,
            queue_id=each.message.queue_id,
            extra_info=each.receipt,
            offset=each.message.queue_offset,
            invisible_time=time_ms,
        )
        reply = await broker.call(Command.request(change))
        renewed = ChangeInvisibleTimeResponse.from_ext_fields(reply.ext_fields)
        assert renewed.invisible_time == time_ms

    (again,) = await pop_until(broker, 1)
    assert again.body == b"quick"


async def test_a_waiting_pop_is_answered_when_a_message_arrives(broker: TestBroker) -> None:
    waiting = asyncio.create_task(broker.call(pop_request(poll_time=30_000), timeout_s=35))
    info = PollingInfo(consumer_group="group", topic=TOPIC, queue_id=-1)

    async def is_held() -> bool:
        reply = await broker.call(Command.request(info))
        return PollingInfoResponse.from_ext_fields(reply.ext_fields).polling_num == 1

    await eventually(is_held)
    await broker.send(TOPIC, b"here", queue_id=5)

    (each,) = popped(await waiting)
    assert each.body == b"here"


async def test_a_waiting_pop_takes_only_what_its_tags_let_through(broker: TestBroker) -> None:
    waiting = asyncio.create_task(
        broker.call(pop_request(poll_time=30_000, exp="blue"), timeout_s=35)
    )
    for tag in ("red", "green", "blue"):
        await broker.send(TOPIC, tag.encode(), properties={"TAGS": tag, "UNIQ_KEY": "u"})
    (each,) = popped(await waiting)
    assert each.body == b"blue"


async def test_a_pop_that_finds_nothing_ends_when_its_time_is_over(broker: TestBroker) -> None:
    reply = await broker.call(pop_request(poll_time=200))
    assert reply.code == ResponseCode.POLLING_TIMEOUT
    late = await broker.call(pop_request(poll_time=1, born_time=1_700_000_000_000))
    assert late.code == ResponseCode.POLLING_TIMEOUT


async def test_only_so_many_may_wait(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **FAST, pop_polling_size=2) as broker:
        waiting = [
            asyncio.create_task(broker.call(pop_request(poll_time=20_000), timeout_s=30))
            for _ in range(2)
        ]
        info = PollingInfo(consumer_group="group", topic=TOPIC, queue_id=-1)

        async def are_held() -> bool:
            reply = await broker.call(Command.request(info))
            return PollingInfoResponse.from_ext_fields(reply.ext_fields).polling_num == 2

        await eventually(are_held)
        reply = await broker.call(pop_request(poll_time=20_000))
        assert reply.code == ResponseCode.POLLING_FULL
        for task in waiting:
            task.cancel()


def notification(poll_time: int = 0, **more: Any) -> Command:
    options: dict[str, Any] = {
        "consumer_group": "group",
        "topic": TOPIC,
        "queue_id": -1,
        "poll_time": poll_time,
        "born_time": 0,
    }
    return Command.request(Notification(**(options | more)))


def has_message(reply: Command) -> bool:
    assert reply.code == ResponseCode.SUCCESS, reply
    return NotificationResponse.from_ext_fields(reply.ext_fields).has_msg


async def test_notifications_say_that_there_is_something(broker: TestBroker) -> None:
    assert not has_message(await broker.call(notification(100)))
    waiting = asyncio.create_task(broker.call(notification(30_000), timeout_s=35))
    await asyncio.sleep(0)
    await broker.send(TOPIC, b"here")
    assert has_message(await waiting)
    assert has_message(await broker.call(notification(0)))


@pytest.mark.parametrize(
    ("exp_type", "other", "wanted"),
    [("TAG", "red", "blue"), ("SQL92", "colour = 'red'", "colour = 'blue'")],
)
async def test_notifications_are_about_what_a_pop_would_get(
    broker: TestBroker, exp_type: str, other: str, wanted: str
) -> None:
    for number in range(5):
        properties = {"TAGS": "blue", "colour": "blue", "UNIQ_KEY": str(number)}
        await broker.send(TOPIC, b"blue", properties=properties)

    assert has_message(await broker.call(notification(exp_type=exp_type, exp=wanted)))
    assert not has_message(await broker.call(notification(exp_type=exp_type, exp=other)))
    waiting = asyncio.create_task(
        broker.call(notification(30_000, exp_type=exp_type, exp=other), timeout_s=35)
    )
    await asyncio.sleep(0)
    properties = {"TAGS": "red", "colour": "red", "UNIQ_KEY": "u"}
    await broker.send(TOPIC, b"red", properties=properties, queue_id=1)
    assert has_message(await waiting)


async def test_far_behind_nobody_looks_for_the_message_that_a_notification_is_about(
    tmp_path: Path,
) -> None:
    """It is a hint, and must stay cheap: the pop will see."""
    limits: dict[str, Any] = {"max_message_filter_num_for_notification": 3}
    async with running_broker(tmp_path, **FAST, **limits) as broker:
        for number in range(4):
            await broker.send(TOPIC, properties={"TAGS": "blue", "UNIQ_KEY": str(number)})
        assert has_message(await broker.call(notification(exp="red")))


async def test_notifications_pass_over_queues_that_an_ordered_pop_has_blocked(
    broker: TestBroker,
) -> None:
    await broker.send(TOPIC, b"first")
    await broker.send(TOPIC, b"second")
    assert has_message(await broker.call(notification(order=True)))
    (first,) = await pop(broker, order=True, max_msg_nums=1, queue_id=0, attempt_id="one")

    assert not has_message(await broker.call(notification(order=True)))
    assert has_message(await broker.call(notification(order=True, attempt_id="one")))
    assert has_message(await broker.call(notification()))

    waiting = asyncio.create_task(broker.call(notification(30_000, order=True), timeout_s=35))
    await asyncio.sleep(0)
    assert (await broker.call(ack_request(first))).code == ResponseCode.SUCCESS
    assert has_message(await waiting)


async def test_a_notification_comes_when_the_block_of_an_ordered_pop_ends(
    broker: TestBroker,
) -> None:
    await broker.send(TOPIC, b"first")
    await pop(broker, order=True, queue_id=0, invisible_time=300)
    assert has_message(await broker.call(notification(20_000, order=True), timeout_s=30))


async def test_a_peek_leaves_everything_as_it_is(broker: TestBroker) -> None:
    await broker.send(TOPIC, b"here")
    peek = PeekMessage(topic=TOPIC, queue_id=-1, max_msg_nums=8, consumer_group="group")
    for _ in range(2):
        reply = await broker.call(Command.request(peek))
        assert [bytes(each.body) for each in decode_records(reply.body)] == [b"here"]
    assert len(await pop(broker)) == 1


async def test_ordered_pops_block_their_queue_until_all_is_acknowledged(
    broker: TestBroker,
) -> None:
    for number in range(4):
        await broker.send(TOPIC, b"%d" % number)
    first = await pop(broker, order=True, max_msg_nums=2, queue_id=0)
    assert [each.body for each in first] == [b"0", b"1"]
    assert await pop(broker, order=True, queue_id=0) == []

    assert (await broker.call(ack_request(first[0]))).code == ResponseCode.SUCCESS
    assert await pop(broker, order=True, queue_id=0) == []
    waiting = asyncio.create_task(
        broker.call(pop_request(order=True, queue_id=0, poll_time=30_000), timeout_s=35)
    )
    assert (await broker.call(ack_request(first[1]))).code == ResponseCode.SUCCESS

    assert [each.body for each in popped(await waiting)] == [b"2", b"3"]


async def test_ordered_messages_come_again_in_order_and_counted(broker: TestBroker) -> None:
    for number in range(3):
        await broker.send(TOPIC, b"%d" % number)
    first = await pop(broker, order=True, queue_id=0, invisible_time=300)
    assert (await broker.call(ack_request(first[0]))).code == ResponseCode.SUCCESS

    reply = await broker.call(pop_request(order=True, queue_id=0, poll_time=20_000), timeout_s=30)

    assert [each.body for each in popped(reply)] == [b"1", b"2"]
    header = PopMessageResponse.from_ext_fields(reply.ext_fields)
    assert header.order_count_info is not None
    assert set(header.order_count_info.split(";")) == {"0 qo0%1 1", "0 qo0%2 1", "0 0 1"}


async def test_popped_messages_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **FAST) as broker:
        for number in range(3):
            await broker.send(TOPIC, b"%d" % number)
        found = await pop(broker, invisible_time=2_000)
        await broker.call(ack_request(found[0]))
        in_order = await pop(broker, consumer_group="fifo", order=True, queue_id=0)
        await broker.call(ack_request(in_order[0], group="fifo"))
    async with running_broker(tmp_path, **FAST) as broker:
        again = await pop_until(broker, 2)
        assert sorted(each.body for each in again) == [b"1", b"2"]
        assert await pop(broker, consumer_group="fifo", order=True, queue_id=0) == []


@pytest.mark.parametrize(
    "receipt",
    [
        "",
        "junk",
        "0 0 0 0 0",
        "-1 0 0 0 0 b 0 0",
        "0 0 0 77777 0 b 0 0",
        "0 0 0 0 7 b 0 0",
        "0 " + "9" * 400 + " 0 0 0 b 0 0",
        "x" * 100_000,
    ],
)
async def test_a_receipt_nobody_gave_out_is_refused(broker: TestBroker, receipt: str) -> None:
    await broker.send(TOPIC, b"here")
    (each,) = await pop(broker)
    reply = await broker.call(ack_request(each, extra_info=receipt))
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topic": "nosuch"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 1_024}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"max_msg_nums": 0}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": 0}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": 2**62}, ResponseCode.INVALID_PARAMETER),
        ({"exp": "a <", "exp_type": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
async def test_what_cannot_be_popped_is_refused(
    broker: TestBroker, more: dict[str, Any], code: ResponseCode
) -> None:
    reply = await broker.call(pop_request(**more))
    assert reply.code == code, reply


async def test_an_ack_outside_the_queue_is_refused(broker: TestBroker) -> None:
    await broker.send(TOPIC, b"here")
    (each,) = await pop(broker)
    assert (await broker.call(ack_request(each, offset=99))).code == ResponseCode.NO_MESSAGE
    reply = await broker.call(ack_request(each, queue_id=5_000))
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL


async def test_nobody_sends_to_the_books_of_pop(broker: TestBroker) -> None:
    for topic in ("rmq_sys_REVIVE_LOG_DefaultCluster", "rmq_sys_wheel_timer"):
        reply = await broker.call(send_request(topic))
        assert reply.code == ResponseCode.NO_PERMISSION


# Buffer merge

MERGING: dict[str, Any] = FAST | {"enable_pop_buffer_merge": True}


async def revive_records(broker: TestBroker) -> int:
    """Records of pops and acks: all of them go through the timer topic."""
    asked = GetMaxOffset(topic="rmq_sys_wheel_timer", queue_id=0)
    reply = await broker.call(Command.request(asked))
    return GetMaxOffsetResponse.from_ext_fields(reply.ext_fields).offset


async def committed(broker: TestBroker, queue_id: int = 0) -> int:
    asked = QueryConsumerOffset(consumer_group="group", topic=TOPIC, queue_id=queue_id)
    reply = await broker.call(Command.request(asked))
    if reply.code != ResponseCode.SUCCESS:
        return -1
    return QueryConsumerOffsetResponse.from_ext_fields(reply.ext_fields).offset


async def test_merged_acks_leave_no_records(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **MERGING) as broker:
        for number in range(6):
            await broker.send(TOPIC, b"%d" % number)
        first = await pop(broker, max_msg_nums=3)
        second = await pop(broker, max_msg_nums=3)
        assert [each.body for each in first + second] == [b"%d" % each for each in range(6)]

        for each in second:
            assert (await broker.call(ack_request(each))).code == ResponseCode.SUCCESS
        assert await committed(broker) == 0  # the offsets of a queue move in the order of its pops
        for each in first:
            assert (await broker.call(ack_request(each))).code == ResponseCode.SUCCESS

        assert await committed(broker) == 6
        assert await revive_records(broker) == 0
        assert await pop(broker) == []


async def test_what_is_not_acknowledged_leaves_the_buffer_and_comes_again(tmp_path: Path) -> None:
    soon: dict[str, Any] = {"pop_ck_stay_buffer_time": 1_600, "pop_ck_stay_buffer_time_out": 1_000}
    async with running_broker(tmp_path, **MERGING, **soon) as broker:
        for number in range(3):
            await broker.send(TOPIC, b"%d" % number)
        found = await pop(broker, invisible_time=2_700)
        await broker.call(ack_request(found[0]))
        assert await revive_records(broker) == 0

        again = await pop_until(broker, 2)

        assert sorted(each.body for each in again) == [b"1", b"2"]
        assert await committed(broker) == 3


async def test_a_stop_writes_what_was_merged(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **MERGING) as broker:
        for number in range(3):
            await broker.send(TOPIC, b"%d" % number)
        found = await pop(broker, invisible_time=5_000)
        await broker.call(ack_request(found[0]))
    async with running_broker(tmp_path, **FAST) as broker:
        assert await pop(broker) == []  # the others are hidden as before
        late = await broker.call(ack_request(found[1]))
        assert late.code == ResponseCode.SUCCESS
        assert [each.body for each in await pop_until(broker, 1)] == [b"2"]


async def test_a_full_buffer_writes_check_points_as_without_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **MERGING, pop_ck_max_buffer_size=1) as broker:
        for number in range(2):
            await broker.send(TOPIC, b"%d" % number)
        (first,) = await pop(broker, max_msg_nums=1)
        assert await revive_records(broker) == 0
        (second,) = await pop(broker, max_msg_nums=1)
        assert await revive_records(broker) > 0
        assert await committed(broker) == 0
        for each in (second, first):
            assert (await broker.call(ack_request(each))).code == ResponseCode.SUCCESS
        assert await committed(broker) == 2


async def test_filtered_messages_move_the_offset_behind_what_is_merged(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **MERGING) as broker:
        for tag in ("red", "blue", "blue"):
            await broker.send(TOPIC, tag.encode(), properties={"TAGS": tag, "UNIQ_KEY": "u"})
        (red,) = await pop(broker, exp="red", queue_id=0)
        assert await pop(broker, exp="red", queue_id=0) == []
        assert await committed(broker) == 0
        await broker.call(ack_request(red))
        assert await committed(broker) == 3


async def test_a_reset_wins_over_what_is_merged(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **MERGING, use_server_side_reset_offset=True) as broker:
        for number in range(4):
            await broker.send(TOPIC, b"%d" % number)
        found = await pop(broker, queue_id=0)
        reset = ResetOffset(
            topic=TOPIC, group="group", timestamp=-1, is_force=True, queue_id=0, offset=1
        )
        reply = await broker.call(Command.request(reset))
        assert reply.code == ResponseCode.SUCCESS, reply
        again = await pop(broker, queue_id=0, max_msg_nums=2)
        assert [each.body for each in again] == [b"1", b"2"]
        for each in found:
            await broker.call(ack_request(each))
        assert await committed(broker) == 1
        for each in again:
            await broker.call(ack_request(each))
        assert await committed(broker) == 3


async def test_pops_and_acks_are_counted(broker: TestBroker) -> None:
    await broker.send(TOPIC, b"here")
    (each,) = await pop(broker)
    await broker.call(ack_request(each))
    for name, key in (
        ("GROUP_CK_NUMS", f"{TOPIC}@group"),
        ("GROUP_ACK_NUMS", f"{TOPIC}@group"),
        ("BROKER_CK_NUMS", "TestCluster"),
        ("BROKER_ACK_NUMS", "TestCluster"),
    ):
        asked = ViewBrokerStatsData(stats_name=name, stats_key=key)
        reply = await broker.call(Command.request(asked))
        assert reply.code == ResponseCode.SUCCESS, name


async def test_ordered_pops_survive_a_crash(tmp_path: Path) -> None:
    """What blocks a queue is written now and then, not only at the end."""
    often = FAST | {"flush_consumer_offset_interval": 100}
    async with running_broker(tmp_path / "alive", **often) as broker:
        await broker.send(TOPIC, b"first")
        await pop(broker, order=True, queue_id=0)
        file = tmp_path / "alive" / "config" / "consumerOrderInfo.json"
        await eventually(lambda: file.exists() and TOPIC in file.read_text())


# Acks that come together


@pytest.mark.parametrize("flush", [FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH])
async def test_acks_of_one_pop_that_come_together_become_one_record(
    tmp_path: Path, flush: FlushDiskType
) -> None:
    async with running_broker(tmp_path, **FAST, flush_disk_type=flush) as broker:
        for number in range(8):
            await broker.send(TOPIC, b"%d" % number, queue_id=number % 2)
        found = await pop(broker)
        before = await revive_records(broker)

        requests = [ack_request(each) for each in found[:3] + found[4:7]]
        answers = [broker.client.send(broker.address, each, 10.0) for each in requests]
        for answer in answers:
            assert (await answer).code == ResponseCode.SUCCESS

        assert await revive_records(broker) == before + 2  # one for each queue


async def test_a_bad_ack_among_good_ones_is_refused_alone(broker: TestBroker) -> None:
    for number in range(4):
        await broker.send(TOPIC, b"%d" % number)
    found = await pop(broker, invisible_time=2_000)
    ordered = await pop(broker, consumer_group="fifo", order=True, queue_id=0)
    requests = [
        ack_request(found[0]),
        ack_request(found[1], offset=99),
        ack_request(found[1], extra_info="junk"),
        ack_request(found[1], queue_id=5_000),
        ack_request(found[1], topic="nosuch"),
        ack_request(found[1], lite_topic="lite"),
        ack_request(ordered[0], group="fifo"),
        ack_request(found[2]),
    ]
    answers = [broker.client.send(broker.address, each, 10.0) for each in requests]

    assert [(await answer).code for answer in answers] == [
        ResponseCode.SUCCESS,
        ResponseCode.NO_MESSAGE,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        ResponseCode.SUCCESS,
        ResponseCode.SUCCESS,
    ]
    again = await pop_until(broker, 2)
    assert {each.body for each in again} == {b"1", b"3"}

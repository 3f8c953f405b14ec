"""Pop over the wire: taken, hidden, acknowledged, and back again when not."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketq.message import MessageExt
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.bodies.assignment import BatchAck, BatchAckRequest
from rocketq.remoting.headers.pop import (
    AckMessage,
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
from tests.broker.harness import TestBroker, running_broker, send_request
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


class Popped:
    """One message as a client sees it, with the receipt it makes of the answer."""

    def __init__(self, message: MessageExt, receipt: str, topic: str) -> None:
        self.message = message
        self.receipt = receipt
        self.topic = topic

    @property
    def body(self) -> bytes:
        return bytes(self.message.body)


def popped(reply: Command, topic: str = TOPIC, group: str = "group") -> list[Popped]:
    """What a Java client does with a pop's answer."""
    assert reply.code == ResponseCode.SUCCESS, reply
    header = PopMessageResponse.from_ext_fields(reply.ext_fields)
    starts = dict(_entries(header.start_offset_info))
    offsets = {key: value.split(",") for key, value in _entries(header.msg_offset_info)}
    found = []
    taken: dict[tuple[str, str], int] = {}
    for message in decode_records(reply.body):
        receipt = message.get_property("POP_CK")
        if receipt is None:
            key = ("0", str(message.queue_id))
            index = taken.get(key, 0)
            taken[key] = index + 1
            assert offsets[key][index] == str(message.queue_offset)
            receipt = (
                f"{starts[key]} {header.pop_time} {header.invisible_time} {header.revive_qid} 0 "
                f"broker-t {message.queue_id} {message.queue_offset}"
            )
        kind = receipt.split(" ")[4]
        name = topic if kind == "0" else f"%RETRY%{group}{'_' if kind == '1' else '+'}{topic}"
        found.append(Popped(message, receipt, name))
    return found


def _entries(info: str | None) -> list[tuple[tuple[str, str], str]]:
    words = [entry.split(" ") for entry in (info or "").split(";") if entry]
    return [((kind, queue_id), value) for kind, queue_id, value in words]


def ack_request(each: Popped, group: str = "group", **more: Any) -> Command:
    options: dict[str, Any] = {
        "consumer_group": group,
        "topic": each.topic,
        "queue_id": each.message.queue_id,
        "extra_info": each.receipt,
        "offset": each.message.queue_offset,
    }
    return Command.request(AckMessage(**(options | more)))


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


async def test_notifications_say_that_there_is_something(broker: TestBroker) -> None:
    def asked(poll_time: int) -> Command:
        return Command.request(
            Notification(
                consumer_group="group", topic=TOPIC, queue_id=-1, poll_time=poll_time, born_time=0
            )
        )

    def has_message(reply: Command) -> bool:
        return NotificationResponse.from_ext_fields(reply.ext_fields).has_msg

    assert not has_message(await broker.call(asked(100)))
    waiting = asyncio.create_task(broker.call(asked(30_000), timeout_s=35))
    await asyncio.sleep(0)
    await broker.send(TOPIC, b"here")
    assert has_message(await waiting)
    assert has_message(await broker.call(asked(0)))


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

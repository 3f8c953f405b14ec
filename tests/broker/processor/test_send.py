"""Sending: what is stored, what is refused, and with which words."""

import asyncio
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker.processor.plain_send import PropertyLook
from rocketq.message import Message
from rocketq.message.flags import SysFlag
from rocketq.message.ids import parse_offset_message_id
from rocketq.message.properties.codec import encode_properties
from rocketq.message.record.batch import encode_batch
from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.headers import CreateTopic, SendMessage, SendMessageV2
from rocketq.store import FlushDiskType
from tests.broker.harness import TestBroker, running_broker, send_request


@pytest.fixture
async def broker(tmp_path: Path) -> Any:
    async with running_broker(tmp_path) as running:
        yield running


async def test_a_message_is_stored_with_what_the_broker_adds(broker: TestBroker) -> None:
    sent = {"UNIQ_KEY": "7F0000010001", "WAIT": "true", "KEYS": "k1 k2", "TAGS": "TagA", "ü": "ß"}

    for _ in range(2):  # the topic's first message and its next take different ways
        reply = await broker.send("topic", b"hello", properties=sent, flag=7)
        assert reply.code == ResponseCode.SUCCESS

    first, second = await broker.messages("topic")
    added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "TestCluster"}
    assert first.properties == second.properties == sent | added
    assert (second.body, second.flag, second.queue_offset) == (b"hello", 7, 1)
    assert second.born_timestamp == 1_700_000_000_000
    assert second.born_host[0] == "127.0.0.1"
    assert second.store_host == ("127.0.0.1", broker.broker.port)


async def test_the_reply_says_where_the_message_is(broker: TestBroker) -> None:
    await broker.send("topic")

    reply = await broker.send("topic", queue_id=3)

    assert reply.ext_fields["queueId"] == "3"
    assert reply.ext_fields["queueOffset"] == "0"
    assert reply.ext_fields["transactionId"] == "7F0000010001"
    assert reply.ext_fields["MSG_REGION"] == "DefaultRegion"
    assert reply.ext_fields["TRACE_ON"] == "true"
    host, port, position = parse_offset_message_id(reply.ext_fields["msgId"])
    assert (host, port) == ("127.0.0.1", broker.broker.port)
    (message,) = await broker.messages("topic", queue_id=3)
    assert message.physical_offset == position


async def test_a_message_without_a_unique_key_gets_one(broker: TestBroker) -> None:
    reply = await broker.send("topic", properties={"WAIT": "true"})

    (message,) = await broker.messages("topic")
    assert message.unique_key == reply.ext_fields["transactionId"]
    assert len(message.unique_key or "") == 32


async def test_a_pop_handle_is_taken_off(broker: TestBroker) -> None:
    await broker.send("topic", properties={"UNIQ_KEY": "u", "POP_CK": "0 1 2 3"})

    (message,) = await broker.messages("topic")
    assert "POP_CK" not in message.properties


async def test_what_a_client_says_about_region_and_cluster_is_overwritten(
    broker: TestBroker,
) -> None:
    lies = {"UNIQ_KEY": "u", "MSG_REGION": "there", "TRACE_ON": "false", "CLUSTER": "other"}
    for _ in range(2):
        await broker.send("topic", properties=lies)

    for message in await broker.messages("topic"):
        assert message.properties["MSG_REGION"] == "DefaultRegion"
        assert message.properties["TRACE_ON"] == "true"
        assert message.properties["CLUSTER"] == "TestCluster"


async def test_long_names_mean_the_same(broker: TestBroker) -> None:
    header = SendMessage(
        producer_group="producers",
        topic="topic",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=0,
        born_timestamp=5,
        flag=0,
        properties=encode_properties({"UNIQ_KEY": "u"}).decode(),
    )

    reply = await broker.call(Command.request(header, b"long"))

    assert reply.code == ResponseCode.SUCCESS
    (message,) = await broker.messages("topic", queue_id=1)
    assert message.body == b"long"


async def test_a_negative_queue_id_leaves_the_choice_to_the_broker(broker: TestBroker) -> None:
    queue_ids = set()
    for _ in range(40):
        reply = await broker.send("topic", queue_id=-1)
        queue_ids.add(int(reply.ext_fields["queueId"]))

    assert queue_ids == {0, 1, 2, 3}


async def test_a_run_of_messages_is_answered_message_by_message(broker: TestBroker) -> None:
    await broker.send("topic")
    requests = [send_request("topic", b"%d" % n, n % 4) for n in range(200)]
    requests[50] = send_request("bad topic!")
    requests[100] = send_request("topic", queue_id=99)
    requests[150] = send_request("another-topic")

    replies = await asyncio.gather(*(broker.client.send(broker.address, each) for each in requests))

    codes = {n: reply.code for n, reply in enumerate(replies) if reply.code != 0}
    assert codes == {50: ResponseCode.INVALID_PARAMETER, 100: ResponseCode.INVALID_PARAMETER}
    bodies = [
        message.body
        for queue_id in range(4)
        for message in await broker.messages("topic", queue_id)
    ]
    assert sorted(bodies) == sorted(
        [b"%d" % n for n in range(200) if n not in (50, 100, 150)] + [b"body"]
    )


async def test_oneway_messages_are_stored_and_not_answered(broker: TestBroker) -> None:
    await broker.send("topic")
    for n in range(100):
        request = send_request("topic", b"oneway %d" % n)
        await broker.client.call_oneway(broker.address, request)

    await broker.send("topic", b"last")

    assert len(await broker.messages("topic")) == 102


@pytest.mark.parametrize(
    ("topic", "more", "code", "remark"),
    [
        (
            "bad topic!",
            {},
            ResponseCode.INVALID_PARAMETER,
            "The specified topic: bad topic!, contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("x" * 128, {}, ResponseCode.INVALID_PARAMETER, "longer than topic max length 127"),
        (
            "SCHEDULE_TOPIC_XXXX",
            {},
            ResponseCode.NO_PERMISSION,
            "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.",
        ),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {}, ResponseCode.NO_PERMISSION, "is forbidden"),
        (
            "new-topic",
            {"default_topic": "BenchmarkTest"},
            ResponseCode.TOPIC_NOT_EXIST,
            "topic[new-topic] not exist, apply first please!\nSee https://",
        ),
        (
            "BenchmarkTest",
            {"queue_id": 1024},
            ResponseCode.INVALID_PARAMETER,
            "request queueId[1024] is illegal, TopicConfig [topicName=BenchmarkTest, ",
        ),
        (
            "BenchmarkTest",
            {"properties": "TIMER_DELAY_SEC\x01999999\x02UNIQ_KEY\x01u\x02"},
            ResponseCode.MESSAGE_ILLEGAL,
            "timer",
        ),
    ],
)
async def test_what_may_not_be_stored_is_refused(
    broker: TestBroker, topic: str, more: dict[str, Any], code: int, remark: str
) -> None:
    reply = (
        await broker.send(topic, **more)
        if "properties" not in more
        else await broker.call(with_header(send_request(topic), **more))
    )

    assert reply.code == code
    assert reply.remark is not None
    assert remark in reply.remark
    assert reply.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def with_header(request: Command, **changes: Any) -> Command:
    header = replace(request.header(SendMessageV2), **changes)
    return Command.request(header, request.body)


async def test_a_header_without_a_time_of_birth_is_refused(broker: TestBroker) -> None:
    request = Command.request(RequestCode.SEND_MESSAGE_V2, b"x", ext={"a": "PG", "b": "topic"})

    reply = await broker.call(request)

    assert reply.code == ResponseCode.SYSTEM_ERROR


async def test_a_body_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_message_size=1000) as broker:
        assert (await broker.send("topic", b"x" * 1000)).code == ResponseCode.SUCCESS
        for _ in range(2):
            reply = await broker.send("topic", b"x" * 1001)
            assert reply.code == ResponseCode.MESSAGE_ILLEGAL
            assert reply.ext_fields["TRACE_ON"] == "true"


async def test_properties_that_are_too_long_are_refused(broker: TestBroker) -> None:
    for _ in range(2):
        reply = await broker.send("topic", properties={"UNIQ_KEY": "u", "a": "x" * 32_767})
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_broker_that_does_not_serve_yet_says_until_when(tmp_path: Path) -> None:
    async with running_broker(
        tmp_path, start_accept_send_request_time_stamp=9_999_999_999_999
    ) as broker:
        reply = await broker.send("topic")

    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "broker unable to service, until 9999999999999"


async def test_an_ordered_topic_is_closed_on_a_broker_that_may_not_be_written(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, broker_permission=4) as broker:
        create = CreateTopic(
            topic="ordered",
            default_topic="TBW102",
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=True,
        )
        assert (await broker.call(Command.request(create))).code == ResponseCode.SUCCESS

        reply = await broker.send("ordered")
        assert reply.code == ResponseCode.NO_PERMISSION
        assert reply.remark == "the broker[127.0.0.1] sending message is forbidden"
        # For others the bit only changes what is registered.
        assert (await broker.send("other")).code == ResponseCode.SUCCESS


async def test_a_batch_is_stored_as_separate_messages(broker: TestBroker) -> None:
    members = [
        Message.of("topic", b"%d" % n, {"UNIQ_KEY": f"u{n}", "TAGS": f"T{n}"}) for n in range(5)
    ]
    header = replace(send_request("topic").header(SendMessageV2), batch=True, queue_id=2)
    request = Command.request(header, encode_batch(members), code=RequestCode.SEND_BATCH_MESSAGE)

    reply = await broker.call(request)

    assert reply.code == ResponseCode.SUCCESS
    assert reply.ext_fields["queueOffset"] == "0"
    ids = reply.ext_fields["msgId"].split(",")
    stored = await broker.messages("topic", queue_id=2)
    assert [message.body for message in stored] == [b"0", b"1", b"2", b"3", b"4"]
    assert [message.offset_msg_id for message in stored] == ids
    assert [message.queue_offset for message in stored] == [0, 1, 2, 3, 4]
    assert stored[3].properties == {"UNIQ_KEY": "u3", "TAGS": "T3"}


@pytest.mark.parametrize(
    ("topic", "properties"), [("%RETRY%group", {}), ("topic", {"DELAY": "3", "UNIQ_KEY": "u"})]
)
async def test_a_batch_can_be_neither_retried_nor_delayed(
    broker: TestBroker, topic: str, properties: dict[str, str]
) -> None:
    header = replace(
        send_request(topic).header(SendMessageV2),
        batch=True,
        properties=encode_properties(properties).decode(),
    )
    body = encode_batch([Message.of(topic, b"x", {"UNIQ_KEY": "u"})])

    reply = await broker.call(Command.request(header, body, code=RequestCode.SEND_BATCH_MESSAGE))

    assert reply.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_compressed_body_is_kept_as_it_is(broker: TestBroker) -> None:
    packed = zlib.compress(b"x" * 10_000)
    await broker.send("topic", packed, sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB)

    (message,) = await broker.messages("topic")
    assert message.raw_body == packed
    assert message.body == b"x" * 10_000


async def test_a_retried_message_goes_to_the_dead_letters_when_it_was_retried_too_often(
    broker: TestBroker,
) -> None:
    await broker.heartbeat(group="group")
    for times, topic in ((16, "%RETRY%group"), (17, "%DLQ%group")):
        reply = await broker.send(
            "%RETRY%group", b"%d" % times, reconsume_times=times, max_reconsume_times=16
        )
        assert reply.code == ResponseCode.SUCCESS
        (message,) = await broker.messages(topic)
        assert (message.body, message.reconsume_times) == (b"%d" % times, times)


async def test_a_retried_message_of_an_unknown_group_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, auto_create_subscription_group=False) as broker:
        reply = await broker.send("%RETRY%nobody")

    assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_acknowledgements_wait_for_the_disk_with_sync_flush(tmp_path: Path) -> None:
    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as broker:
        await broker.send("topic")
        requests = [send_request("topic", b"%d" % n) for n in range(300)]
        replies = await asyncio.gather(
            *(broker.client.send(broker.address, each) for each in requests)
        )
        impatient = await broker.send("topic", properties={"UNIQ_KEY": "u", "WAIT": "false"})

        assert all(reply.code == ResponseCode.SUCCESS for reply in replies)
        assert impatient.code == ResponseCode.SUCCESS
        offsets = [int(reply.ext_fields["queueOffset"]) for reply in replies]
        assert offsets == list(range(1, 301))


async def test_the_name_of_a_topic_is_known_when_its_first_message_is_acknowledged(
    broker: TestBroker,
) -> None:
    reply = await broker.send("fresh")

    assert reply.code == ResponseCode.SUCCESS
    topics = await broker.call(Command.request(RequestCode.GET_ALL_TOPIC_CONFIG))
    assert b'"fresh"' in bytes(topics.body)


@pytest.mark.parametrize(
    ("properties", "plain"),
    [
        (b"UNIQ_KEY\x01abc\x02WAIT\x01true\x02", (9, 3, True)),
        (b"WAIT\x01false\x02UNIQ_KEY\x01abc\x02", (20, 3, False)),
        (b"UNIQ_KEY\x01abc", (9, 3, True)),
        (b"DELAYS\x01x\x02UNIQ_KEY\x01a\x02", (18, 1, True)),
        (b"", None),
        (b"TAGS\x01a\x02", None),
        (b"UNIQ_KEY\x01abc\x02WAIT\x01maybe\x02", None),
        (b"UNIQ_KEY\x01abc\x02DELAY\x013\x02", None),
        (b"UNIQ_KEY\x01abc\x02TRAN_MSG\x01true\x02", None),
        (b"UNIQ_KEY\x01abc\x02TIMER_DELAY_MS\x011\x02", None),
        (b"UNIQ_KEY\x01abc\x02INNER_NUM\x011\x02", None),
        (b"UNIQ_KEY\x01abc\x02\x02", None),
        (b"UNIQ_KEY\x01abc\x02a\x01\x02", None),
        (b"UNIQ_KEY\x01abc\x02\x01b\x02", None),
        (b"UNIQ_KEY\x01abc\x02nothing\x02", None),
    ],
)
def test_only_plain_properties_take_the_short_way(
    properties: bytes, plain: tuple[int, int, bool] | None
) -> None:
    look = PropertyLook()
    size = look.unique_size if look.through(properties) else 0
    at, waits = look.unique_at, look.waits

    assert (at, size, waits) == plain if plain else size == 0


async def test_a_burst_of_messages_to_new_topics_is_spread_over_several_turns(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as broker:
        requests = [send_request(f"topic-{number % 40}", b"%d" % number) for number in range(80)]
        replies = await asyncio.gather(*(broker.call(request) for request in requests))
        assert {reply.code for reply in replies} == {0}
        for number in range(40):
            bodies = {message.body for message in await broker.messages(f"topic-{number}")}
            assert bodies == {b"%d" % number, b"%d" % (number + 40)}

"""SendMessage and RecallMessage: every check, every kind of message."""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import pytest

from rocketq.message.compression import compress
from rocketq.message.flags import CompressionType
from rocketq.message.message import MessageExt
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.server import GrpcServer
from tests.broker.harness import running_broker, send_request
from tests.proxy.bare_client import Client, now_ms
from tests.proxy.harness import HERE, Place, place
from tests.waiting import eventually


async def code_of(client: Client, topic: str, **message: Any) -> int:
    answer = await client.send(topic, **message)
    assert answer.status.message
    return int(answer.status.code)


async def test_every_check_has_its_code(at: Place, client: Client) -> None:
    await at.create_topic("t")
    await at.create_topic("closed", perm=4)
    far = now_ms() + 25 * 3_600_000
    for code, message in (
        (pb.MESSAGE_BODY_EMPTY, {"body": b""}),
        (pb.MESSAGE_BODY_TOO_LARGE, {"body": bytes(4 * 1024 * 1024 + 1)}),
        (pb.MESSAGE_PROPERTIES_TOO_LARGE, {"user": {f"k{i}": "v" for i in range(129)}}),
        (pb.MESSAGE_PROPERTIES_TOO_LARGE, {"user": {"k": "v" * 16385}}),
        (pb.ILLEGAL_MESSAGE_PROPERTY_KEY, {"user": {"UNIQ_KEY": "v"}}),
        (pb.ILLEGAL_MESSAGE_PROPERTY_KEY, {"user": {"k": "a\x01b"}}),
        (pb.ILLEGAL_MESSAGE_PROPERTY_KEY, {"user": {"a\x85b": "v"}}),
        (pb.ILLEGAL_MESSAGE_TAG, {"tag": "  "}),
        (pb.ILLEGAL_MESSAGE_TAG, {"tag": "a|b"}),
        (pb.ILLEGAL_MESSAGE_TAG, {"tag": "a\x02b"}),
        (pb.ILLEGAL_MESSAGE_KEY, {"keys": [" "]}),
        (pb.ILLEGAL_MESSAGE_KEY, {"keys": ["a\x00"]}),
        (pb.ILLEGAL_MESSAGE_ID, {"message_id": ""}),
        (pb.ILLEGAL_MESSAGE_ID, {"message_id": "a\x02TRAN_MSG\x01true"}),
        (pb.ILLEGAL_DELIVERY_TIME, {"deliver_ms": far}),
        (pb.BAD_REQUEST, {"priority": -1}),
        (pb.ILLEGAL_MESSAGE_GROUP, {"message_group": "x" * 64}),
        (pb.ILLEGAL_MESSAGE_GROUP, {"message_group": " "}),
        (pb.ILLEGAL_MESSAGE_GROUP, {"message_group": "a\nb"}),
        (pb.ILLEGAL_LITE_TOPIC, {"lite_topic": "lite"}),
        (pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, {"message_group": "x" * 63}),
        (pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, {"deliver_ms": now_ms() + 1000}),
        (pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, {"priority": 1}),
        (pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, {"message_type": pb.TRANSACTION}),
        (pb.OK, {"message_type": pb.FIFO}),  # declared only; its properties say NORMAL
        (pb.OK, {"tag": "", "keys": [""]}),
    ):
        assert await code_of(client, "t", **message) == code, message
    assert await code_of(client, "unknown") == pb.TOPIC_NOT_FOUND
    assert await code_of(client, "a b") == pb.ILLEGAL_TOPIC
    assert await code_of(client, "closed") == pb.FORBIDDEN


async def test_a_request_is_about_one_topic(at: Place, client: Client) -> None:
    await at.create_topic("t")
    none = await client.call("SendMessage", pb.SendMessageRequest())
    assert none.status.code == pb.MESSAGE_CORRUPTED
    mixed = pb.SendMessageRequest(messages=[client.message("t"), client.message("u")])
    assert (await client.call("SendMessage", mixed)).status.code == pb.MESSAGE_CORRUPTED


async def test_several_messages_have_an_entry_each(at: Place, client: Client) -> None:
    await at.create_topic("t")
    request = pb.SendMessageRequest(messages=[client.message("t"), client.message("t")])
    answer = await client.call("SendMessage", request)
    assert answer.status.code == pb.OK
    ids = [message.system_properties.message_id for message in request.messages]
    assert [entry.message_id for entry in answer.entries] == ids


async def stored(at: Place, topic: str, queues: int = 4) -> list[MessageExt]:
    found = [await at.broker.messages(topic, queue_id) for queue_id in range(queues)]
    return [message for each in found for message in each]


async def test_a_message_is_stored_as_remoting_knows_it(at: Place, client: Client) -> None:
    await at.create_topic("t")
    message = client.message("t", b"hello", tag="paid", keys=["k1", "k2"], user={"région": "eü"})
    message.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    message.system_properties.born_host = "laptop"
    message.system_properties.trace_context = "trace"
    answer = await client.call("SendMessage", pb.SendMessageRequest(messages=[message]))
    (entry,) = answer.entries
    assert entry.message_id == entry.transaction_id == message.system_properties.message_id
    assert entry.offset == 0
    assert entry.recall_handle == ""
    (record,) = await stored(at, "t")
    assert record.body == b"hello"
    assert record.tags == "paid"
    assert record.keys == ["k1", "k2"]
    assert record.born_timestamp == 1_700_000_000_123
    expected = {
        "UNIQ_KEY": message.system_properties.message_id,
        "PGROUP": "t",
        "__BORNHOST": "laptop",
        "TRACE_CONTEXT": "trace",
        "région": "eü",
    }
    assert expected.items() <= record.properties.items()


async def test_all_properties_go_round(at: Place, client: Client) -> None:
    await at.create_topic("t", "MIXED")
    sent = client.message(
        "t", b"hello", tag="paid", keys=["k1", "k2"], user={"a": "b"}, message_group="g1"
    )
    sent.system_properties.trace_context = "trace"
    sent.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    await client.call("SendMessage", pb.SendMessageRequest(messages=[sent]))
    (message,) = await client.receive_all("t", "g", 1)
    system = message.system_properties
    assert message.topic.name == "t"
    assert message.body == b"hello"
    assert dict(message.user_properties) == {"a": "b"}
    assert system.tag == "paid"
    assert list(system.keys) == ["k1", "k2"]
    assert system.message_id == sent.system_properties.message_id
    assert system.body_digest.type == pb.MD5
    assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"
    assert system.body_encoding == pb.IDENTITY
    assert system.message_type == pb.FIFO
    assert system.message_group == "g1"
    assert system.trace_context == "trace"
    assert system.born_timestamp.ToMilliseconds() == 1_700_000_000_123
    assert abs(system.store_timestamp.ToMilliseconds() - now_ms()) < 60_000
    assert system.store_host == at.broker.address
    assert system.born_host.startswith("127.0.0.1:")
    assert system.delivery_attempt == 1
    assert len(system.receipt_handle.split(" ")) == 9
    assert system.queue_offset == 0


@pytest.mark.parametrize("kind", ["zlib", "gzip", "lz4", "zstd"])
async def test_compressed_bodies_of_others_arrive_plain(
    at: Place, client: Client, kind: str
) -> None:
    body = b"hello " * 100
    compressed, flag = {
        "zlib": (compress(CompressionType.ZLIB, 5, body), 0x1),
        "gzip": (gzip.compress(body), 0x1),
        "lz4": (compress(CompressionType.LZ4, 5, body), 0x101),
        "zstd": (compress(CompressionType.ZSTD, 5, body), 0x201),
    }[kind]
    await at.create_topic("t")
    await at.broker.call(send_request("t", compressed, sys_flag=flag))
    (message,) = await client.receive_all("t", "g", 1)
    assert message.body == body
    assert message.system_properties.body_encoding == pb.IDENTITY
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    assert message.system_properties.body_digest.checksum == digest


async def test_a_group_of_messages_stays_in_one_queue_and_in_order(
    at: Place, client: Client
) -> None:
    await at.create_topic("t", "FIFO")
    for number in range(40):
        answer = await client.send("t", b"%d" % number, message_group=f"order-{number % 2 + 1}")
        assert answer.status.code == pb.OK
    by_queue = {queue_id: await at.broker.messages("t", queue_id) for queue_id in range(4)}
    assert [int(each.body) for each in by_queue[3]] == list(range(0, 40, 2))
    assert [int(each.body) for each in by_queue[2]] == list(range(1, 40, 2))


async def test_a_timed_message_comes_in_time(at: Place, client: Client) -> None:
    await at.create_topic("t", "DELAY")
    await at.create_group("g")
    due = now_ms() + 1_500
    answer = await client.send("t", b"later", deliver_ms=due)
    assert answer.status.code == pb.OK
    assert answer.entries[0].recall_handle
    past = await client.send("t", b"now", deliver_ms=now_ms() - 60_000)
    assert past.status.code == pb.OK
    first, second = await client.receive_all("t", "g", 2)
    assert (first.body, second.body) == (b"now", b"later")
    assert now_ms() >= due - 200
    assert second.system_properties.message_type == pb.DELAY


async def recall(client: Client, topic: str, handle: str) -> Any:
    request = pb.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle=handle)
    return await client.call("RecallMessage", request)


@pytest.mark.parametrize("mode", ["in the broker", "before the broker"])
async def test_a_timed_message_can_be_taken_back(tmp_path: Path, mode: str) -> None:
    async with place(tmp_path, mode, recall_message_enable=True) as at:
        client = at.client()
        await at.create_topic("t", "DELAY")
        await at.create_topic("n")
        answer = await client.send("t", b"never", deliver_ms=now_ms() + 2_000)
        handle = answer.entries[0].recall_handle
        taken = await recall(client, "t", handle)
        assert taken.status.code == pb.OK
        assert taken.message_id == answer.entries[0].message_id
        assert (await recall(client, "t", handle)).status.code == pb.OK
        assert (await recall(client, "t", "junk")).status.code == pb.BAD_REQUEST
        conflict = pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert (await recall(client, "n", handle)).status.code == conflict
        await client.send("t", b"after", deliver_ms=now_ms() + 2_500)
        (only,) = await client.receive_all("t", "g", 1)
        assert only.body == b"after"


async def test_priorities_come_from_the_top(at: Place, client: Client) -> None:
    await at.create_topic("t", "PRIORITY")
    await at.create_group("g")
    for priority in (0, 3, 1, 5):
        answer = await client.send("t", b"%d" % priority, priority=priority)
        assert answer.status.code == pb.OK
    messages = await client.receive_all("t", "g", 4, batch_size=1)
    assert [int(message.body) for message in messages] == [3, 5, 1, 0]
    assert messages[0].system_properties.priority == 3


async def test_a_body_of_four_mebibytes_goes_round(at: Place, client: Client) -> None:
    await at.create_topic("t")
    body = bytes(range(256)) * (16 * 1024 - 8)
    assert (await client.send("t", body)).status.code == pb.OK
    (message,) = await client.receive_all("t", "g", 1)
    assert message.body == body


async def test_a_topic_made_a_moment_ago_can_be_sent_to(at: Place, client: Client) -> None:
    assert await code_of(client, "t") == pb.TOPIC_NOT_FOUND
    await at.create_topic("t")

    async def can_be_sent_to() -> bool:
        return bool(await code_of(client, "t") == pb.OK)

    await eventually(can_be_sent_to)


async def test_a_broker_without_a_name_server_serves_too(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        config = ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1")
        async with GrpcServer.beside(broker.broker, config).serving() as server:
            at = Place(broker, server, HERE)
            client = at.client()
            await at.create_topic("t")
            assert await code_of(client, "t") == pb.OK
            await at.close()

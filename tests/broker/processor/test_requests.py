"""Requests about clients, offsets, locks and single messages, over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker.listeners import NOT_ON_VIP
from rocketq.message import MessageQueue
from rocketq.message.record.reader import decode_records
from rocketq.remoting import (
    Command,
    Connection,
    RemotingClient,
    RequestCode,
    ResponseCode,
)
from rocketq.remoting.bodies.heartbeat import (
    CheckClientRequest,
    ConsumerData,
    ConsumerIds,
    HeartbeatData,
    SubscriptionData,
)
from rocketq.remoting.bodies.locks import LockBatchRequest, LockBatchResponse
from rocketq.remoting.headers import (
    GetConsumerListByGroup,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    HeartBeat,
    LockBatch,
    QueryConsumerOffset,
    QueryMessage,
    ReplyMessage,
    SearchOffset,
    SendMessageV2,
    UnlockBatch,
    UnregisterClient,
    UpdateConsumerOffset,
    ViewMessageById,
)
from tests.broker.harness import TestBroker, pull_request, running_broker, send_request
from tests.waiting import eventually


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with running_broker(tmp_path) as running:
        yield running


# Clients


async def test_a_heartbeat_makes_the_group_and_its_retry_topic(broker: TestBroker) -> None:
    reply = await broker.heartbeat("one", group="orders-service")

    assert reply.code == ResponseCode.SUCCESS
    assert reply.version >= 232  # or Java clients do not believe in SQL filters
    assert reply.ext_fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    topics = await broker.call(Command.request(RequestCode.GET_ALL_TOPIC_CONFIG))
    assert b'"%RETRY%orders-service"' in bytes(topics.body)


async def test_the_members_of_a_group_are_known_as_soon_as_they_have_said_so(
    broker: TestBroker,
) -> None:
    other = RemotingClient()
    await broker.heartbeat("one")
    await broker.heartbeat("two", client=other)

    ask = Command.request(GetConsumerListByGroup(consumer_group="group"))
    reply = await broker.call(ask)
    assert ConsumerIds.decode(reply.body).consumer_id_list == ["one", "two"]
    await other.close()


async def test_members_hear_of_each_other(tmp_path: Path) -> None:
    told: list[str] = []

    def notified(request: Command, connection: Connection) -> None:
        told.append(request.ext_fields["consumerGroup"])

    routes: Any = {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: notified}
    async with running_broker(tmp_path, routes=routes) as broker:
        other = RemotingClient()
        await broker.heartbeat("one")
        await eventually(lambda: told == ["group"])
        await broker.heartbeat("two", client=other)
        await eventually(lambda: told == ["group"] * 2)
        await other.close()  # without a word, as Go clients do
        await eventually(lambda: told == ["group"] * 3)
        ask = Command.request(GetConsumerListByGroup(consumer_group="group"))
        reply = await broker.call(ask)
        assert ConsumerIds.decode(reply.body).consumer_id_list == ["one"]


async def test_a_client_that_unregisters_is_gone(broker: TestBroker) -> None:
    await broker.heartbeat("one")
    leave = UnregisterClient(client_id="one", consumer_group="group", producer_group="producers")
    assert (await broker.call(Command.request(leave))).code == ResponseCode.SUCCESS

    reply = await broker.call(Command.request(GetConsumerListByGroup(consumer_group="group")))

    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "no consumer for this group, group"


async def test_a_heartbeat_may_leave_out_what_has_not_changed(broker: TestBroker) -> None:
    async def beat(fingerprint: int, *topics: str, without: bool = False) -> str:
        data = ConsumerData(
            group_name="group",
            subscription_data_set=[
                SubscriptionData(topic=topic, sub_version=1) for topic in topics
            ],
        )
        body = HeartbeatData(
            client_id="one",
            consumer_data_set=[data],
            heartbeat_fingerprint=fingerprint,
            without_sub=without,
        )
        reply = await broker.call(Command.request(HeartBeat(), body.encode()))
        return reply.ext_fields["IS_SUB_CHANGE"]

    assert await beat(7, without=True) == "true"  # nothing is known yet
    assert await beat(7, "topic") == "false"
    assert await beat(7, without=True) == "false"
    await broker.send("topic")
    pulled = await broker.call(pull_request("topic", sys_flag=0, subscription=None))
    assert pulled.code == ResponseCode.SUCCESS
    assert await beat(8, without=True) == "true"


@pytest.mark.parametrize(
    ("enabled", "expression", "code"),
    [(True, "a > 5", 0), (True, "a >", 23), (False, "a > 5", 1)],
)
async def test_a_consumer_can_ask_whether_its_filter_is_good(
    tmp_path: Path, enabled: bool, expression: str, code: int
) -> None:
    data = SubscriptionData(topic="topic", sub_string=expression, expression_type="SQL92")
    ask = CheckClientRequest(client_id="one", group="group", subscription_data=data)
    async with running_broker(tmp_path, enable_property_filter=enabled) as broker:
        request = Command.request(RequestCode.CHECK_CLIENT_CONFIG, ask.encode())
        assert (await broker.call(request)).code == code


# Offsets


def query(queue_id: int = 0, **more: Any) -> Command:
    return Command.request(
        QueryConsumerOffset(consumer_group="group", topic="topic", queue_id=queue_id, **more)
    )


async def test_a_new_group_begins_at_zero_while_the_first_message_is_there(
    broker: TestBroker,
) -> None:
    await broker.send("topic")

    assert (await broker.call(query())).ext_fields == {"offset": "0"}
    strict = await broker.call(query(set_zero_if_not_found=False))
    assert (strict.code, strict.remark) == (
        ResponseCode.QUERY_NOT_FOUND,
        "Not found, do not set to zero, maybe this group boot first",
    )
    empty = await broker.call(query(queue_id=1))
    assert empty.code == ResponseCode.QUERY_NOT_FOUND


async def test_what_a_consumer_commits_is_what_it_finds(broker: TestBroker) -> None:
    await broker.send("topic")
    await broker.heartbeat()
    update = UpdateConsumerOffset(
        consumer_group="group", topic="topic", queue_id=0, commit_offset=1
    )

    assert (await broker.call(Command.request(update))).code == ResponseCode.SUCCESS

    assert (await broker.call(query())).ext_fields == {"offset": "1"}


@pytest.mark.parametrize(
    ("group", "topic", "code", "remark"),
    [
        ("nobody", "topic", 26, "Group nobody not exist!"),
        ("group", "nothing", 17, "Topic nothing not exist!"),
    ],
)
async def test_offsets_of_unknown_groups_and_topics_are_refused(
    broker: TestBroker, group: str, topic: str, code: int, remark: str
) -> None:
    await broker.send("topic")
    await broker.heartbeat()
    update = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)

    reply = await broker.call(Command.request(update))

    assert (reply.code, reply.remark) == (code, remark)


async def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("topic", b"kept")
        await broker.heartbeat()
        update = UpdateConsumerOffset(
            consumer_group="group", topic="topic", queue_id=0, commit_offset=1
        )
        await broker.call(Command.request(update))

    async with running_broker(tmp_path) as broker:
        assert (await broker.call(query())).ext_fields == {"offset": "1"}
        assert [message.body for message in await broker.messages("topic")] == [b"kept"]


async def test_where_a_queue_begins_and_ends(broker: TestBroker) -> None:
    for _ in range(3):
        await broker.send("topic")
    (first, *_, last) = await broker.messages("topic")

    async def ask(header: Any) -> dict[str, str]:
        reply = await broker.call(Command.request(header))
        assert reply.code == ResponseCode.SUCCESS
        return reply.ext_fields

    queue: dict[str, Any] = {"topic": "topic", "queue_id": 0}
    assert await ask(GetMaxOffset(**queue)) == {"offset": "3"}
    assert await ask(GetMinOffset(**queue)) == {"offset": "0"}
    assert await ask(GetMaxOffset(topic="nothing", queue_id=0)) == {"offset": "0"}
    assert await ask(GetMinOffset(topic="nothing", queue_id=0)) == {"offset": "0"}
    earliest = await ask(GetEarliestMsgStoretime(**queue))
    assert earliest == {"timestamp": str(first.store_timestamp)}
    late = last.store_timestamp + 1
    assert await ask(SearchOffset(**queue, timestamp=0)) == {"offset": "0"}
    assert await ask(SearchOffset(**queue, timestamp=late)) == {"offset": "3"}
    upper = SearchOffset(**queue, timestamp=late, boundary_type="upper")
    assert await ask(upper) == {"offset": "2"}


# Locks


async def test_a_queue_is_locked_by_one_client_at_a_time(broker: TestBroker) -> None:
    queues = [MessageQueue("topic", "broker-t", queue_id) for queue_id in range(3)]
    await broker.send("topic")
    await broker.heartbeat(group="group", topic="topic")

    async def lock(client_id: str, wanted: list[MessageQueue]) -> list[MessageQueue]:
        body = LockBatchRequest(consumer_group="group", client_id=client_id, mq_set=wanted)
        reply = await broker.call(Command.request(LockBatch(), body.encode()))
        return LockBatchResponse.decode(reply.body).lock_ok_mq_set

    assert await lock("one", queues[:2]) == queues[:2]
    assert await lock("two", queues) == queues[2:]
    body = LockBatchRequest(consumer_group="group", client_id="one", mq_set=queues)
    assert (await broker.call(Command.request(UnlockBatch(), body.encode()))).code == 0
    assert await lock("two", queues) == queues


# Single messages


async def test_a_message_is_found_by_its_keys_and_by_its_place(broker: TestBroker) -> None:
    properties = {"UNIQ_KEY": "AC1200020001", "KEYS": "order-1 order-2"}
    sent = await broker.send("topic", b"looked for", properties=properties)
    position = int(sent.ext_fields["msgId"][16:], 16)

    for key, is_unique in (("order-2", None), ("AC1200020001", True)):
        header = QueryMessage(
            topic="topic",
            key=key,
            max_num=32,
            begin_timestamp=0,
            end_timestamp=2**62,
            unique_key=is_unique,
        )
        reply = await broker.call(Command.request(header))
        assert reply.code == ResponseCode.SUCCESS
        assert set(reply.ext_fields) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
        assert [message.body for message in decode_records(reply.body)] == [b"looked for"]
    reply = await broker.call(Command.request(ViewMessageById(offset=position)))
    assert [message.body for message in decode_records(reply.body)] == [b"looked for"]


async def test_what_is_not_there_is_not_found(broker: TestBroker) -> None:
    await broker.send("topic")
    header = QueryMessage(
        topic="topic", key="none", max_num=32, begin_timestamp=0, end_timestamp=2**62
    )

    by_key = await broker.call(Command.request(header))
    inside_a_record = await broker.call(Command.request(ViewMessageById(offset=7)))
    behind_the_end = await broker.call(Command.request(ViewMessageById(offset=10**9)))

    assert by_key.code == ResponseCode.QUERY_NOT_FOUND
    assert by_key.remark == "can not find message, maybe time range not correct"
    assert inside_a_record.code == behind_the_end.code == ResponseCode.SYSTEM_ERROR


# Replies


async def test_a_reply_is_handed_to_the_client_that_asked_and_kept(tmp_path: Path) -> None:
    handed: list[Command] = []

    def take(request: Command, connection: Connection) -> Command:
        handed.append(request)
        return request.reply()

    routes: Any = {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: take}
    async with running_broker(tmp_path, routes=routes) as broker:
        await broker.heartbeat("asker", producer_group="askers")
        answer = send_request(
            "TestCluster_REPLY_TOPIC",
            b"the answer",
            properties={"REPLY_TO_CLIENT": "asker", "CORRELATION_ID": "42", "UNIQ_KEY": "u"},
        )
        reply = await broker.call(
            Command.request(
                answer.header(SendMessageV2),
                b"the answer",
                code=RequestCode.SEND_REPLY_MESSAGE_V2,
            )
        )

        assert reply.code == ResponseCode.SUCCESS
        assert set(reply.ext_fields) == {
            *("msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON")
        }
        (push,) = handed
        header = push.header(ReplyMessage)
        assert bytes(push.body) == b"the answer"
        assert header.store_host == broker.address
        assert "PUSH_REPLY_TIME\x01" in (header.properties or "")
        assert "CORRELATION_ID\x0142\x02" in (header.properties or "")
        (kept,) = await broker.messages("TestCluster_REPLY_TOPIC")
        assert kept.body == b"the answer"


async def test_a_reply_waits_for_a_client_that_is_about_to_make_itself_known(
    tmp_path: Path,
) -> None:
    handed = asyncio.Event()

    def take(request: Command, connection: Connection) -> Command:
        handed.set()
        return request.reply()

    routes: Any = {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: take}
    async with running_broker(tmp_path, routes=routes) as broker:
        answer = send_request(
            "TestCluster_REPLY_TOPIC", properties={"REPLY_TO_CLIENT": "asker", "UNIQ_KEY": "u"}
        )
        request = Command.request(
            answer.header(SendMessageV2), b"early", code=RequestCode.SEND_REPLY_MESSAGE_V2
        )
        replied = asyncio.create_task(broker.call(request))
        await broker.send("topic")  # the reply has been read by now
        assert not handed.is_set()
        await broker.heartbeat("asker", producer_group="askers")

        assert (await replied).code == ResponseCode.SUCCESS
        assert handed.is_set()


async def test_a_reply_to_a_client_that_is_not_there_is_kept_all_the_same(
    broker: TestBroker,
) -> None:
    answer = send_request(
        "TestCluster_REPLY_TOPIC", properties={"REPLY_TO_CLIENT": "gone", "UNIQ_KEY": "u"}
    )
    request = Command.request(
        answer.header(SendMessageV2), b"late", code=RequestCode.SEND_REPLY_MESSAGE_V2
    )

    reply = await broker.call(request)

    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "push reply message fail, channel of <gone> not found."
    assert len(await broker.messages("TestCluster_REPLY_TOPIC")) == 1


# The second port


async def test_the_second_port_serves_everything_but_pulls(broker: TestBroker) -> None:
    vip = f"127.0.0.1:{broker.broker.port - 2}"

    sent = await broker.client.call(vip, send_request("topic"))
    assert sent.code == ResponseCode.SUCCESS
    for code in NOT_ON_VIP:
        reply = await broker.client.call(vip, Command.request(int(code)))
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert reply.remark == f" request type {int(code)} not supported"


async def test_a_broker_stops_while_clients_wait(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("topic")
        held = broker.start_pull("topic", 1, sys_flag=6, suspend_timeout_millis=20_000)
        await broker.pull("topic")
        assert not held.done()
        async with asyncio.timeout(10):
            await broker.broker.stop()
        with pytest.raises(Exception, match="lost"):
            await held

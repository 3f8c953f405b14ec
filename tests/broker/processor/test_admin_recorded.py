"""Administration, asked with frames of real RocketMQ tools and compared with its answers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from rocketq.broker import Broker
from rocketq.broker.config import BrokerConfig
from rocketq.common import json
from rocketq.message.flags import PullFlag
from rocketq.message.ids import parse_offset_message_id
from rocketq.message.record.reader import decode_record
from rocketq.remoting import Command, Connection, RemotingClient, RequestCode, ResponseCode
from rocketq.remoting.headers import PullMessage, SendMessageV2
from tests.broker.processor.recorded import Exchange, body_shape, command, exchange, frames
from tests.broker.services import store_config
from tests.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

C = RequestCode


class Wire:
    """A broker in the state the recording found its own in, and a connection to it."""

    def __init__(self, broker: Broker, admin: RemotingClient, folder: Path) -> None:
        self.broker = broker
        self.admin = admin
        self.folder = folder
        self.asked_of_consumer: list[Command] = []
        self.resets: list[Command] = []

    async def ask(self, request: Command) -> Command:
        return await self.admin.call(self.broker.address, request, 15.0)

    async def send(self, topic: str, body: bytes, queue_id: int, **properties: str) -> Command:
        header = SendMessageV2(
            producer_group="PG_wire",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
            properties="".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
        )
        reply = await self.ask(Command.request(header, body))
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def wire(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Wire]:
    folder = tmp_path_factory.mktemp("wire")
    config = BrokerConfig(
        broker_cluster_name="WireCluster",
        broker_name="broker-w",
        broker_ip1="127.0.0.1",
        bind_address="127.0.0.1",
        listen_port=0,
        namesrv_addr="",
        enable_property_filter=True,
    )
    broker = Broker(config, store_config(folder), config_path=folder / "broker.conf")
    async with broker.serving():
        admin = RemotingClient()
        wire = Wire(broker, admin, folder)
        consumer = RemotingClient(handlers=_consumer_routes(wire))
        try:
            await _fill(wire)
            await _join(wire, consumer)
            yield wire
        finally:
            await consumer.close()
            await admin.close()


async def _fill(wire: Wire) -> None:
    """The topics, groups, messages and offsets the recording began with."""
    for number in (0, 1):
        await wire.ask(exchange(C.UPDATE_AND_CREATE_TOPIC, "create topic", number).request)
    await wire.ask(exchange(C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).request)
    await wire.ask(
        Command.request(C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"GID_wire_pull"}')
    )
    for number in range(9):
        await wire.send("WireTopic", b"hello %d" % number, 0, TAGS="TagA", KEYS=f"key{number}")
    for number in range(6):
        await wire.send("WireTopic", b"hello %d" % number, 1, TAGS="TagB")
    await wire.send("WireTopic", b"later", 0, DELAY="18")
    for group, queue_id, offset in (
        ("GID_wire", 0, 9),
        ("GID_wire", 1, 6),
        ("GID_wire_pull", 0, 3),
    ):
        request = exchange(C.UPDATE_CONSUMER_OFFSET, "update consumer offset sync").request
        request.ext_fields.update(
            consumerGroup=group, queueId=str(queue_id), commitOffset=str(offset)
        )
        assert (await wire.ask(_again(request))).code == ResponseCode.SUCCESS


async def _join(wire: Wire, consumer: RemotingClient) -> None:
    """A push consumer and a producer, by the heartbeats of real ones."""
    heartbeats = [command(frame) for frame in frames() if frame["code"] == C.HEART_BEAT]
    for client_id in ("192.0.2.2@push1", "192.0.2.2@prod"):
        heartbeat = next(
            each for each in heartbeats if json.loads(each.body).get("clientID") == client_id
        )
        client = consumer if client_id.endswith("push1") else wire.admin
        reply = await client.call(wire.broker.address, _again(heartbeat))
        assert reply.code == ResponseCode.SUCCESS


def _consumer_routes(wire: Wire) -> dict[int, Any]:
    """Answers what brokers ask consumers, as the recorded consumer did."""

    def answer(request: Command, connection: Connection) -> Command:
        wire.asked_of_consumer.append(request)
        recorded = next(
            command(frame)
            for frame in frames()
            if frame["kind"] == "response"
            and frame["dir"] == "c2s"
            and frame["exchange"] == RequestCode(request.code).name
        )
        return request.reply(body=recorded.body, remark=recorded.remark)

    return {
        C.GET_CONSUMER_RUNNING_INFO: answer,
        C.CONSUME_MESSAGE_DIRECTLY: answer,
        C.GET_CONSUMER_STATUS_FROM_CLIENT: answer,
        C.RESET_CONSUMER_CLIENT_OFFSET: lambda request, connection: wire.resets.append(request),
        C.NOTIFY_CONSUMER_IDS_CHANGED: lambda request, connection: None,
    }


def _option(text: str) -> Command:
    return Command.request(C.UPDATE_BROKER_CONFIG, f"{text}\n".encode())


def _again(request: Command) -> Command:
    """A recorded request under a number of our own."""
    return Command.request(request.code, bytes(request.body), ext=request.ext_fields)


async def check(wire: Wire, recorded: Exchange, *, with_remark: bool = True) -> Command:
    """Ask the same again: code, remark, ext fields and shape of the body must be the same."""
    request = recorded.request
    reply = await wire.ask(request)
    expected = recorded.response
    assert reply.code == expected.code, reply.remark
    if with_remark:
        assert reply.remark == expected.remark
    assert reply.ext_fields.keys() == expected.ext_fields.keys()
    assert body_shape(reply) == body_shape(expected)
    return reply


# Requests whose answers are compared and nothing more

PLAIN = [
    (C.UPDATE_AND_CREATE_TOPIC, "create topic"),
    (C.UPDATE_AND_CREATE_TOPIC, "create topic, mixed type refused"),
    (C.UPDATE_AND_CREATE_TOPIC, "create topic illegal name"),
    (C.UPDATE_AND_CREATE_TOPIC, "create system topic refused"),
    (C.UPDATE_AND_CREATE_TOPIC_LIST, "create topic list"),
    (C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "create subscription group"),
    (C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "pop raw"),
    (C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "create group list"),
    (C.GET_BROKER_CONFIG, "broker config get"),
    (C.UPDATE_BROKER_CONFIG, "broker config update"),
    (C.GET_PRODUCER_CONNECTION_LIST, "producer connection"),
    (C.GET_ALL_PRODUCER_INFO, "all producer info"),
    (C.GET_CONSUME_STATS, "consume stats"),
    (C.GET_CONSUME_STATS, "consume stats of topic"),
    (C.GET_TOPIC_CONFIG, "get topic config"),
    (C.GET_TOPIC_CONFIG, "get topic config unknown"),
    (C.GET_TOPIC_STATS_INFO, "topic stats"),
    (C.GET_TOPIC_STATS_INFO, "topic stats unknown"),
    (C.GET_CONSUMER_RUNNING_INFO, "consumer running info"),
    (C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "consumer status"),
    (C.QUERY_TOPIC_CONSUME_BY_WHO, "who consumes topic"),
    (C.QUERY_TOPICS_BY_CONSUMER, "topics by consumer"),
    (C.QUERY_SUBSCRIPTION_BY_CONSUMER, "subscription by consumer"),
    (C.QUERY_CONSUME_TIME_SPAN, "consume time span"),
    (C.QUERY_CONSUME_QUEUE, "query consume queue"),
    (C.QUERY_CORRECTION_OFFSET, "query correction offset"),
    (C.CLONE_GROUP_OFFSET, "clone group offset"),
    (C.VIEW_BROKER_STATS_DATA, "view broker stats"),
    (C.VIEW_BROKER_STATS_DATA, "view broker stats missing"),
    (C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "get all subscription groups"),
    (C.GET_ALL_DELAY_OFFSET, "get all delay offset"),
    (C.GET_ALL_MESSAGE_REQUEST_MODE, "get all message request mode"),
    (C.UPDATE_AND_GET_GROUP_FORBIDDEN, "group forbidden"),
    (C.GET_BROKER_HA_STATUS, "ha status"),
    (C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, "system topic list from broker"),
    (C.CLEAN_EXPIRED_CONSUMEQUEUE, "clean expired consume queue"),
    (C.CLEAN_UNUSED_TOPIC, "clean unused topic"),
    (C.DELETE_EXPIRED_COMMITLOG, "delete expired commit log"),
    (C.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, "cold data flow control"),
    (C.GET_COLD_DATA_FLOW_CTR_INFO, "cold data flow control"),
    (C.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, "cold data flow control"),
    (C.QUERY_ASSIGNMENT, "query assignment"),
    (C.DELETE_SUBSCRIPTIONGROUP, "delete subscription group"),
    (C.DELETE_TOPIC_IN_BROKER, "delete topic"),
]


@pytest.mark.parametrize(("code", "scenario"), PLAIN, ids=lambda value: str(value))
async def test_answers_like_a_real_broker(wire: Wire, code: int, scenario: str) -> None:
    await check(wire, exchange(code, scenario))


# Requests whose effect is looked at


async def test_an_unknown_code_is_refused_as_a_real_broker_does(wire: Wire) -> None:
    recorded = next(frame for frame in frames() if frame["code"] == 9999)
    reply = await wire.ask(command(recorded))
    assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert reply.remark == " request type 9999 not supported"


async def test_the_table_of_topics_has_the_shape_of_the_real_one(wire: Wire) -> None:
    reply = await wire.ask(exchange(C.GET_ALL_TOPIC_CONFIG).request)
    table = json.loads(reply.body)
    assert int(reply.ext_fields["totalTopicNum"]) == len(table["topicConfigTable"])
    expected = json.loads(exchange(C.GET_ALL_TOPIC_CONFIG).response.body)["topicConfigTable"]
    missing = expected.keys() - table["topicConfigTable"].keys()
    assert missing <= {"%RETRY%GID_wire_nohb", "%RETRY%GID_wire_pull", "WireAuto"}
    assert table["topicConfigTable"]["WireTopic"] == expected["WireTopic"]


async def test_consumer_offsets_go_to_slaves_without_those_of_pulls(wire: Wire) -> None:
    reply = await wire.ask(exchange(C.GET_ALL_CONSUMER_OFFSET).request)
    table = json.loads(reply.body)
    assert table["offsetTable"]["WireTopic@GID_wire_pull"] == {"0": 3}
    assert b"{0:3}" in bytes(reply.body)
    assert "pullOffsetTable" not in table


async def test_a_group_is_shown_with_its_members_and_subscriptions(wire: Wire) -> None:
    recorded = exchange(C.GET_CONSUMER_CONNECTION_LIST)
    reply = await wire.ask(recorded.request)
    ours, theirs = (json.loads(each.body) for each in (reply, recorded.response))
    assert ours.keys() == theirs.keys()
    assert ours["connectionSet"][0].keys() == theirs["connectionSet"][0].keys()
    assert ours["connectionSet"][0]["clientId"] == "192.0.2.2@push1"
    assert ours["connectionSet"][0]["language"] == "PYTHON"
    assert ours["subscriptionTable"].keys() == theirs["subscriptionTable"].keys()
    assert ours["consumeType"] == theirs["consumeType"]
    assert ours["messageModel"] == theirs["messageModel"]


async def test_runtime_info_has_every_figure_of_the_real_one(wire: Wire) -> None:
    recorded = exchange(C.GET_BROKER_RUNTIME_INFO)
    reply = await wire.ask(recorded.request)
    ours = json.loads(reply.body)["table"]
    theirs = json.loads(recorded.response.body)["table"]
    expected = {key for key in theirs if "/" not in key}
    assert expected - ours.keys() == set()
    assert any(key.startswith("commitLogDiskRatio_") for key in ours)
    assert all(isinstance(value, str) for value in ours.values())
    for key in ("putTps", "getTransferredTps", "getTransferedTps"):
        assert [float(rate) >= 0 for rate in ours[key].split(" ")] == [True, True, True]


async def test_a_question_is_passed_on_with_what_the_client_needs(wire: Wire) -> None:
    recorded = exchange(C.CONSUME_MESSAGE_DIRECTLY)
    stored = await wire.send("WireTopic", b"directly", 0)
    message_id = stored.ext_fields["msgId"]
    request = _again(recorded.request)
    request.ext_fields["msgId"] = message_id

    reply = await wire.ask(request)

    assert reply.code == ResponseCode.SUCCESS
    assert bytes(reply.body) == bytes(recorded.response.body)
    asked = wire.asked_of_consumer[-1]
    relayed = next(
        command(frame)
        for frame in frames()
        if frame["code"] == C.CONSUME_MESSAGE_DIRECTLY and frame["dir"] == "s2c"
        and frame["kind"] == "request"
    )  # fmt: skip
    assert asked.ext_fields == relayed.ext_fields | {"msgId": message_id}
    message = decode_record(bytes(asked.body))
    assert message.body == b"directly"
    assert message.physical_offset == parse_offset_message_id(message_id)[2]


@pytest.mark.parametrize("scenario", ["reset offset by time (server side)", "reset offset, c form"])
async def test_a_reset_moves_the_group(wire: Wire, scenario: str) -> None:
    recorded = exchange(C.INVOKE_BROKER_TO_RESET_OFFSET, scenario)
    reply = await check(wire, recorded)
    expected = json.loads(recorded.response.body)["offsetTable"]
    if scenario.endswith("(server side)"):
        assert json.loads(reply.body)["offsetTable"] == expected


async def test_a_waiting_consumer_learns_of_a_reset_at_once(wire: Wire) -> None:
    pull = Command.request(
        PullMessage(
            consumer_group="GID_wire",
            topic="WireOrder",
            queue_id=1,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=15_000,
            subscription="*",
            sub_version=0,
        )
    )
    waiting = asyncio.ensure_future(wire.ask(pull))
    request = _again(exchange(C.INVOKE_BROKER_TO_RESET_OFFSET).request)
    request.ext_fields["topic"] = "WireOrder"
    assert (await wire.ask(request)).code == ResponseCode.SUCCESS

    answer = await asyncio.wait_for(waiting, 5)
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    assert answer.ext_fields["nextBeginOffset"] == "0"


async def test_where_so_configured_consumers_reset_themselves(wire: Wire) -> None:
    """The way of RocketMQ 4: the broker tells the online members of the group."""
    recorded = exchange(C.INVOKE_BROKER_TO_RESET_OFFSET, recording="slave")
    told = next(
        command(frame)
        for frame in frames("slave")
        if frame["code"] == C.RESET_CONSUMER_CLIENT_OFFSET
    )

    async def reset(group: str) -> Command:
        request = _again(recorded.request)
        request.ext_fields.update(topic="WireTopic", group=group)
        return await wire.ask(request)

    assert (await wire.ask(_option("useServerSideResetOffset=false"))).code == 0
    try:
        reply = await reset("GID_wire")
        assert reply.code == recorded.response.code
        assert body_shape(reply) == body_shape(recorded.response)
        await eventually(lambda: wire.resets)
        assert wire.resets[-1].is_oneway
        expected = told.ext_fields | {"topic": "WireTopic", "group": "GID_wire"}
        assert wire.resets[-1].ext_fields.keys() == expected.keys()
        assert body_shape(wire.resets[-1]) == body_shape(told)
        assert json.loads(wire.resets[-1].body) == json.loads(reply.body)

        assert (await reset("GID_unknown")).code == ResponseCode.SYSTEM_ERROR
        await wire.ask(exchange(C.CLONE_GROUP_OFFSET).request)
        assert (await reset("GID_wire_clone")).code == ResponseCode.CONSUMER_NOT_ONLINE
    finally:
        assert (await wire.ask(_option("useServerSideResetOffset=true"))).code == 0


async def test_a_reset_of_one_queue_outside_its_range_is_refused(wire: Wire) -> None:
    request = exchange(C.INVOKE_BROKER_TO_RESET_OFFSET, "reset offset of one queue").request
    changed = _again(request)
    changed.ext_fields["offset"] = "5000"
    reply = await wire.ask(changed)
    assert reply.code == ResponseCode.SYSTEM_ERROR

    for field, value, code in (
        ("topic", "NoSuchTopic", ResponseCode.TOPIC_NOT_EXIST),
        ("group", "NoSuchGroup", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ):
        changed = _again(request)
        changed.ext_fields[field] = value
        assert (await wire.ask(changed)).code == code


async def test_consume_stats_of_the_broker_list_every_group(wire: Wire) -> None:
    recorded = exchange(C.GET_BROKER_CONSUME_STATS)
    reply = await wire.ask(recorded.request)
    body = json.loads(reply.body)
    assert body.keys() == json.loads(recorded.response.body).keys()
    groups = {name for entry in body["consumeStatsList"] for name in entry}
    assert {"TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "GID_wire"} <= groups
    assert body["brokerAddr"] == wire.broker.address


async def test_a_black_listed_option_cannot_be_changed(wire: Wire) -> None:
    request = Command.request(C.UPDATE_BROKER_CONFIG, b"configBlackList=x\n")
    reply = await wire.ask(request)
    assert reply.code == ResponseCode.NO_PERMISSION


async def test_a_changed_option_is_in_force_and_in_the_file(wire: Wire) -> None:
    reply = await wire.ask(Command.request(C.UPDATE_BROKER_CONFIG, b"defaultTopicQueueNums=5\n"))
    assert reply.code == ResponseCode.SUCCESS
    text = bytes((await wire.ask(Command.request(C.GET_BROKER_CONFIG))).body).decode()
    assert "defaultTopicQueueNums=5\n" in text
    assert "defaultTopicQueueNums=5\n" in (wire.folder / "broker.conf").read_text()

    reply = await wire.ask(Command.request(C.UPDATE_BROKER_CONFIG, b"defaultTopicQueueNums=x\n"))
    assert reply.code == ResponseCode.SYSTEM_ERROR


async def test_a_message_is_sent_back_as_recorded(wire: Wire) -> None:
    recorded = exchange(C.CONSUMER_SEND_MSG_BACK, "send back")
    stored = await wire.send("WireTopic", b"again", 0)
    request = _again(recorded.request)
    request.ext_fields["offset"] = str(parse_offset_message_id(stored.ext_fields["msgId"])[2])
    reply = await wire.ask(request)
    assert (reply.code, reply.remark, reply.ext_fields) == (0, None, {})


@pytest.mark.parametrize(("mode", "code"), [("0", 0), ("1", 0), ("2", 29), ("x", 29), (None, 29)])
async def test_reading_ahead_is_switched_on_and_off(
    wire: Wire, mode: str | None, code: int
) -> None:
    fields = {} if mode is None else {"READ_AHEAD_MODE": mode}
    reply = await wire.ask(Command.request(C.SET_COMMITLOG_READ_MODE, ext=fields))
    assert reply.code == code
    if code == 0:
        assert reply.remark == f"set commitlog readahead mode success, mode: {mode}"


async def test_a_request_mode_is_kept(wire: Wire) -> None:
    request = Command.request(
        C.SET_MESSAGE_REQUEST_MODE,
        b'{"consumerGroup":"GID_wire","mode":"PULL","popShareQueueNum":0,"topic":"WireTopic"}',
    )
    assert (await wire.ask(request)).code == ResponseCode.SUCCESS
    reply = await wire.ask(Command.request(C.GET_ALL_MESSAGE_REQUEST_MODE))
    assert (
        json.loads(reply.body)["messageRequestModeMap"]["WireTopic"]["GID_wire"]["mode"] == "PULL"
    )
    assert (wire.folder / "config" / "messageRequestMode.json").exists()

    for topic, group, code in (
        ("%RETRY%GID_wire", "GID_wire", ResponseCode.NO_PERMISSION),
        ("NoSuchTopic", "GID_wire", ResponseCode.TOPIC_NOT_EXIST),
        ("WireTopic", "NoSuchGroup", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ):
        body = f'{{"consumerGroup":"{group}","mode":"POP","topic":"{topic}"}}'.encode()
        reply = await wire.ask(Command.request(C.SET_MESSAGE_REQUEST_MODE, body))
        assert reply.code == code


async def test_a_member_is_assigned_its_queues(wire: Wire) -> None:
    body = (
        b'{"clientId":"192.0.2.2@push1","consumerGroup":"GID_wire","messageModel":"CLUSTERING",'
        b'"strategyName":"AVG","topic":"WireTopic"}'
    )
    reply = await wire.ask(Command.request(C.QUERY_ASSIGNMENT, body))
    assigned = json.loads(reply.body)["messageQueueAssignments"]
    assert [each["messageQueue"]["queueId"] for each in assigned] == [0, 1]
    assert {each["mode"] for each in assigned} == {"PULL"}

    nobody = body.replace(b"GID_wire", b"GID_empty")
    reply = await wire.ask(Command.request(C.QUERY_ASSIGNMENT, nobody))
    assert json.loads(reply.body) == {}

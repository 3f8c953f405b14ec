"""What a request only refers to: a message by its place in the log, by the hash of its key."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.message import names
from rocketq.message.hashing import java_hash
from rocketq.message.hosts import encode_host
from rocketq.message.ids import offset_message_id
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, Connection, RemotingClient, RequestCode, ResponseCode
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.bodies.heartbeat import HeartbeatData, ProducerData
from rocketq.remoting.headers import (
    ConsumeMessageDirectly,
    ConsumerSendMsgBack,
    EndTransaction,
    HeartBeat,
    QueryMessage,
    SendMessageResponse,
    ViewMessageById,
)
from tests.broker.access.test_access import LOCKED, call_as, make_user
from tests.broker.harness import TestBroker, pull_request, running_broker, send_request
from tests.waiting import eventually

THEIRS = "orders"
MINE = "gossip"
GROUP = "listeners"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    """A topic of others, and `mallory`, who may do everything with a topic and a group of hers."""
    async with running_broker(
        tmp_path, **LOCKED, transaction_time_out=100, transaction_check_interval=100
    ) as running:
        await make_user(*(running, "mallory", (f"Topic:{MINE}", "All"), (f"Group:{GROUP}", "All")))
        await call_as(running, send_request(MINE))
        yield running


async def ask(broker: TestBroker, request: Command) -> Command:
    return await call_as(broker, request, "mallory", "mallorypass")


async def send_theirs(broker: TestBroker, **more: object) -> tuple[int, int]:
    """A message of others: its place in the log and in its queue."""
    reply = await call_as(broker, send_request(THEIRS, b"secret", **more))  # type: ignore[arg-type]
    sent = reply.header(SendMessageResponse)
    return int(sent.msg_id[-16:], 16), sent.queue_offset


def is_refused(reply: Command) -> bool:
    return reply.code == ResponseCode.NO_PERMISSION


async def test_nobody_is_sent_back_what_is_not_theirs(broker: TestBroker) -> None:
    place, _ = await send_theirs(broker)
    for said in (MINE, THEIRS, None):
        header = ConsumerSendMsgBack(
            offset=place, group=GROUP, delay_level=-1, origin_topic=said, max_reconsume_times=0
        )
        assert is_refused(await ask(broker, Command.request(header)))
    await make_user(broker, "alice", (f"Topic:{THEIRS}", "Sub"), (f"Group:{GROUP}", "Sub"))
    header = ConsumerSendMsgBack(offset=place, group=GROUP, delay_level=-1, origin_topic=THEIRS)
    reply = await call_as(broker, Command.request(header), "alice", "alicepass")
    assert reply.code == ResponseCode.SUCCESS
    # What has come back once is the group's own.
    pulled = await call_as(broker, pull_request(names.dlq_topic(GROUP)))
    [dead] = decode_records(pulled.body)
    assert dead.body == b"secret"


async def test_a_groups_own_retries_are_its_own(broker: TestBroker) -> None:
    await make_user(broker, "alice", (f"Topic:{THEIRS}", "Sub"), (f"Group:{GROUP}", "Sub"))
    reply = await call_as(broker, send_request(names.retry_topic(GROUP)), "alice", "alicepass")
    place = int(reply.header(SendMessageResponse).msg_id[-16:], 16)
    header = ConsumerSendMsgBack(offset=place, group=GROUP, delay_level=-1, origin_topic=THEIRS)
    reply = await call_as(broker, Command.request(header), "alice", "alicepass")
    assert reply.code == ResponseCode.SUCCESS


async def test_what_a_proxy_asks_for_must_be_of_the_topic_that_it_names(broker: TestBroker) -> None:
    """A proxy has looked at the topic that its client named, and has all rights itself."""
    place, _ = await send_theirs(broker)
    header = ConsumerSendMsgBack(offset=place, group=GROUP, delay_level=-1, origin_topic=MINE)
    assert is_refused(await call_as(broker, Command.request(header)))
    header = ConsumerSendMsgBack(offset=place, group=GROUP, delay_level=-1, origin_topic=THEIRS)
    assert (await call_as(broker, Command.request(header))).code == ResponseCode.SUCCESS


async def test_nobody_reads_by_its_place_what_is_not_theirs(broker: TestBroker) -> None:
    place, _ = await send_theirs(broker)
    request = Command.request(ViewMessageById(offset=place))
    request.ext_fields["topic"] = MINE
    assert is_refused(await ask(broker, request))
    assert (await call_as(broker, Command.request(ViewMessageById(offset=place)))).code == 0


async def test_nobody_is_handed_directly_what_is_not_theirs(broker: TestBroker) -> None:
    place, _ = await send_theirs(broker)
    handed = []

    def consume(request: Command, connection: Connection) -> Command:
        handed.append(request)
        return request.reply()

    client = RemotingClient(
        handlers={RequestCode.CONSUME_MESSAGE_DIRECTLY: consume},
        hooks=[RequestSigner("mallory", "mallorypass")],
    )
    await broker.heartbeat("mine", group=GROUP, topic=MINE, client=client)
    header = ConsumeMessageDirectly(
        consumer_group=GROUP,
        client_id="mine",
        topic=MINE,
        msg_id=offset_message_id(encode_host("127.0.0.1", 1), place),
    )
    assert is_refused(await ask(broker, Command.request(header)))
    assert not handed
    await client.close()


@pytest.mark.parametrize("said", [None, MINE, names.TRANSACTION_HALF_TOPIC])
@pytest.mark.parametrize("decision", [8, 12])
async def test_nobody_decides_the_transactions_of_others(
    broker: TestBroker, said: str | None, decision: int
) -> None:
    properties = {"TRAN_MSG": "true", "PGROUP": "theirs", "UNIQ_KEY": "u"}
    place, number = await send_theirs(broker, properties=properties, sys_flag=4)
    header = EndTransaction(
        producer_group="theirs",
        tran_state_table_offset=number,
        commit_log_offset=place,
        commit_or_rollback=decision,
        from_transaction_check=True,
        msg_id="u",
        topic=said,
    )
    assert is_refused(await ask(broker, Command.request(header)))
    assert (await call_as(broker, pull_request(THEIRS))).code != 0
    if said is None:  # as clients of RocketMQ 4 have it
        assert (await call_as(broker, Command.request(header))).code == 0


async def test_nobody_is_asked_about_the_transactions_of_others(broker: TestBroker) -> None:
    asked: dict[str, list[Command]] = {"mallory": [], "root": []}
    clients = []
    for user, secret in (("mallory", "mallorypass"), ("root", "rootpass")):

        def take(request: Command, connection: Connection, user: str = user) -> None:
            asked[user].append(request)

        client = RemotingClient(
            handlers={RequestCode.CHECK_TRANSACTION_STATE: take},
            hooks=[RequestSigner(user, secret)],
        )
        clients.append(client)
        data = HeartbeatData(client_id=user, producer_data_set=[ProducerData(group_name="theirs")])
        await client.call(broker.address, Command.request(HeartBeat(), data.encode()), 30.0)
    for _ in range(4):  # members are asked by turns
        properties = {"TRAN_MSG": "true", "PGROUP": "theirs", "UNIQ_KEY": "u"}
        now_ms = SYSTEM_CLOCK.now_ms()
        await send_theirs(broker, properties=properties, sys_flag=4, born_timestamp=now_ms)
    await eventually(lambda: len(asked["root"]) >= 4, "the producer to be asked")
    assert not asked["mallory"]
    for client in clients:
        await client.close()


def key_with_hash_of(text: str, prefix: str) -> str:
    """A key such that the prefix and it have the same hash as a text."""
    wanted = java_hash(text) & 0xFFFFFFFF
    # Digits of the hash in base 31, from the back; seven letters reach every value.
    base = java_hash(prefix + "\x30" * 8) & 0xFFFFFFFF
    missing = (wanted - base) & 0xFFFFFFFF
    letters = []
    for _ in range(8):
        letters.append(chr(0x30 + missing % 31))
        missing //= 31
    return "".join(reversed(letters))


async def test_a_key_with_the_same_hash_finds_nothing_of_another_topic(broker: TestBroker) -> None:
    properties = {"UNIQ_KEY": "u", "KEYS": "order-17"}
    await send_theirs(broker, properties=properties)
    key = key_with_hash_of(f"{THEIRS}#order-17", f"{MINE}#")
    assert java_hash(f"{MINE}#{key}") == java_hash(f"{THEIRS}#order-17")

    def query(topic: str, key: str) -> Command:
        header = QueryMessage(
            topic=topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=2**62
        )
        return Command.request(header)

    reply = await call_as(broker, query(THEIRS, "order-17"))
    assert [one.body for one in decode_records(reply.body)] == [b"secret"]
    assert (await ask(broker, query(MINE, key))).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize("said", [None, THEIRS, names.TRANSACTION_HALF_TOPIC])
async def test_a_user_decides_its_own_transactions(broker: TestBroker, said: str | None) -> None:
    await make_user(broker, "alice", (f"Topic:{THEIRS}", "Pub|Sub"))
    properties = {"TRAN_MSG": "true", "PGROUP": "theirs", "UNIQ_KEY": "u"}
    place, number = await send_theirs(broker, properties=properties, sys_flag=4)
    header = EndTransaction(
        producer_group="theirs",
        tran_state_table_offset=number,
        commit_log_offset=place,
        commit_or_rollback=8,
        from_transaction_check=True,
        msg_id="u",
        topic=said,
    )
    reply = await call_as(broker, Command.request(header), "alice", "alicepass")
    assert reply.code == ResponseCode.SUCCESS, reply
    pulled = await call_as(broker, pull_request(THEIRS))
    assert [each.body for each in decode_records(pulled.body)] == [b"secret"]

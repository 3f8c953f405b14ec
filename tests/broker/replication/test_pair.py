"""A master and a slave as brokers: who takes what, who knows what, who serves whom."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from rocketq.broker.config import BrokerConfig
from rocketq.broker.replication.metadata_sync import MetadataSync
from rocketq.broker.replication.role import first_role
from rocketq.common.config import ConfigError
from rocketq.message.flags import PullFlag
from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.bodies.groups import SubscriptionGroupWrapper
from rocketq.remoting.bodies.offsets import ConsumerOffsetWrapper, DelayOffsetWrapper
from rocketq.remoting.bodies.registration import TopicConfigWrapper
from rocketq.remoting.headers import (
    ConsumerSendMsgBack,
    EndTransaction,
    PullMessageResponse,
    QueryMessage,
    ResetOffset,
    UpdateConsumerOffset,
)
from rocketq.store import StoreConfig
from rocketq.store.config import BrokerRole
from tests.broker.harness import TestBroker
from tests.broker.replication.pairs import (
    broker,
    has_everything,
    is_connected,
    name_server,
    pair,
    status,
)
from tests.waiting import eventually

SYNC: dict[str, Any] = {
    "broker_role": BrokerRole.SYNC_MASTER,
    "in_sync_replicas": 2,
    "slave_timeout": 30_000,  # longer than anything takes on a busy machine
}


async def in_step(master: TestBroker, slave: TestBroker) -> None:
    await eventually(lambda: has_everything(master, slave), "the slave to have everything")


async def offset_at(where: TestBroker, key: str) -> int | None:
    reply = await where.call(Command.request(RequestCode.GET_ALL_CONSUMER_OFFSET))
    if reply.code != ResponseCode.SUCCESS:
        return None
    return ConsumerOffsetWrapper.decode(reply.body).offset_table.get(key, {}).get(0)


async def commit(where: TestBroker, offset: int, topic: str = "orders") -> Command:
    header = UpdateConsumerOffset(
        consumer_group="group", topic=topic, queue_id=0, commit_offset=offset
    )
    return await where.call(Command.request(header))


def suggestion(reply: Command) -> int:
    return int(reply.header(PullMessageResponse).suggest_which_broker_id)


# Messages


async def test_what_a_sync_master_acknowledges_is_in_its_slave(tmp_path: Path) -> None:
    async with pair(tmp_path, master=SYNC) as (master, slave):
        for number in range(20):
            reply = await master.send("orders", b"%d" % number)
            assert reply.code == ResponseCode.SUCCESS
            # The answer came, so it is there, whatever happens to the master now.
            states = (await status(master)).ha_connection_info
            assert (
                max(each.slave_ack_offset for each in states)
                == (await status(slave)).ha_client_runtime_info.max_offset
            )
        await in_step(master, slave)
        await eventually(lambda: slave.messages("orders"))
        theirs = await master.messages("orders")
        ours = await slave.messages("orders")
        assert [(m.queue_offset, m.physical_offset, m.body) for m in ours] == [
            (m.queue_offset, m.physical_offset, m.body) for m in theirs
        ]


async def test_a_slave_finds_messages_by_key(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await master.send("orders", b"x", properties={"UNIQ_KEY": "u", "KEYS": "k1 k2"})
        await in_step(master, slave)
        for key in ("k1", "k2"):
            header = QueryMessage(
                topic="orders", key=key, max_num=9, begin_timestamp=0, end_timestamp=1 << 60
            )

            async def found(header: QueryMessage = header) -> bool:
                return (await slave.call(Command.request(header))).code == ResponseCode.SUCCESS

            await eventually(found)


async def test_without_its_slave_a_sync_master_says_so(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv:
        settings = SYNC | {"slave_timeout": 100}
        async with broker(tmp_path / "master", namesrv.address, **settings) as master:
            await master.send("orders", b"makes the topic")
            assert (await master.send("orders")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
            # Who does not wait is not told.
            reply = await master.send("orders", properties={"UNIQ_KEY": "u", "WAIT": "false"})
            assert reply.code == ResponseCode.SUCCESS
            assert len(await master.messages("orders")) == 3


async def test_with_too_few_copies_a_send_is_refused(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv:
        settings = SYNC | {"min_in_sync_replicas": 2}
        async with broker(tmp_path / "master", namesrv.address, **settings) as master:
            reply = await master.send("orders")
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert reply.remark is not None
            assert "in-sync replicas not enough" in reply.remark
            async with broker(tmp_path / "slave", namesrv.address, slave_id=1):

                async def is_taken() -> bool:
                    return (await master.send("orders")).code == ResponseCode.SUCCESS

                await eventually(is_taken)


async def test_a_slave_takes_nothing(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await master.send("orders")
        await in_step(master, slave)
        busy = "[REJECTREQUEST]system busy, start flow control for a while"
        reply = await slave.send("orders")
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_BUSY, busy)
        back = ConsumerSendMsgBack(offset=0, group="group", delay_level=0)
        reply = await slave.call(Command.request(back))
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_BUSY, busy)
        decision = EndTransaction(
            producer_group="p",
            tran_state_table_offset=0,
            commit_log_offset=0,
            commit_or_rollback=8,
            msg_id="x",
        )
        reply = await slave.call(Command.request(decision))
        assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
        reset = ResetOffset(topic="orders", group="group", timestamp=0, is_force=True)
        reply = await slave.call(Command.request(reset))
        assert reply.remark == "Can not reset offset in slave broker"


# Tables


async def test_a_slave_copies_topics_groups_offsets_and_delays(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        for number in range(3):
            await master.send("orders", b"%d" % number)
        await master.send(
            "orders", b"later", properties={"UNIQ_KEY": "u", "DELAY": "1", "WAIT": "true"}
        )
        await master.pull("orders")  # makes the group
        await commit(master, 2)

        async def equal(code: RequestCode, body: Any) -> bool:
            theirs, ours = await master.call(Command(code)), await slave.call(Command(code))
            return bool(body.decode(theirs.body) == body.decode(ours.body))

        for code, body in (
            (RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigWrapper),
            (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupWrapper),
            (RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetWrapper),
            (RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetWrapper),
        ):
            await eventually(partial(equal, code, body), code.name)
        assert await offset_at(slave, "orders@group") == 2

        async def is_delivered() -> bool:
            reply = await slave.call(Command.request(RequestCode.GET_ALL_DELAY_OFFSET))
            return DelayOffsetWrapper.decode(reply.body).offset_table.get(1) == 1

        await eventually(is_delivered, "the progress of level 1")
        # What was delivered is there: progress is never ahead of the log.
        assert len(await slave.messages("orders")) == 4


async def test_a_topic_deleted_at_the_master_goes_from_the_slave(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await master.send("orders")

        async def topics() -> set[str]:
            reply = await slave.call(Command.request(RequestCode.GET_ALL_TOPIC_CONFIG))
            return set(TopicConfigWrapper.decode(reply.body).topic_config_table)

        async def is_known() -> bool:
            return "orders" in await topics()

        async def is_gone() -> bool:
            return "orders" not in await topics()

        await eventually(is_known)
        await master.call(
            Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext_fields={"topic": "orders"})
        )
        await eventually(is_gone)


async def test_offsets_committed_at_the_slave_reach_the_master_that_is_back(
    tmp_path: Path,
) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "slave", namesrv.address, slave_id=1) as slave,
    ):
        async with broker(tmp_path / "master", namesrv.address) as master:
            port = master.broker.port
            for _ in range(9):
                await master.send("orders")
            await master.pull("orders")
            await commit(master, 3)

            async def is_copied() -> bool:
                return await offset_at(slave, "orders@group") == 3

            await eventually(is_copied)
        assert (await commit(slave, 7)).code == ResponseCode.SUCCESS
        async with broker(tmp_path / "master", namesrv.address, listen_port=port) as master:

            async def is_passed_on() -> bool:
                return await offset_at(master, "orders@group") == 7

            await eventually(is_passed_on)
            # From now on the master's word counts, also where it goes back.
            await commit(master, 5)

            async def follows() -> bool:
                return await offset_at(slave, "orders@group") == 5

            await eventually(follows)
            assert await offset_at(master, "orders@group") == 5


async def test_a_topic_whose_master_is_gone_before_it_was_copied_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "slave", namesrv.address, slave_id=1) as slave,
    ):
        async with broker(tmp_path / "master", namesrv.address, **SYNC) as master:
            await eventually(lambda: is_connected(slave))
            # The master lives, and says nothing of its tables any more.
            monkeypatch.setattr(MetadataSync, "copy", AsyncMock(side_effect=TimeoutError))
            reply = await master.send("orders", b"kept", queue_id=2)
            assert reply.code == ResponseCode.SUCCESS
        await eventually(lambda: slave.messages("orders", queue_id=2))
        assert [each.body for each in await slave.messages("orders", queue_id=2)] == [b"kept"]


# Reading


async def test_a_slave_is_read_only_where_that_is_allowed(tmp_path: Path) -> None:
    async with pair(tmp_path, slave={"slave_read_enable": False}) as (master, slave):
        await master.send("orders")
        await in_step(master, slave)
        reply = await slave.pull("orders")
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert reply.remark is not None
        assert reply.remark.startswith("[REJECTREQUEST]")


async def test_readers_far_behind_go_to_the_slave_and_others_come_back(tmp_path: Path) -> None:
    far = {"access_message_in_memory_max_ratio": 0}
    async with pair(tmp_path, master=far) as (master, slave):
        for _ in range(5):
            await master.send("orders", bytes(500))
        await in_step(master, slave)
        reply = await master.pull("orders", max_msg_nums=1)
        assert suggestion(reply) == 1

        async def is_found() -> bool:
            return (await slave.pull("orders")).code == ResponseCode.SUCCESS

        await eventually(is_found)
        # Here nothing is far behind, and the master lives: back to it.
        reply = await slave.pull("orders")
        assert suggestion(reply) == 0
        reply = await slave.pull("orders", offset=5, sys_flag=6, suspend_timeout_millis=20_000)
        assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert suggestion(reply) == 0


async def test_without_slave_reads_nobody_is_sent_to_a_slave(tmp_path: Path) -> None:
    far = {"access_message_in_memory_max_ratio": 0, "slave_read_enable": False}
    async with pair(tmp_path, master=far) as (master, _):
        for _ in range(5):
            await master.send("orders", bytes(500))
        assert suggestion(await master.pull("orders", max_msg_nums=1)) == 0


async def test_a_slave_without_master_holds_pulls_and_wakes_them_for_the_master(
    tmp_path: Path,
) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "slave", namesrv.address, slave_id=1) as slave,
    ):
        async with broker(tmp_path / "master", namesrv.address) as master:
            port = master.broker.port
            for _ in range(2):
                await master.send("orders")
            await in_step(master, slave)
            await eventually(lambda: slave.messages("orders"))

        async def is_alone() -> bool:
            return not await is_connected(slave)

        await eventually(is_alone)
        assert (await slave.pull("orders")).code == ResponseCode.SUCCESS
        suspend = PullFlag.SUSPEND | PullFlag.SUBSCRIPTION
        # At the end, and beyond it: what a lagging slave does not have yet.
        held = [
            slave.start_pull("orders", at, sys_flag=int(suspend), suspend_timeout_millis=60_000)
            for at in (2, 77)
        ]
        await asyncio.sleep(0.1)
        assert not any(each.done() for each in held)
        async with broker(tmp_path / "master", namesrv.address, listen_port=port):
            for at, each in zip((2, 77), held, strict=True):
                reply = await each
                assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
                assert suggestion(reply) == 0
                assert reply.header(PullMessageResponse).next_begin_offset == at


# Logs that have parted


async def test_a_slave_that_is_ahead_of_its_master_says_so_and_serves_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(tmp_path) as (master, slave):
        for _ in range(5):
            await master.send("orders")
        await in_step(master, slave)
        end = (await status(master)).master_commit_log_max_offset
    async with (
        name_server(tmp_path) as namesrv,
        broker(tmp_path / "new master", namesrv.address) as master,
        broker(tmp_path / "slave", namesrv.address, slave_id=1) as slave,
    ):
        await eventually(
            lambda: f"this slave's log ends at {end}, its master's at 0" in caplog.text
        )
        assert "delete its store directory" in caplog.text
        reply = await slave.pull("orders")
        assert reply.code == ResponseCode.NO_PERMISSION
        assert not (await status(master)).ha_connection_info
        # The master grows past the slave's end: still not one log.
        for number in range(9):
            await master.send("orders", b"other %d" % number)
        await eventually(lambda: "another record at" in caplog.text)
        assert (await status(slave)).ha_client_runtime_info.max_offset == end
        assert (await slave.pull("orders")).code == ResponseCode.NO_PERMISSION


# Configuration


@pytest.mark.parametrize(
    ("config", "store", "words"),
    [
        ({"broker_id": 0}, {"broker_role": BrokerRole.SLAVE}, "Slave's brokerId must be > 0"),
        ({"enable_slave_acting_master": True}, {}, "enableSlaveActingMaster"),
    ],
)
def test_roles_that_cannot_be_are_refused(
    config: dict[str, Any], store: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        first_role(BrokerConfig(**config), StoreConfig(**store))


def test_a_master_has_the_id_0_whatever_the_file_says() -> None:
    assert first_role(BrokerConfig(broker_id=7), StoreConfig()).broker_id == 0


async def test_a_sync_master_that_waits_for_nobody_is_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(tmp_path / "one", "", broker_role=BrokerRole.SYNC_MASTER):
        assert caplog.text.count("waits for no slave") == 1
    caplog.clear()
    async with broker(tmp_path / "two", "", **SYNC):
        assert "waits for no slave" not in caplog.text

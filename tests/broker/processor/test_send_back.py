"""Messages given back: when they come again, and when they are dead."""

import errno
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from rocketq.broker.access.references import References
from rocketq.broker.processor.send_back import SendBackProcessor
from rocketq.common.clock import ManualClock
from rocketq.message.message import MessageExt
from rocketq.message.names import SCHEDULE_TOPIC, dlq_topic, retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Command, RequestRejected, ResponseCode, Version
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.headers import ConsumerSendMsgBack
from rocketq.store import BrokerRole, FlushDiskType
from tests.broker.services import Services, opened
from tests.store.disks import FaultyDisk

GROUP = "GID_orders"
RETRY, DLQ = retry_topic(GROUP), dlq_topic(GROUP)
NOBODY: Any = None


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def send_back(
    services: Services,
    offset: int,
    *,
    delay_level: int = 0,
    limit: int | None = 16,
    group: str = GROUP,
    version: int = Version.CURRENT,
) -> Command:
    reply = start_send_back(
        services, offset, delay_level=delay_level, limit=limit, group=group, version=version
    )
    assert isinstance(reply, Command)
    return reply


def start_send_back(
    services: Services,
    offset: int,
    *,
    delay_level: int = 0,
    limit: int | None = 16,
    group: str = GROUP,
    version: int = Version.CURRENT,
) -> Command | Awaitable[Command]:
    processor = SendBackProcessor(
        *(services.live, services.retries, services.store, services.writer, services.stats),
        References(),
    )
    header = ConsumerSendMsgBack(
        offset=offset, group=group, delay_level=delay_level, max_reconsume_times=limit
    )
    request = Command.request(header)
    request.version = version
    return processor._send_back(request, NOBODY)


def only(messages: list[MessageExt]) -> MessageExt:
    (message,) = messages
    return message


async def test_the_first_failure_waits_at_level_three(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        offset = services.put("orders", b"order", 3, TAGS="paid", KEYS="42", UNIQ_KEY="abc")
        original = services.store.message_at(offset)
        assert original is not None

        reply = send_back(services, offset)

        assert reply.code == ResponseCode.SUCCESS
        waiting = only(services.read(SCHEDULE_TOPIC, 2))
        assert waiting.body == b"order"
        assert waiting.reconsume_times == 1
        assert waiting.born_timestamp == original.born_timestamp
        assert waiting.properties == {
            "TAGS": "paid",
            "KEYS": "42",
            "UNIQ_KEY": "abc",
            "RETRY_TOPIC": "orders",
            "ORIGIN_MESSAGE_ID": original.offset_msg_id,
            "WAIT": "false",
            "DELAY": "3",
            "REAL_TOPIC": RETRY,
            "REAL_QID": "0",
        }
        topic = services.topics.get(RETRY)
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


async def test_later_failures_wait_longer_and_keep_where_they_came_from(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        offset = services.put("orders", b"order")
        original = services.store.message_at(offset)
        assert original is not None
        send_back(services, offset)
        services.scheduled.start()
        clock.advance(10_000)
        services.scheduled.deliver_due()
        retried = only(services.read(RETRY))

        send_back(services, retried.physical_offset)

        waiting = only(services.read(SCHEDULE_TOPIC, 3))
        assert waiting.reconsume_times == 2
        assert waiting.get_property("RETRY_TOPIC") == "orders"
        assert waiting.get_property("ORIGIN_MESSAGE_ID") == original.offset_msg_id


async def test_the_level_asked_for_is_the_level_given(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        send_back(services, services.put("orders"), delay_level=5)

        assert len(services.read(SCHEDULE_TOPIC, 4)) == 1


@pytest.mark.parametrize(("limit", "delay_level"), [(0, 0), (16, -1)])
async def test_what_failed_too_often_is_dead(
    tmp_path: Path, clock: ManualClock, limit: int, delay_level: int
) -> None:
    async with opened(tmp_path, clock) as services:
        send_back(services, services.put("orders", b"x"), limit=limit, delay_level=delay_level)

        dead = only(services.read(DLQ))
        assert dead.body == b"x"
        assert dead.get_property("DELAY") == "0"
        assert dead.get_property("RETRY_TOPIC") == "orders"
        topic = services.topics.get(DLQ)
        assert topic is not None
        assert (topic.write_queue_nums, topic.perm) == (1, 6)


async def test_without_a_limit_of_the_client_the_groups_counts(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.groups.put(SubscriptionGroupConfig(group_name=GROUP, retry_max_times=0))

        send_back(services, services.put("orders"), limit=None)
        send_back(services, services.put("orders"), limit=16, version=Version.V3_4_9 - 1)

        assert len(services.read(DLQ)) == 2


async def test_a_group_without_retry_queues_drops_what_it_gives_back(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.groups.put(SubscriptionGroupConfig(group_name=GROUP, retry_queue_nums=0))

        reply = send_back(services, services.put("orders"))

        assert reply.code == ResponseCode.SUCCESS
        assert services.topics.get(RETRY) is None


async def test_a_message_that_is_gone_cannot_be_given_back(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        with pytest.raises(RequestRejected) as refused:
            send_back(services, 5_000)
        assert refused.value.remark == "look message by offset failed, 5000"


async def test_permissions_are_respected(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        offset = services.put("orders")
        services.topics.ensure(RETRY, 1, perm=4)
        with pytest.raises(RequestRejected) as refused:
            send_back(services, offset)
        assert refused.value.code == ResponseCode.NO_PERMISSION

        services.live.update({"brokerPermission": "4"})
        with pytest.raises(RequestRejected) as refused:
            send_back(services, offset)
        assert refused.value.code == ResponseCode.NO_PERMISSION


async def test_an_unknown_group_is_refused_where_groups_are_not_made(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.live.update({"autoCreateSubscriptionGroup": "false"})
        with pytest.raises(RequestRejected) as refused:
            send_back(services, services.put("orders"))
        assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


# Ordinary sends to a retry topic


@pytest.mark.parametrize(("reconsume_times", "is_dead"), [(16, False), (17, True)])
async def test_a_send_to_the_retry_topic_is_dead_past_the_limit(
    tmp_path: Path, clock: ManualClock, reconsume_times: int, is_dead: bool
) -> None:
    async with opened(tmp_path, clock) as services:
        message = services.message(RETRY, DELAY="3", RETRY_TOPIC="orders")

        services.retries.divert_exhausted(
            message,
            NOBODY,
            version=Version.CURRENT,
            reconsume_times=reconsume_times,
            max_reconsume_times=16,
        )

        assert message.topic == (DLQ if is_dead else RETRY)
        if is_dead:
            services.writer.put(message)
            assert only(services.read(DLQ)).get_property("DELAY") == "-1"


async def test_a_group_that_consumes_in_order_sends_only_what_is_dead(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        services.locks.lock(GROUP, "client", [MessageQueue("orders", "broker-a", 0)])
        message = services.message(RETRY)
        options = {"version": Version.CURRENT, "reconsume_times": 1, "max_reconsume_times": 16}

        services.retries.divert_exhausted(message, NOBODY, **options)
        assert message.topic == DLQ

        clock.advance(60_001)
        message = services.message(RETRY)
        services.retries.divert_exhausted(message, NOBODY, **options)
        assert message.topic == RETRY


async def test_counters_tell_given_back_from_dead(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as services:
        send_back(services, services.put("orders"))
        send_back(services, services.put("orders"), delay_level=-1)
        services.stats.sample()

        back = services.stats.view("SNDBCK_PUT_NUMS", f"orders@{GROUP}")
        dead = services.stats.view("DLQ_PUT_NUMS", f"orders@{GROUP}")
        assert back is not None
        assert dead is not None
        assert (back.minute.sum, dead.minute.sum) == (2, 1)


@pytest.mark.parametrize("delay_level", [0, -1])
async def test_a_message_given_back_is_never_both_stored_and_refused(
    tmp_path: Path, clock: ManualClock, delay_level: int
) -> None:
    """The name of the topic it came from need not be text that anybody can read."""
    async with opened(tmp_path, clock) as services:
        message = services.message("orders")
        message.properties = b"RETRY_TOPIC\x01\xff\xfe\x02"
        offset = services.writer.put(message).physical_offset

        reply = send_back(services, offset, delay_level=delay_level)

        assert reply.code == ResponseCode.SUCCESS
        stored = services.read(DLQ) if delay_level < 0 else services.read(SCHEDULE_TOPIC, 2)
        assert len(stored) == 1


async def test_a_dead_message_of_a_topic_nobody_can_read_is_stored(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as services:
        message = services.message(RETRY)
        message.properties = b"RETRY_TOPIC\x01\xff\xfe\x02"
        services.retries.divert_exhausted(
            message, NOBODY, version=Version.CURRENT, reconsume_times=17, max_reconsume_times=16
        )
        assert message.topic == DLQ


# How safe it is


async def test_the_answer_comes_when_the_disk_has_it(tmp_path: Path, clock: ManualClock) -> None:
    """The consumer goes on with it: what a loss of power took would never come again."""
    sync: dict[str, object] = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with opened(tmp_path, clock, store_settings=sync) as services:
        offset = services.put("orders")
        await services.store.flush()
        answer = start_send_back(services, offset)
        assert isinstance(answer, Awaitable)
        assert services.store.unflushed_bytes
        assert (await answer).code == ResponseCode.SUCCESS
        assert not services.store.unflushed_bytes


async def test_what_the_disk_does_not_take_is_not_given_back(
    tmp_path: Path, clock: ManualClock
) -> None:
    disk = FaultyDisk()
    sync: dict[str, object] = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with opened(tmp_path, clock, store_settings=sync, disk=disk) as services:
        offset = services.put("orders")
        await services.store.flush()
        disk.fail("sync", errno.EIO)
        answer = start_send_back(services, offset)
        assert isinstance(answer, Awaitable)
        with pytest.raises(RequestRejected, match="SERVICE_NOT_AVAILABLE"):
            await answer
        disk.mend()


@pytest.mark.parametrize("is_elected", [False, True])
async def test_without_its_copies_it_is_given_back_unless_another_may_become_master(
    tmp_path: Path, clock: ManualClock, is_elected: bool
) -> None:
    options: dict[str, object] = {
        "broker_role": BrokerRole.SYNC_MASTER,
        "in_sync_replicas": 2,
        "slave_timeout": 50,
    }
    async with opened(tmp_path, clock, store_settings=options) as services:
        services.store.is_controlled = is_elected
        answer = start_send_back(services, services.put("orders"))
        assert isinstance(answer, Awaitable)
        if is_elected:
            with pytest.raises(RequestRejected, match="FLUSH_SLAVE_TIMEOUT"):
                await answer
        else:
            assert (await answer).code == ResponseCode.SUCCESS

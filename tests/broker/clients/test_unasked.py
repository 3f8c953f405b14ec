"""What clients may make without being asked to."""

from pathlib import Path

import pytest

from rocketq.message.names import retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Command, RemotingClient, RequestCode, ResponseCode
from rocketq.remoting.bodies.connections import ProducerTable
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketq.remoting.bodies.locks import LockBatchRequest, LockBatchResponse
from rocketq.remoting.bodies.registration import TopicConfigWrapper
from rocketq.remoting.headers import (
    CreateTopic,
    GetAllTopicConfig,
    GetConsumerListByGroup,
    GetTopicConfig,
    HeartBeat,
    ResetOffset,
    UpdateConsumerOffset,
)
from tests.broker.harness import TestBroker, running_broker


def heartbeat(groups: list[str], producers: list[str] | None = None) -> Command:
    data = HeartbeatData(
        client_id="client",
        consumer_data_set=[ConsumerData(group_name=group) for group in groups],
        producer_data_set=[ProducerData(group_name=group) for group in producers or []],
    )
    return Command.request(HeartBeat(), data.encode())


async def topics(broker: TestBroker) -> set[str]:
    reply = await broker.call(Command.request(GetAllTopicConfig()))
    return set(TopicConfigWrapper.decode(reply.body).topic_config_table)


async def test_one_connection_makes_so_many_topics_and_groups_and_no_more(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_made_per_connection=10) as broker:
        for number in range(8):
            assert (await broker.send(f"topic-{number}")).code == ResponseCode.SUCCESS
        reply = await broker.call(heartbeat(["one", "two", "three"]))
        assert reply.code == ResponseCode.SUCCESS
        there = await topics(broker)
        assert retry_topic("one") in there
        assert retry_topic("two") not in there
        refused = await broker.send("topic-8")
        assert refused.code == ResponseCode.TOPIC_NOT_EXIST
        # What is there serves on, also for this connection; others make more.
        assert (await broker.send("topic-0")).code == ResponseCode.SUCCESS
        other = RemotingClient()
        try:
            answer = await other.call(broker.address, heartbeat(["two"]))
            assert answer.code == ResponseCode.SUCCESS
        finally:
            await other.close()
        assert retry_topic("two") in await topics(broker)


async def test_all_clients_together_make_so_many_and_administrators_more(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_topics_made_unasked=0) as broker:
        assert (await broker.send("orders")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await broker.call(heartbeat(["group"]))).code == ResponseCode.SUCCESS
        assert retry_topic("group") not in await topics(broker)
        header = CreateTopic(
            topic="orders",
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        assert (await broker.call(Command.request(header))).code == ResponseCode.SUCCESS
        assert (await broker.send("orders")).code == ResponseCode.SUCCESS


async def test_groups_have_a_limit_of_their_own(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_groups_made_unasked=0) as broker:
        await broker.send("orders")
        refused = await broker.pull("orders")
        assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_heartbeat_of_many_groups_registers_them_all(tmp_path: Path) -> None:
    groups = [f"group-{number}" for number in range(3_000)]
    async with running_broker(tmp_path) as broker:
        reply = await broker.call(heartbeat(groups, ["producers"]), timeout_s=60)
        assert reply.code == ResponseCode.SUCCESS
        there = await topics(broker)
        assert {retry_topic(group) for group in groups} <= there


@pytest.mark.parametrize("count", [-1, 16_385, 3_000_000, 2**31 - 1])
async def test_a_topic_has_a_limited_number_of_queues(tmp_path: Path, count: int) -> None:
    async with running_broker(tmp_path) as broker:
        header = CreateTopic(
            topic="wide",
            default_topic="TBW102",
            read_queue_nums=count,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        refused = await broker.call(Command.request(header))
        assert refused.code == ResponseCode.INVALID_PARAMETER
        group = SubscriptionGroupConfig(group_name="wide", retry_queue_nums=count)
        refused = await broker.call(
            Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
        )
        assert refused.code == ResponseCode.INVALID_PARAMETER
        missing = await broker.call(Command.request(GetTopicConfig(topic="wide")))
        assert missing.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_connection_is_in_so_many_groups_and_no_more(tmp_path: Path) -> None:
    groups = [f"group-{number}" for number in range(40)]
    async with running_broker(tmp_path, max_groups_per_connection=30) as broker:
        for _ in range(2):  # the second renews what the first has registered
            reply = await broker.call(heartbeat(groups, groups))
            assert reply.code == ResponseCode.SUCCESS
        reply = await broker.call(Command.request(RequestCode.GET_ALL_PRODUCER_INFO))
        assert len(ProducerTable.decode(reply.body).data) == 30
        for group, code in (("group-29", 0), ("group-30", ResponseCode.SYSTEM_ERROR)):
            request = Command.request(GetConsumerListByGroup(consumer_group=group))
            assert (await broker.call(request)).code == code


async def test_only_queues_that_are_there_are_locked(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("orders")
        await broker.heartbeat(group="group", topic="orders")
        queues = [
            *(MessageQueue("orders", "broker-t", number) for number in range(-1, 10)),
            *(MessageQueue(f"invented-{number}", "broker-t", 0) for number in range(10)),
        ]
        body = LockBatchRequest(consumer_group="group", client_id="client", mq_set=queues)
        reply = await broker.call(Command.request(RequestCode.LOCK_BATCH_MQ, body=body.encode()))
        assert LockBatchResponse.decode(reply.body).lock_ok_mq_set == queues[1:5]
        body = LockBatchRequest(consumer_group="invented", client_id="client", mq_set=queues)
        reply = await broker.call(Command.request(RequestCode.LOCK_BATCH_MQ, body=body.encode()))
        assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize("queue_id", [-1, 4, 2**20, 2**31 - 1])
async def test_offsets_are_taken_for_queues_that_are_there(tmp_path: Path, queue_id: int) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("orders")
        await broker.heartbeat(group="group", topic="orders")
        header = UpdateConsumerOffset(
            consumer_group="group", topic="orders", queue_id=queue_id, commit_offset=5
        )
        refused = await broker.call(Command.request(header))
        assert refused.code == ResponseCode.INVALID_PARAMETER
        reset = ResetOffset(
            topic="orders", group="group", queue_id=max(queue_id, 4), timestamp=0, is_force=True
        )
        assert (await broker.call(Command.request(reset))).code == ResponseCode.INVALID_PARAMETER

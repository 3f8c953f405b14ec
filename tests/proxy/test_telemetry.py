"""Telemetry, heartbeats, goodbyes: who is there, and what it is told."""

import asyncio
from typing import Any

import grpc
import pytest

from rocketq.proxy.protocol import messages as pb
from rocketq.remoting import Command
from rocketq.remoting.bodies.connections import ConsumerConnection
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketq.remoting.headers import (
    ConsumeMessageDirectly,
    GetConsumerConnectionList,
    GetConsumerRunningInfo,
)
from tests.proxy.bare_client import Client
from tests.proxy.harness import Place
from tests.waiting import eventually


async def test_a_producer_is_told_how_to_send(at: Place, client: Client) -> None:
    asked = client.producer_settings("t", "u")
    asked.user_agent.version = "9.9"
    asked.client_properties["added"] = "later"
    settings = (await client.introduce(asked)).settings
    assert settings.client_type == pb.PRODUCER
    assert settings.access_point == client.endpoints
    assert settings.request_timeout.seconds == 3
    assert settings.user_agent.version == "9.9"
    assert [topic.name for topic in settings.publishing.topics] == ["t", "u"]
    assert settings.backoff_policy.max_attempts == 3
    backoff = settings.backoff_policy.exponential_backoff
    assert backoff.initial.ToMilliseconds() == 10
    assert backoff.max.ToMilliseconds() == 1000
    assert backoff.multiplier == 2
    assert settings.publishing.max_body_size == 4194304
    assert settings.publishing.validate_message_type
    assert settings.HasField("metric")
    assert not settings.metric.on


async def test_a_producer_may_name_no_topic(at: Place, client: Client) -> None:
    asked = client.producer_settings()
    asked.publishing.SetInParent()
    assert (await client.introduce(asked)).settings.publishing.max_body_size


@pytest.mark.parametrize("is_in_order", [False, True])
async def test_a_consumer_is_told_how_to_receive(
    at: Place, client: Client, is_in_order: bool
) -> None:
    await at.create_group("g", consume_message_orderly=is_in_order, retry_max_times=5)
    settings = (await client.introduce(client.consumer_settings("g", "t"))).settings
    assert settings.backoff_policy.max_attempts == 6
    delays = settings.backoff_policy.customized_backoff.next
    assert [delay.seconds for delay in delays][:5] == [1, 5, 10, 30, 60]
    assert len(delays) == 18
    subscription = settings.subscription
    assert subscription.group.name == "g"
    assert subscription.subscriptions[0].topic.name == "t"
    assert subscription.fifo is is_in_order
    assert subscription.receive_batch_size == 32
    assert subscription.long_polling_timeout.seconds == 20
    assert not settings.metric.on


async def test_a_new_group_is_made(at: Place, client: Client) -> None:
    settings = (await client.introduce(client.consumer_settings("new", "t"))).settings
    assert settings.backoff_policy.max_attempts == 17


async def ending(client: Client, *settings: Any) -> tuple[list[Any], grpc.StatusCode, str]:
    stream = client.telemetry()
    for each in settings:
        await stream.write(pb.TelemetryCommand(settings=each))
    answers = []
    try:
        async with asyncio.timeout(30):
            while (answer := await stream.read()) is not grpc.aio.EOF:
                answers.append(answer)
    except grpc.aio.AioRpcError:
        pass
    return answers, await stream.code(), await stream.details()


async def test_bad_settings_end_the_stream(at: Place, client: Client) -> None:
    lite = client.consumer_settings("g", "t", client_type=pb.LITE_PUSH_CONSUMER)
    pulling = client.consumer_settings("g", "t", client_type=pb.PULL_CONSUMER)
    for settings in (
        pb.Settings(client_type=pb.PRODUCER),
        client.producer_settings("a b"),
        client.consumer_settings("a b", "t"),
        client.consumer_settings("g", "a b"),
        lite,
        pulling,
    ):
        answers, code, text = await ending(client, settings)
        assert answers == []
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert text


async def test_a_stream_without_a_client_id_is_told_so_and_ended(at: Place) -> None:
    client = at.client(x_mq_client_id="")
    answers, code, _ = await ending(client, client.producer_settings("t"))
    assert [answer.status.code for answer in answers] == [pb.CLIENT_ID_REQUIRED]
    assert not answers[0].WhichOneof("command")
    assert code is grpc.StatusCode.OK


@pytest.mark.parametrize("language", ["GO", "HTTP", "KLINGON", ""])
async def test_any_language_will_do(at: Place, language: str) -> None:
    client = at.client(x_mq_language=language)
    assert (await client.introduce(client.producer_settings("t"))).settings


async def test_settings_are_answered_each_time_and_a_half_closed_stream_ends_well(
    at: Place, client: Client
) -> None:
    stream = client.telemetry()
    for _ in range(2):
        await stream.write(pb.TelemetryCommand(settings=client.producer_settings("t")))
        assert (await stream.read()).status.code == pb.OK
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() is grpc.StatusCode.OK
    # Losing the stream is no goodbye.
    beat = pb.HeartbeatRequest(client_type=pb.PRODUCER)
    assert (await client.call("Heartbeat", beat)).status.code == pb.OK


async def test_heartbeats_are_for_those_who_said_what_they_are(at: Place, client: Client) -> None:
    beat = pb.HeartbeatRequest(group=pb.Resource(name="g"), client_type=pb.PUSH_CONSUMER)
    goodbye = pb.NotifyClientTerminationRequest(group=pb.Resource(name="g"))
    unknown = pb.UNRECOGNIZED_CLIENT_TYPE
    assert (await client.call("Heartbeat", beat)).status.code == unknown
    assert (await client.call("NotifyClientTermination", goodbye)).status.code == unknown
    await client.introduce(client.consumer_settings("g", "t"))
    assert (await client.call("Heartbeat", beat)).status.code == pb.OK
    nameless = pb.HeartbeatRequest(client_type=pb.PUSH_CONSUMER)
    assert (await client.call("Heartbeat", nameless)).status.code == pb.ILLEGAL_CONSUMER_GROUP
    assert (await client.call("NotifyClientTermination", goodbye)).status.code == pb.OK
    assert (await client.call("Heartbeat", beat)).status.code == unknown


async def test_a_producer_says_goodbye_with_an_empty_group(at: Place, client: Client) -> None:
    await client.introduce(client.producer_settings("t"))
    goodbye = pb.NotifyClientTerminationRequest(group=pb.Resource(name=""))
    assert (await client.call("NotifyClientTermination", goodbye)).status.code == pb.OK


async def test_lite_topics_are_refused(at: Place, client: Client) -> None:
    request = pb.SyncLiteSubscriptionRequest(
        topic=pb.Resource(name="t"), group=pb.Resource(name="g"), lite_topic_set=["x"]
    )
    answer = await client.call("SyncLiteSubscription", request)
    assert answer.status.code == pb.ILLEGAL_LITE_TOPIC


async def test_an_unknown_method_is_unimplemented(at: Place, client: Client) -> None:
    method = client.channel.unary_unary("/apache.rocketmq.v2.Admin/ChangeLogLevel")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await method(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


# What brokers ask


async def test_a_broker_lists_its_grpc_clients(at: Place) -> None:
    if not at.is_here:
        pytest.skip("a proxy before brokers speaks for all its clients")
    client = at.client(x_mq_language="GO")
    await client.introduce(client.consumer_settings("g", "t"))
    header = GetConsumerConnectionList(consumer_group="g")
    reply = await at.broker.call(Command.request(header))
    listed = ConsumerConnection.decode(reply.body)
    (connection,) = listed.connection_set
    assert connection.client_id == client.client_id
    assert connection.language == "GO"
    assert list(listed.subscription_table) == ["t"]
    await client.close()

    async def is_gone() -> bool:
        return (await at.broker.call(Command.request(header))).code != 0

    await eventually(is_gone)


async def test_a_broker_asks_for_a_stack_trace_and_has_a_message_tried(at: Place) -> None:
    if not at.is_here:
        pytest.skip("a proxy before brokers speaks for all its clients")
    client = at.client()
    await at.create_topic("t", queues=1)
    introduced = await client.introduce(client.consumer_settings("g", "t"))
    asking = asyncio.ensure_future(
        at.broker.call(
            Command.request(
                GetConsumerRunningInfo(
                    consumer_group="g", client_id=client.client_id, jstack_enable=True
                )
            )
        )
    )
    command = await introduced.next()
    nonce = command.print_thread_stack_trace_command.nonce
    answer = pb.TelemetryCommand(status=pb.Status(code=pb.OK, message="OK"))
    answer.thread_stack_trace.nonce = nonce
    answer.thread_stack_trace.thread_stack_trace = "main: here"
    await introduced.stream.write(answer)
    reply = await asking
    assert ConsumerRunningInfo.decode(reply.body).jstack == "main: here"

    await client.send("t", b"try me")
    (record,) = await at.broker.messages("t")
    asking = asyncio.ensure_future(
        at.broker.call(
            Command.request(
                ConsumeMessageDirectly(
                    consumer_group="g",
                    client_id=client.client_id,
                    msg_id=record.offset_msg_id,
                    topic="t",
                )
            )
        )
    )
    command = await introduced.next()
    assert command.verify_message_command.message.body == b"try me"
    answer = pb.TelemetryCommand(status=pb.Status(code=pb.FAILED_TO_CONSUME_MESSAGE, message="no"))
    answer.verify_message_result.nonce = command.verify_message_command.nonce
    await introduced.stream.write(answer)
    result = ConsumeMessageDirectlyResult.decode((await asking).body)
    assert result.consume_result == "CR_LATER"

"""Who is there: settings, heartbeats, goodbyes."""

import grpc

from peers.grpc.cases.trial import Case, Trial, check, ending, equal
from rocketq.admin import groups
from rocketq.proxy.protocol import messages as pb


async def settings(trial: Trial) -> None:
    topic = await trial.topic()
    producer = trial.client()
    for asked in (producer.producer_settings(topic), producer.producer_settings()):
        asked.publishing.SetInParent()
        told = (await producer.introduce(asked)).settings
        equal(told.backoff_policy.max_attempts, 3)
        backoff = told.backoff_policy.exponential_backoff
        times = (backoff.initial.ToMilliseconds(), backoff.max.ToMilliseconds())
        equal(times, (10, 1000))
        equal(backoff.multiplier, 2)
        equal(told.publishing.max_body_size, 4194304)
        check(told.publishing.validate_message_type, "types are not checked")
        equal(told.metric.on, False)
        equal(told.access_point, producer.endpoints)
    for is_in_order in (False, True):
        group = await trial.group(consume_message_orderly=is_in_order, retry_max_times=5)
        for client_type in (pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER):
            client = trial.client()
            asked = client.consumer_settings(group, topic, client_type=client_type)
            told = (await client.introduce(asked)).settings
            equal(told.backoff_policy.max_attempts, 6)
            delays = [each.seconds for each in told.backoff_policy.customized_backoff.next]
            equal((len(delays), delays[:5]), (18, [1, 5, 10, 30, 60]))
            equal(told.subscription.fifo, is_in_order)
            equal(told.subscription.receive_batch_size, 32)
            equal(told.subscription.long_polling_timeout.seconds, 20)
            equal(told.subscription.subscriptions[0].topic.name, topic)


async def bad_settings(trial: Trial) -> None:
    client = trial.client()
    for wrong in (
        pb.Settings(client_type=pb.PRODUCER),
        client.producer_settings("a b"),
        client.consumer_settings("a b", "t"),
    ):
        answers, code = await ending(client, wrong)
        equal((answers, code), ([], grpc.StatusCode.INVALID_ARGUMENT))
    foreign = trial.client(x_mq_language="KLINGON")
    if trial.system.is_java:
        _, code = await ending(foreign, foreign.producer_settings("t"))
        equal(code, grpc.StatusCode.INTERNAL)
    else:
        await foreign.introduce(foreign.producer_settings("t"))
    nameless = trial.client(x_mq_client_id="")
    answers, code = await ending(nameless, nameless.producer_settings("t"))
    equal([answer.status.code for answer in answers], [pb.CLIENT_ID_REQUIRED])
    equal(code, grpc.StatusCode.OK)


async def streams(trial: Trial) -> None:
    client = trial.client()
    topic = await trial.topic()
    stream = client.telemetry()
    for _ in range(2):
        await stream.write(pb.TelemetryCommand(settings=client.producer_settings(topic)))
        equal((await stream.read()).status.code, pb.OK)
    await stream.done_writing()
    check(await stream.read() is grpc.aio.EOF, "the stream goes on")
    equal(await stream.code(), grpc.StatusCode.OK)
    beat = pb.HeartbeatRequest(client_type=pb.PRODUCER)
    equal((await client.call("Heartbeat", beat)).status.code, pb.OK)
    second = await client.introduce(client.producer_settings(topic))
    second.stream.cancel()
    equal((await client.call("Heartbeat", beat)).status.code, pb.OK)


async def heartbeats(trial: Trial) -> None:
    client = trial.client()
    topic, group = await trial.topic(), await trial.group()
    beat = pb.HeartbeatRequest(group=pb.Resource(name=group), client_type=pb.PUSH_CONSUMER)
    goodbye = pb.NotifyClientTerminationRequest(group=pb.Resource(name=group))
    for request in (("Heartbeat", beat), ("NotifyClientTermination", goodbye)):
        equal((await client.call(*request)).status.code, pb.UNRECOGNIZED_CLIENT_TYPE)
    await client.introduce(client.consumer_settings(group, topic))
    equal((await client.call("Heartbeat", beat)).status.code, pb.OK)
    nameless = pb.HeartbeatRequest(client_type=pb.PUSH_CONSUMER)
    equal((await client.call("Heartbeat", nameless)).status.code, pb.ILLEGAL_CONSUMER_GROUP)
    equal((await client.call("NotifyClientTermination", goodbye)).status.code, pb.OK)
    equal((await client.call("Heartbeat", beat)).status.code, pb.UNRECOGNIZED_CLIENT_TYPE)


async def connections(trial: Trial) -> None:
    """A broker that serves gRPC itself lists its clients; of a proxy's it does not know all."""
    topic = await trial.topic("TRANSACTION")
    consumer = await trial.consumer(topic, push=True, begins=False)
    producer = trial.client()
    await producer.introduce(producer.producer_settings(topic))
    if not trial.system.is_in_broker:
        return
    api = trial.system.admin
    found = await groups.consumer_connection(api, consumer.group)
    (connection,) = found.connection_set
    equal(connection.client_id, consumer.client_id)
    equal(connection.language, "PYTHON")
    of_topic = await groups.producer_connection(api, topic, topic)
    equal([each.client_id for each in of_topic.connection_set], [producer.client_id])


async def lite(trial: Trial) -> None:
    """Ours has no lite topics, and says so with their own code."""
    client = trial.client()
    topic, group = await trial.topic(), await trial.group()
    bad = await client.send(topic, lite_topic="a b")
    equal(bad.status.code, pb.ILLEGAL_LITE_TOPIC)
    asked = client.consumer_settings(group, topic, client_type=pb.LITE_PUSH_CONSUMER)
    answers, code = await ending(client, asked)
    equal((answers, code), ([], grpc.StatusCode.INVALID_ARGUMENT))
    if trial.system.is_java:
        return
    equal((await client.send(topic, lite_topic="one")).status.code, pb.ILLEGAL_LITE_TOPIC)
    sync = pb.SyncLiteSubscriptionRequest(
        topic=pb.Resource(name=topic), group=pb.Resource(name=group), lite_topic_set=["one"]
    )
    answer = await client.call("SyncLiteSubscription", sync)
    equal(answer.status.code, pb.ILLEGAL_LITE_TOPIC)


CASES: dict[str, Case] = {
    "5-settings": settings,
    "6-bad-settings": bad_settings,
    "7-streams": streams,
    "8-heartbeats": heartbeats,
    "37-connections": connections,
    "30-lite": lite,
}

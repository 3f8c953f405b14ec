"""Transactions: how they end, and who is asked when nobody says."""

import asyncio
from typing import Any

from tests.proxy.bare_client import Client, now_ms

from peers.grpc.cases.trial import Case, Trial, equal
from rocketq.proxy.protocol import messages as pb


async def half(client: Client, topic: str, body: bytes, recovery_s: int = 0) -> Any:
    message = client.message(topic, body, message_type=pb.TRANSACTION)
    # Without it RocketMQ's proxy takes the message for one of 1970, which nobody asks about.
    message.system_properties.born_timestamp.FromMilliseconds(now_ms())
    if recovery_s:
        duration = message.system_properties.orphaned_transaction_recovery_duration
        duration.FromSeconds(recovery_s)
    answer = await client.call("SendMessage", pb.SendMessageRequest(messages=[message]))
    equal(answer.status.code, pb.OK)
    return answer.entries[0]


async def end(client: Client, topic: str, entry: Any, resolution: int, **more: Any) -> int:
    request = pb.EndTransactionRequest(
        topic=pb.Resource(name=topic),
        message_id=entry.message_id,
        transaction_id=entry.transaction_id,
        resolution=resolution,
        source=pb.SOURCE_CLIENT,
    )
    for name, value in more.items():
        setattr(request, name, value)
    return int((await client.call("EndTransaction", request)).status.code)


async def ends(trial: Trial) -> None:
    topic = await trial.topic("TRANSACTION")
    consumer = await trial.consumer(topic)
    client = trial.client()
    # A minute in which nobody is asked.
    yes, no = await half(client, topic, b"yes", 60), await half(client, topic, b"no", 60)
    late = await half(client, topic, b"late", 120)
    equal(await end(client, topic, no, pb.ROLLBACK), pb.OK)
    equal(await end(client, topic, yes, pb.COMMIT), pb.OK)
    (message,) = await consumer.found(1)
    equal(message.body, b"yes")
    equal((await consumer.ack(topic, consumer.group, message)).status.code, pb.OK)
    again = await end(client, topic, yes, pb.COMMIT)
    equal(again, trial.either(pb.INTERNAL_SERVER_ERROR, pb.OK))  # the first has forgotten it
    equal(await end(client, topic, yes, pb.COMMIT, transaction_id=" "), pb.INVALID_TRANSACTION_ID)
    await asyncio.sleep(35)
    code = await end(client, topic, late, pb.COMMIT)
    equal(code, trial.either(pb.INTERNAL_SERVER_ERROR, pb.OK))
    if not trial.system.is_java:
        (message,) = await consumer.found(1)
        equal(message.body, b"late")
    equal((await consumer.pop()).messages, [])


async def orphans(trial: Trial) -> None:
    """The producer of the topic that is there is asked, whoever has sent it."""
    topic = await trial.topic("TRANSACTION")
    consumer = await trial.consumer(topic)
    gone, there = trial.client(), trial.client()
    introduced = await gone.introduce(gone.producer_settings(topic))
    await half(gone, topic, b"orphan", 5)
    introduced.stream.cancel()
    goodbye = pb.NotifyClientTerminationRequest()
    await gone.call("NotifyClientTermination", goodbye)
    stays = await there.introduce(there.producer_settings(topic))
    beat = pb.HeartbeatRequest(client_type=pb.PRODUCER)
    asking = asyncio.ensure_future(stays.next(120))
    while not asking.done():
        await there.call("Heartbeat", beat)
        await asyncio.wait([asking], timeout=5)
    command = (await asking).recover_orphaned_transaction_command
    equal(command.message.body, b"orphan")
    found = pb.SendResultEntry(
        message_id=command.message.system_properties.message_id,
        transaction_id=command.transaction_id,
    )
    code = await end(there, topic, found, pb.COMMIT, source=pb.SOURCE_SERVER_CHECK)
    equal(code, pb.OK)
    (message,) = await consumer.found(1)
    equal(message.body, b"orphan")


CASES: dict[str, Case] = {"25-transactions": ends, "26-orphans": orphans}

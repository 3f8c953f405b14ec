"""Sub-commands that measure brokers by sending to them."""

import time
from collections.abc import AsyncIterator
from typing import Annotated

from rocketq.admin.cluster import send_times
from rocketq.cli.admin.command import Report, Rounds, Topic, again_and_again, command, flag
from rocketq.cli.commands import Option
from rocketq.client.cluster.rpc import BrokerApi

Amount = Annotated[int, Option("-a", "--amount", metavar="N", minimum=2, help="How many messages.")]
Size = Annotated[int, Option("-s", "--size", metavar="BYTES", minimum=1, help="How large each is.")]


@command("sendMsgStatus")
async def send_msg_status(
    api: BrokerApi,
    broker_name: Annotated[
        str, Option("-b", "--brokerName", metavar="NAME", help="The broker, by its name.")
    ],
    size: Annotated[
        int, Option("-s", "--messageSize", metavar="BYTES", minimum=1, help="How large each is.")
    ] = 128,
    count: Annotated[
        int, Option("-c", "--count", metavar="N", minimum=1, help="How many messages.")
    ] = 50,
) -> Report:
    """Send msg to broker."""
    data, lines = [], []
    async for sent in send_times.to_broker(api, broker_name, count, size):
        data.append({"rtMs": round(sent.milliseconds, 3), "error": sent.error})
        lines.append(f"rt={sent.milliseconds:.0f}ms, SendResult={_result(sent)}")
    return Report(data, lines)


def _result(sent: send_times.Sent) -> str:
    if sent.result is None:
        return sent.error or ""
    result = sent.result
    queue = result.queue
    return (
        f"SendResult [sendStatus={result.status.name}, msgId={result.msg_id}, "
        f"offsetMsgId={result.offset_msg_id}, messageQueue=MessageQueue [topic={queue.topic}, "
        f"brokerName={queue.broker_name}, queueId={queue.queue_id}], "
        f"queueOffset={result.queue_offset}, recallHandle=null]"
    )


@command("checkMsgSendRT")
async def check_msg_send_rt(
    api: BrokerApi, topic: Topic, amount: Amount = 100, size: Size = 128
) -> Report:
    """Check message send response time."""
    row = "{:<32}  {:<4}  {:<20}    {}"
    lines = [row.format("#Broker Name", "#QID", "#Send Result", "#RT")]
    data: list[dict[str, object]] = []
    total = 0.0
    async for sent in send_times.to_topic(api, topic, amount, size):
        good = sent.error is None
        broker, queue_id = (
            (sent.queue.broker_name, sent.queue.queue_id) if sent.queue is not None else ("", 0)
        )
        lines.append(
            row.format(broker, queue_id, "true" if good else "false", round(sent.milliseconds))
        )
        total += sent.milliseconds if data else 0.0  # the first one pays for the connection
        data.append(
            {"brokerName": broker, "queueId": queue_id, "success": good, "rtMs": sent.milliseconds}
        )
    mean = total / (amount - 1)
    lines.append(f"Avg RT: {mean:.2f}")
    return Report({"sent": data, "avgRtMs": mean}, lines)


@command("clusterRT")
async def cluster_rt(
    api: BrokerApi,
    amount: Amount = 100,
    size: Size = 128,
    cluster: Annotated[
        str | None, Option("-c", "--cluster", metavar="CLUSTER", help="Only this one.")
    ] = None,
    as_log: Annotated[
        str | None, Option("-p", "--printAsTlog", metavar="true|false", help="As log.")
    ] = None,
    room: Annotated[str, Option("-m", "--machineRoom", metavar="NAME", help="Room.")] = "noname",
    interval: Annotated[
        int, Option("-i", "--interval", metavar="SECONDS", minimum=0, help="Pause between rounds.")
    ] = 10,
    rounds: Rounds = 0,
) -> AsyncIterator[Report]:
    """List All clusters Message Send RT."""

    async def look() -> Report:
        return await _round(api, cluster, amount, size, room if flag(as_log) else None)

    is_first = True
    async for report in again_and_again(look, interval, rounds):
        # The titles stand above all rounds.
        yield report if is_first or flag(as_log) else Report(report.data, list(report.lines)[1:])
        is_first = False


async def _round(
    api: BrokerApi, cluster: str | None, amount: int, size: int, room: str | None
) -> Report:
    times = await send_times.of_clusters(api, cluster, amount, size)
    data = [
        {
            "cluster": each.cluster,
            "brokerName": each.broker_name,
            "rtMs": each.milliseconds,
            "successCount": each.succeeded,
            "failCount": each.failed,
        }
        for each in times
    ]
    if room is not None:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        lines = [
            f"{now}|{room}|{each.cluster}|{each.broker_name}|{each.milliseconds:.0f}"
            for each in times
        ]
        return Report(data, lines)
    row = "{:<24}  {:<24}  {:<8}  {:<16}  {:<16}"
    lines = [row.format("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")]
    lines += [
        row.format(
            each.cluster,
            each.broker_name,
            f"{each.milliseconds:.2f}",
            each.succeeded,
            each.failed,
        )
        for each in times
    ]
    return Report(data, lines)

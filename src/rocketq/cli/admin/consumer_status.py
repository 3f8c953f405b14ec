"""What the members of a group say about themselves."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from rocketq.admin import groups
from rocketq.cli.admin.command import BrokerAddress, Group, Report, command
from rocketq.cli.admin.times import to_the_millisecond
from rocketq.cli.commands import Option
from rocketq.cli.failures import fail
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common.errors import RocketqError
from rocketq.remoting.bodies.running_info import ConsumerRunningInfo, ProcessQueueInfo
from rocketq.remoting.versions import version_name

_STUCK_MS = 60_000
_HEAD = "{:<10}  {:<40}  {:<20}  {}"
_QUEUE = "{:<64}  {:<32}  {:<4}  {}"
_RATES = "{:<64}  {:>14} {:>14} {:>14} {:>14} {:>18} {:>25}"


@command("consumerStatus")
async def consumer_status(
    api: BrokerApi,
    group: Group,
    client_id: Annotated[
        str | None, Option("-i", "--clientId", metavar="ID", help="One member.")
    ] = None,
    broker: BrokerAddress = None,
    with_stacks: Annotated[
        bool, Option("-s", "--jstack", help="With the stacks of its threads.")
    ] = False,
) -> Report:
    """Query consumer's internal data structure."""
    if client_id is not None:
        info = await groups.running_info(api, group, client_id, broker=broker, stacks=with_stacks)
        return Report(info.to_json(), text_of(info))
    connection = await groups.consumer_connection(api, group, broker=broker)
    folder = Path(str(int(time.time() * 1000)))
    infos: dict[str, ConsumerRunningInfo] = {}
    lines = [_HEAD.format("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")]
    for member in connection.connection_set:
        try:
            info = await groups.running_info(
                api, group, member.client_id, broker=broker, stacks=with_stacks
            )
        except RocketqError:
            continue  # gone in the meantime
        infos[member.client_id] = info
        path = folder / member.client_id
        _write(path, text_of(info))
        version = version_name(member.version)
        lines.append(_HEAD.format(len(infos), member.client_id, version, path))
    lines += _findings(infos)
    return Report({each: info.to_json() for each, info in infos.items()}, lines)


def _write(path: Path, lines: list[str]) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}")


# What is found by comparing them


def _findings(infos: dict[str, ConsumerRunningInfo]) -> list[str]:
    if not infos:
        return []
    if not have_same_subscriptions(infos.values()):
        return ["", "", "WARN: Different subscription in the same group of consumer!!!"]
    lines = ["", "", "Same subscription in the same group of consumer", "", "", "Rebalance OK"]
    for client_id, info in infos.items():
        lines += stuck_queues(client_id, info)
    return lines


def have_same_subscriptions(infos: Iterable[ConsumerRunningInfo]) -> bool:
    seen = {
        frozenset((each.topic, each.sub_string) for each in info.subscription_set) for info in infos
    }
    return len(seen) <= 1


def stuck_queues(client_id: str, info: ConsumerRunningInfo) -> list[str]:
    """Queues of an ordered consumer that are not locked, and those without progress."""
    now_ms = int(time.time() * 1000)
    is_ordered = info.properties.get("PROP_CONSUMEORDERLY") == "true"
    is_push = info.properties.get("PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY"
    if not is_push:
        return []
    lines = []
    for queue, at in info.mq_table.items():
        name = f"{queue.topic} {queue.broker_name} {queue.queue_id}"
        if is_ordered and not at.locked:
            since_ms = now_ms - at.last_lock_timestamp
            lines.append(f"{client_id} {name} can't lock for a while, {since_ms}ms")
            continue
        age_ms = now_ms - at.last_consume_timestamp
        if at.cached_msg_count and age_ms > _STUCK_MS:
            lines.append(f"{client_id} {name} can't consume for a while, maybe blocked, {age_ms}ms")
    return lines


# All of one


def text_of(info: ConsumerRunningInfo) -> list[str]:
    """Section by section, as RocketMQ prints it."""
    lines = ["#Consumer Properties#"]
    lines += [f"{name:<40}: {value}" for name, value in sorted(info.properties.items())]
    lines += ["", "", "#Consumer Subscription#"]
    lines += [
        f"{number:03d} Topic: {each.topic:<40} ClassFilter: {'false':<8} "
        f"SubExpression: {each.sub_string}"
        for number, each in enumerate(info.subscription_set, start=1)
    ]
    lines += ["", "", "#Consumer Offset#"]
    lines.append(_QUEUE.format("#Topic", "#Broker Name", "#QID", "#Consumer Offset"))
    lines += [
        _QUEUE.format(queue.topic, queue.broker_name, queue.queue_id, at.commit_offset)
        for queue, at in sorted(info.mq_table.items())
    ]
    lines += ["", "", "#Consumer MQ Detail#"]
    lines.append(_QUEUE.format("#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo"))
    lines += [
        _QUEUE.format(queue.topic, queue.broker_name, queue.queue_id, _queue_text(at))
        for queue, at in sorted(info.mq_table.items())
    ]
    lines += ["", "", "#Consumer Pop Detail#"]
    lines.append(_QUEUE.format("#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo"))
    lines += [
        _QUEUE.format(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            f"PopProcessQueueInfo [waitAckCount:{at.wait_ack_count}, droped:"
            f"{str(at.dropped).lower()}, lastPopTimestamp:{at.last_pop_timestamp}]",
        )
        for queue, at in sorted(info.mq_pop_table.items())
    ]
    lines += ["", "", "#Consumer RT&TPS#"]
    lines.append(
        _RATES.format(
            *("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS"),
            *("#ConsumeFailed TPS", "#ConsumeFailedMsgsInHour"),
        )
    )
    lines += [
        _RATES.format(
            topic,
            *(f"{x:.2f}" for x in (at.pull_rt, at.pull_tps, at.consume_rt, at.consume_ok_tps)),
            f"{at.consume_failed_tps:.2f}",
            at.consume_failed_msgs,
        )
        for topic, at in sorted(info.status_table.items())
    ]
    lines += ["", "", "#User Consume Info#"]
    lines += [f"{name:<40}: {value}" for name, value in (info.user_consumer_info or {}).items()]
    if info.jstack:
        lines += ["", "", "#Consumer jstack#", *info.jstack.splitlines()]
    return lines


def _queue_text(at: ProcessQueueInfo) -> str:
    return (
        f"ProcessQueueInfo [commitOffset={at.commit_offset}, "
        f"cachedMsgMinOffset={at.cached_msg_min_offset}, "
        f"cachedMsgMaxOffset={at.cached_msg_max_offset}, "
        f"cachedMsgCount={at.cached_msg_count}, "
        f"cachedMsgSizeInMiB={at.cached_msg_size_in_mib}, "
        f"transactionMsgMinOffset={at.transaction_msg_min_offset}, "
        f"transactionMsgMaxOffset={at.transaction_msg_max_offset}, "
        f"transactionMsgCount={at.transaction_msg_count}, locked={str(at.locked).lower()}, "
        f"tryUnlockTimes={at.try_unlock_times}, "
        f"lastLockTimestamp={at.last_lock_timestamp}, "
        f"droped={str(at.dropped).lower()}, "
        f"lastPullTimestamp={to_the_millisecond(at.last_pull_timestamp)}, "
        f"lastConsumeTimestamp={to_the_millisecond(at.last_consume_timestamp)}]"
    )

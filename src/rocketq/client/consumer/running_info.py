"""How a consumer is doing, as administrators ask for it (request 307).

Queues with what is cached of each, subscriptions, rates by topic, and the consumer's settings
under the names tools know them by. On request also where every thread and task stands.
"""

import asyncio
import dataclasses
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.client.consumer.offset_store import OffsetStore
from rocketq.client.consumer.options import GroupConfig
from rocketq.client.consumer.process_queue import Piece, ProcessQueue
from rocketq.client.consumer.statistics import ConsumerStatistics, TopicStatistics
from rocketq.client.consumer.subscription import Subscriptions
from rocketq.common.naming import camel_case
from rocketq.remoting.bodies.running_info import (
    ConsumerRunningInfo,
    ConsumeStatus,
    PopProcessQueueInfo,
    ProcessQueueInfo,
)

_CLIENT_VERSION: Final = "V5_3_3"
_MIB: Final = 1 << 20


class Reporting(Protocol):
    """The consumer that is asked."""

    @property
    def instance(self) -> ClientInstance: ...
    @property
    def config(self) -> GroupConfig: ...
    @property
    def consume_type(self) -> str: ...
    @property
    def is_orderly(self) -> bool: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    @property
    def offsets(self) -> OffsetStore: ...
    @property
    def statistics(self) -> ConsumerStatistics: ...

    def process_queues(self) -> Iterable[ProcessQueue]: ...

    def popped_queues(self) -> Iterable[ProcessQueue]:
        """Those whose messages are acknowledged one by one."""
        ...


def running_info(member: Reporting, *, with_stacks: bool) -> ConsumerRunningInfo:
    """Everything about one consumer at this moment."""
    now_ms = member.instance.clock.now_ms()
    properties = _settings(member.config)
    properties |= {
        "messageModel": member.config.wire_model,
        "consumeFromWhere": member.config.starts_from.value,
        "PROP_NAMESERVER_ADDR": "".join(f"{each};" for each in member.instance.api.addresses),
        "PROP_THREADPOOL_CORE_SIZE": str(member.concurrency),
        "PROP_CONSUMEORDERLY": _java_text(member.is_orderly),
        "PROP_CONSUME_TYPE": member.consume_type,
        "PROP_CLIENT_VERSION": _CLIENT_VERSION,
        "PROP_CONSUMER_START_TIMESTAMP": str(member.started_ms),
    }
    return ConsumerRunningInfo(
        properties=properties,
        subscription_set=[subscription.data() for subscription in member.subscriptions],
        mq_table={
            process_queue.queue: process_queue_info(
                process_queue, member.offsets.get(process_queue.queue)
            )
            for process_queue in member.process_queues()
        },
        mq_pop_table={
            process_queue.queue: PopProcessQueueInfo(
                wait_ack_count=process_queue.count,
                dropped=process_queue.retired,
                last_pop_timestamp=process_queue.last_pull_ms,
            )
            for process_queue in member.popped_queues()
        },
        status_table={
            topic: _consume_status(member.statistics.topic(topic), now_ms)
            for topic in member.subscriptions.topics()
        },
        jstack=stacks() if with_stacks else None,
    )


def process_queue_info(process_queue: ProcessQueue, offset: int | None) -> ProcessQueueInfo:
    """What is cached of one queue, and how far it is consumed."""
    pieces = [piece for piece in process_queue.taken if not piece.is_done]
    return ProcessQueueInfo(
        commit_offset=-1 if offset is None else offset,
        cached_msg_min_offset=max(process_queue.min_offset, 0),
        cached_msg_max_offset=process_queue.max_offset if process_queue.count else 0,
        cached_msg_count=process_queue.count,
        cached_msg_size_in_mib=process_queue.size // _MIB,
        **_at_listener(pieces),
        locked=process_queue.locked,
        try_unlock_times=process_queue.try_unlock_times,
        last_lock_timestamp=process_queue.last_lock_ms,
        dropped=process_queue.retired,
        last_pull_timestamp=process_queue.last_pull_ms,
        last_consume_timestamp=process_queue.last_consume_ms,
    )


def _at_listener(pieces: list[Piece]) -> dict[str, int]:
    if not pieces:
        return {}
    return {
        "transaction_msg_min_offset": pieces[0].first_offset,
        "transaction_msg_max_offset": pieces[-1].messages[-1].queue_offset,
        "transaction_msg_count": sum(len(piece.messages) for piece in pieces),
    }


def _consume_status(statistics: TopicStatistics, now_ms: int) -> ConsumeStatus:
    return ConsumeStatus(
        pull_rt=statistics.pull_rt.average(now_ms),
        pull_tps=statistics.pulled.per_second(now_ms),
        consume_rt=statistics.consume_rt.average(now_ms),
        consume_ok_tps=statistics.consumed.per_second(now_ms),
        consume_failed_tps=statistics.failed.per_second(now_ms),
        consume_failed_msgs=int(statistics.failed_hour.total(now_ms)),
    )


def _settings(config: GroupConfig) -> dict[str, str]:
    """The plain ones among a consumer's settings; not those of the client, secrets among them."""
    of_client = {field.name for field in dataclasses.fields(ClientConfig)}
    values: Mapping[str, Any] = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name not in of_client
    }
    return {
        camel_case(name): _java_text(value)
        for name, value in values.items()
        if isinstance(value, str | int | float)
    }


def _java_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def stacks() -> str:
    """Where every thread stands, and every task of the running loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        parts.append(f"thread {names.get(ident, ident)}\n")
        parts += traceback.format_stack(frame)
    for task in asyncio.all_tasks():
        parts.append(f"task {task.get_name()}\n")
        for frame in task.get_stack():
            parts += traceback.format_stack(frame, limit=1)
    return "".join(parts)

"""Where groups go on reading: reset, skipped, copied from another group.

Brokers since 5.0 do it themselves. Older ones tell the members of the group, and refuse when
nobody is online; then the offsets are written from here, as they were before there was a
request for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rocketq.admin import groups, topics
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.message.names import retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.reset import ResetOffsetBody
from rocketq.remoting.headers import CloneGroupOffset, ResetOffset

LATEST: Final = -1
"""In place of a time: the end of every queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldReset:
    """One queue whose offset was set from here."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    timestamp_offset: int
    reset_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetResult:
    """The new offsets by queue; `old_way` when they were set from here."""

    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    old_way: list[OldReset] = field(default_factory=list)


async def reset_to_time(
    api: BrokerApi, group: str, topic: str, timestamp_ms: int, *, force: bool = True
) -> ResetResult:
    """Let a group go on at a time, in every queue of a topic.

    Without `force` a queue is only ever turned back.
    """
    header = ResetOffset(
        topic=topic, group=group, timestamp=timestamp_ms, is_force=force, queue_id=-1, offset=-1
    )
    offsets: dict[MessageQueue, int] = {}
    for address in topics.reading_addresses(await topics.route(api, topic)):
        try:
            reply = await api.invoke(address, header)
        except BrokerRejected as error:
            if not groups.is_offline(error):
                raise
            return ResetResult(
                old_way=await _reset_from_here(api, group, topic, timestamp_ms, force)
            )
        offsets |= ResetOffsetBody.decode(reply.body).offset_table
    return ResetResult(offsets=offsets)


async def reset_queue(
    api: BrokerApi,
    address: str,
    group: str,
    queue: MessageQueue,
    *,
    timestamp_ms: int,
    offset: int | None = None,
) -> int:
    """Let a group go on at a time or an offset in one queue; an offset of 0 is not applied."""
    if offset is None:
        offset = await api.search_offset(address, queue, timestamp_ms)
    if offset > 0:
        await api.update_offset(address, group, queue, offset, oneway=False)
        header = ResetOffset(
            topic=queue.topic,
            group=group,
            timestamp=0,
            is_force=True,
            queue_id=queue.queue_id,
            offset=offset,
        )
        try:
            await api.invoke(address, header)
        except BrokerRejected:
            pass  # an older broker, which took the offset itself
    return offset


async def skip(api: BrokerApi, group: str, topic: str, *, force: bool = True) -> ResetResult:
    """Let a group forget everything it has not read yet."""
    return await reset_to_time(api, group, topic, LATEST, force=force)


async def clone(
    api: BrokerApi, source: str, destination: str, topic: str, *, offline: bool = False
) -> None:
    """Let a group go on where another one is; `offline` does not ask who is connected."""
    header = CloneGroupOffset(
        src_group=source, dest_group=destination, topic=topic, offline=offline
    )
    of_group = await topics.route(api, retry_topic(source))
    for address in topics.reading_addresses(of_group):
        await api.invoke(address, header, timeout_s=15.0)


async def _reset_from_here(
    api: BrokerApi, group: str, topic: str, timestamp_ms: int, force: bool
) -> list[OldReset]:
    done = []
    for address in topics.reading_addresses(await topics.route(api, topic)):
        stats = await api.consume_stats(address, group, topic=topic)
        for queue, offsets in sorted(stats.offset_table.items()):
            if timestamp_ms == LATEST:
                wanted = await api.max_offset(address, queue)
            else:
                wanted = await api.search_offset(address, queue, timestamp_ms)
            reset_to = offsets.consumer_offset
            if force or wanted <= offsets.consumer_offset:
                reset_to = wanted
                await api.update_offset(address, group, queue, wanted, oneway=False)
            done.append(
                OldReset(
                    queue=queue,
                    broker_offset=offsets.broker_offset,
                    consumer_offset=offsets.consumer_offset,
                    timestamp_offset=wanted,
                    reset_offset=reset_to,
                )
            )
    return done

"""What traced clients said about a message: who sent it, who consumed it, how long it took."""

from dataclasses import dataclass, field

from rocketq.admin import messages
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.trace.records import Pub, SubAfter, SubBefore, decode_records

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """A send or a consumption."""

    group: str
    client_host: str
    time_ms: int
    cost_ms: int
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrace:
    """All that is known about one message."""

    sent: list[TraceStep] = field(default_factory=list)
    consumed: dict[str, list[TraceStep]] = field(default_factory=dict)


async def of_message(
    api: BrokerApi,
    message_id: str,
    *,
    topic: str = TRACE_TOPIC,
    begin_ms: int = 0,
    end_ms: int = 2**63 - 1,
    max_count: int = 64,
) -> MessageTrace:
    """Found in the trace topic by the message's id, which is a key of its records."""
    found = await messages.by_key(
        api, topic, message_id, max_count=max_count, begin_ms=begin_ms, end_ms=end_ms
    )
    trace = MessageTrace()
    begun: dict[str, SubBefore] = {}
    ended: list[tuple[SubAfter, str]] = []
    for message in sorted(found, key=lambda each: each.store_timestamp):
        host = message.born_host[0]
        for record in decode_records(message.body.decode(errors="replace")):
            if getattr(record, "msg_id", None) != message_id:
                continue
            if isinstance(record, Pub):
                trace.sent.append(_step(record.group, host, record))
            elif isinstance(record, SubBefore):
                begun[record.request_id] = record
            elif isinstance(record, SubAfter):
                ended.append((record, host))
    for after, host in ended:
        before = begun.get(after.request_id)
        group = after.group or (before.group if before else "")
        time_ms = before.time_ms if before else after.time_ms
        step = TraceStep(
            group=group,
            client_host=host,
            time_ms=time_ms,
            cost_ms=after.cost_ms,
            success=after.success,
        )
        trace.consumed.setdefault(group, []).append(step)
    return trace


def _step(group: str, host: str, record: Pub) -> TraceStep:
    return TraceStep(
        group=group,
        client_host=host,
        time_ms=record.time_ms,
        cost_ms=record.cost_ms,
        success=record.success,
    )

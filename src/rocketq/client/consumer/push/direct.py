"""Consuming one message on an administrator's request (309).

The listener runs as it would otherwise; neither offsets nor queues are touched, and what comes
out of it is told to whoever asked.
"""

from typing import Final

from rocketq.client.consumer.process_queue import FlowLimits, Piece, ProcessQueue
from rocketq.client.consumer.push.listener import ConsumeStatus
from rocketq.client.consumer.push.runner import ListenerRunner
from rocketq.common.clock import Clock
from rocketq.message.message import MessageExt
from rocketq.message.names import retry_topic, unwrap_namespace
from rocketq.message.properties.codec import PropertyName
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult

_RESULTS: Final = {
    ConsumeStatus.SUCCESS: "CR_SUCCESS",
    ConsumeStatus.LATER: "CR_LATER",
    ConsumeStatus.COMMIT: "CR_COMMIT",
    ConsumeStatus.ROLLBACK: "CR_ROLLBACK",
}


async def consume_directly(
    runner: ListenerRunner,
    message: MessageExt,
    *,
    group: str,
    namespace: str,
    broker_name: str | None,
    is_orderly: bool,
    clock: Clock,
) -> ConsumeMessageDirectlyResult:
    """Run the listener on this message and say what came of it."""
    queue = MessageQueue(message.topic, broker_name or "", message.queue_id)
    if broker_name is not None:
        message.broker_name = broker_name
    original_topic = message.get_property(PropertyName.RETRY_TOPIC)
    if original_topic is not None and message.topic == retry_topic(group):
        message.topic = original_topic
    message.topic = unwrap_namespace(namespace, message.topic)

    began_ms = clock.now_ms()
    unlimited = FlowLimits(count=1, size=len(message.record))
    process_queue = ProcessQueue(queue, unlimited, began_ms)
    piece = Piece(process_queue, [message])
    await runner.call(piece)

    result: str | None = "CR_RETURN_NULL"
    remark = None
    if piece.error is not None:
        result = "CR_THROW_EXCEPTION"
        remark = f"{type(piece.error).__name__}: {piece.error}"
    elif piece.status is not None:
        result = _RESULTS[piece.status]
    return ConsumeMessageDirectlyResult(
        consume_result=result,
        order=is_orderly,
        auto_commit=piece.delivery is None or piece.delivery.auto_commit,
        remark=remark,
        spent_time_mills=max(clock.now_ms() - began_ms, 0),
    )

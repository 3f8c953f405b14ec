"""What a pop brought: messages of the topic that was asked for, each with its receipt."""

from collections.abc import Iterator

from rocketq.client.consumer.pop.receipt import PopReceipt
from rocketq.common.numbers import parse_int64
from rocketq.message.message import MessageExt
from rocketq.message.names import unwrap_namespace
from rocketq.message.pop_topics import RetryKind, retry_topic_v1, retry_topic_v2
from rocketq.message.properties.codec import PropertyName
from rocketq.message.queue import MessageQueue
from rocketq.message.record.reader import decode_records
from rocketq.remoting.headers.pop import PopMessageResponse


def popped_messages(
    body: bytes | memoryview,
    header: PopMessageResponse,
    queue: MessageQueue,
    group: str,
    namespace: str = "",
) -> list[MessageExt]:
    """Decode a pop's answer. Messages that were there before come under their own topic too."""
    kinds = {
        queue.topic: RetryKind.NORMAL,
        retry_topic_v1(group, queue.topic): RetryKind.RETRY_V1,
        retry_topic_v2(group, queue.topic): RetryKind.RETRY_V2,
    }
    starts = dict(_entries(header.start_offset_info))
    times = dict(_entries(header.order_count_info))
    bare_topic = unwrap_namespace(namespace, queue.topic)
    messages = []
    for record in decode_records(body, queue.broker_name):
        added = {}
        if record.get_property(PropertyName.FIRST_POP_TIME) is None:
            added[PropertyName.FIRST_POP_TIME] = str(header.pop_time)
        kind = kinds.get(record.topic, RetryKind.NORMAL)
        # Brokers put the receipt on messages of retry topics themselves.
        if record.get_property(PropertyName.POP_CHECK_POINT) is None:
            receipt = PopReceipt(
                starts.get((kind, str(record.queue_id)), record.queue_offset),
                header.pop_time,
                header.invisible_time,
                header.revive_qid,
                kind,
                queue.broker_name,
                record.queue_id,
                record.queue_offset,
            )
            added[PropertyName.POP_CHECK_POINT] = str(receipt)
        message = MessageExt(record.record, queue.broker_name, added)
        message.topic = bare_topic
        taken = times.get((kind, f"qo{record.queue_id}%{record.queue_offset}"))
        if taken is None:
            taken = times.get((kind, str(record.queue_id)))
        if taken:
            message.reconsume_times = taken
        messages.append(message)
    return messages


def _entries(info: str | None) -> Iterator[tuple[tuple[str, str], int]]:
    """`kind queue number;...` as pairs; what is none is passed over."""
    for entry in (info or "").split(";"):
        words = entry.split(" ")
        number = parse_int64(words[2]) if len(words) == 3 else None
        if number is not None:
            yield (words[0], words[1]), number

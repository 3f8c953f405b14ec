"""From a stored record to a gRPC message."""

import hashlib
import logging
import zlib
from typing import Any, Final

from rocketq.common.numbers import INT32_MAX, parse_int64, parse_natural
from rocketq.message.compression import MAX_DECOMPRESSED_SIZE, CompressionError, decompress
from rocketq.message.flags import is_compressed
from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import PropertyName
from rocketq.proxy.adapter.checks import set_milliseconds
from rocketq.proxy.adapter.outgoing import LITE_TOPIC, RESERVED
from rocketq.proxy.adapter.queues import resource
from rocketq.proxy.protocol import messages as pb

logger = logging.getLogger(__name__)

# Not reserved, and not the user's either.
_HIDDEN: Final = RESERVED | {
    PropertyName.SHARDING_KEY,
    PropertyName.TRACE_CONTEXT,
    PropertyName.INNER_MULTI_DISPATCH,
    PropertyName.CHECK_IMMUNITY_TIME,
    PropertyName.TRANSACTION_CHECK_TIMES,
    PropertyName.TRANSACTION_ID,
}


def grpc_message(record: MessageExt, topic: str, now_ms: int, handle: str | None = None) -> Any:
    """A message as clients of the gRPC protocol know it."""
    message = pb.Message()
    fill_message(message, record, resource(topic), now_ms, handle)
    return message


def fill_message(
    message: Any, record: MessageExt, topic: Any, now_ms: int, handle: str | None = None
) -> None:
    """Write a record into a message that is empty."""
    properties = record.properties
    body, encoding = _body(record)
    message.body = body
    user = {name: value for name, value in properties.items() if name not in _HIDDEN}
    if user:
        message.user_properties.update(user)
    message.topic.CopyFrom(topic)
    system = message.system_properties
    tag = properties.get(PropertyName.TAGS)
    if tag:
        system.tag = tag
    keys = properties.get(PropertyName.KEYS)
    if keys:
        system.keys.extend([key for key in keys.split(" ") if key])
    system.message_id = properties.get(PropertyName.UNIQUE_KEY) or record.offset_msg_id
    system.body_digest.type = pb.MD5
    system.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = encoding
    system.message_type = _type_of(properties)
    set_milliseconds(system.born_timestamp, max(record.born_timestamp, 0))
    system.born_host = properties.get(PropertyName.BORN_HOST) or record.born_host[0]
    set_milliseconds(system.store_timestamp, max(record.store_timestamp, 0))
    system.store_host = f"{record.store_host[0]}:{record.store_host[1]}"
    deliver_ms = _delivery_ms(properties, now_ms)
    if deliver_ms is not None:
        set_milliseconds(system.delivery_timestamp, deliver_ms)
    if handle is not None:
        system.receipt_handle = handle
    system.queue_id = record.queue_id
    system.queue_offset = record.queue_offset
    system.delivery_attempt = record.reconsume_times + 1
    if PropertyName.SHARDING_KEY in properties:
        system.message_group = properties[PropertyName.SHARDING_KEY]
    if PropertyName.TRACE_CONTEXT in properties:
        system.trace_context = properties[PropertyName.TRACE_CONTEXT]
    if LITE_TOPIC in properties:
        system.lite_topic = properties[LITE_TOPIC]
    if PropertyName.PRIORITY in properties:
        priority = parse_natural(properties[PropertyName.PRIORITY], INT32_MAX)
        if priority is not None:
            system.priority = priority
    origin = properties.get(PropertyName.DLQ_ORIGIN_TOPIC)
    origin_id = properties.get(PropertyName.DLQ_ORIGIN_MESSAGE_ID)
    if origin and origin_id:
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = origin_id


def _body(record: MessageExt) -> tuple[bytes, int]:
    """What was sent, decompressed: clients disagree about what "GZIP" is, and none reads LZ4."""
    raw = record.raw_body
    if not is_compressed(record.sys_flag):
        return raw, int(pb.IDENTITY)
    if raw[:2] == b"\x1f\x8b":
        reader = zlib.decompressobj(31)
        try:
            plain = reader.decompress(raw, MAX_DECOMPRESSED_SIZE)
            if reader.eof:
                return plain, int(pb.IDENTITY)
        except zlib.error:
            pass
        return raw, int(pb.GZIP)
    try:
        return decompress(record.sys_flag, raw), int(pb.IDENTITY)
    except CompressionError as error:
        logger.warning("message %s goes out as it is: %s", record.msg_id, error)
        return raw, int(pb.GZIP)


def _type_of(properties: dict[str, str]) -> int:
    if properties.get(PropertyName.TRANSACTION_PREPARED) == "true":
        return int(pb.TRANSACTION)
    if (
        PropertyName.DELAY in properties
        or PropertyName.TIMER_DELIVER_MS in properties
        or PropertyName.TIMER_DELAY_SEC in properties
        or PropertyName.TIMER_DELAY_MS in properties
    ):
        return int(pb.DELAY)
    if PropertyName.SHARDING_KEY in properties:
        return int(pb.FIFO)
    if PropertyName.PRIORITY in properties:
        return int(pb.PRIORITY)
    if LITE_TOPIC in properties:
        return int(pb.LITE)
    return int(pb.NORMAL)


def _delivery_ms(properties: dict[str, str], now_ms: int) -> int | None:
    if PropertyName.TIMER_DELAY_SEC in properties:
        seconds = parse_int64(properties[PropertyName.TIMER_DELAY_SEC])
        if seconds is not None:
            return now_ms + max(min(seconds, 1 << 40), 0) * 1000
    deliver_ms = parse_natural(properties.get(PropertyName.TIMER_DELIVER_MS))
    return None if deliver_ms is None else min(deliver_ms, 253402300799000)

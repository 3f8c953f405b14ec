"""What a message says about its time, in its properties, as bytes.

TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS   its producer: when it is wanted
TIMER_OUT_MS, REAL_TOPIC, REAL_QID                  while it waits: its slot, and where it goes
TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS                  when it was placed and delivered
TIMER_ROLL_TIMES                                    how often it was placed again
TIMER_DEL_UNIQKEY                                   a marker: which message is deleted
"""

from functools import lru_cache
from typing import Final

from rocketq.common.numbers import INT32_MAX, parse_int64, parse_natural
from rocketq.message.hashing import java_hash
from rocketq.message.properties.codec import get_property, remove_property, set_property
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected

DELAY_SEC: Final = b"TIMER_DELAY_SEC"
DELAY_MS: Final = b"TIMER_DELAY_MS"
DELIVER_MS: Final = b"TIMER_DELIVER_MS"
OUT_MS: Final = b"TIMER_OUT_MS"
ENQUEUE_MS: Final = b"TIMER_ENQUEUE_MS"
DEQUEUE_MS: Final = b"TIMER_DEQUEUE_MS"
ROLL_TIMES: Final = b"TIMER_ROLL_TIMES"
DELETE_KEY: Final = b"TIMER_DEL_UNIQKEY"
REAL_TOPIC: Final = b"REAL_TOPIC"
REAL_QUEUE_ID: Final = b"REAL_QID"

_DELAY_LEVEL: Final = b"DELAY"
_STAMPED: Final = b"QUEUE_MS\x01"


def deliver_ms(properties: bytes, now_ms: int) -> int | None:
    """The time a message names; None when it names none."""
    for name, unit_ms in ((DELAY_SEC, 1_000), (DELAY_MS, 1)):
        value = get_property(properties, name)
        if value is not None:
            return now_ms + _number(name, value) * unit_ms
    value = get_property(properties, DELIVER_MS)
    return None if value is None else _number(DELIVER_MS, value)


def _number(name: bytes, value: bytes) -> int:
    number = parse_int64(value)
    if number is None:
        raise RequestRejected(
            ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal, {name.decode()} is no number"
        )
    return number


def delay_level(properties: bytes) -> int:
    return parse_natural(get_property(properties, _DELAY_LEVEL), INT32_MAX) or 0


def with_waiting(properties: bytes, slot_ms: int, topic: bytes, queue_id: int) -> bytes:
    """As it waits. Mostly none of these is there yet."""
    entries = (
        (OUT_MS, b"%d" % slot_ms),
        (REAL_TOPIC, topic),
        (REAL_QUEUE_ID, b"%d" % queue_id),
    )
    is_new = properties.endswith(b"\x02")
    for name, _ in entries:
        is_new = is_new and name not in properties
    if is_new:
        return properties + b"".join([b"%b\x01%b\x02" % entry for entry in entries])
    for name, value in entries:
        properties = set_property(properties, name, value)
    return properties


def with_stamp(properties: bytes, placed_ms: int, delivered_ms: int) -> bytes:
    """As it is delivered."""
    if not properties.endswith(b"\x02"):
        properties += b"\x02"
    if _STAMPED in properties:  # it was rolled
        properties = remove_property(remove_property(properties, ENQUEUE_MS), DEQUEUE_MS)
    return properties + _stamp(placed_ms, delivered_ms)


@lru_cache(maxsize=64)
def _stamp(placed_ms: int, delivered_ms: int) -> bytes:
    """What every delivered message gets behind its other properties: many the same."""
    return b"TIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%d\x02" % (placed_ms, delivered_ms)


def rolled_once_more(properties: bytes) -> bytes:
    times = parse_natural(get_property(properties, ROLL_TIMES), INT32_MAX - 1) or 0
    return set_property(properties, ROLL_TIMES, b"%d" % (times + 1))


# The same few topics and queues come again and again.


@lru_cache(maxsize=1_024)
def topic_name(topic: bytes) -> str:
    return topic.decode("utf-8", "replace")


@lru_cache(maxsize=1_024)
def topic_hash(topic: bytes) -> int:
    return java_hash(topic_name(topic))


@lru_cache(maxsize=1_024)
def queue_number(text: bytes | None) -> int | None:
    return parse_natural(text, INT32_MAX)

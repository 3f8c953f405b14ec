"""Message properties: a small map of text, carried as one string.

    name 0x01 value 0x02   repeated, UTF-8, no escaping

rocketq ends the last entry with 0x02 like every other; RocketMQ before 5.2 leaves that one
out, and readers accept both. An entry without a name or without a value does not exist:
readers skip it. Of entries with the same name the last one counts
(`rocketq.message.properties.entries`).

Besides a codec for whole maps there are functions on the encoded form, with which a broker
looks at or changes one property of a message without decoding the others.
"""

from collections.abc import Mapping
from typing import Final

from rocketq.common.errors import RocketqError
from rocketq.message.properties import entries
from rocketq.message.properties.walk import decode_properties, get_property
from rocketq.message.record import layout

__all__ = [
    "MAX_SIZE",
    "SYSTEM_PROPERTIES",
    "TRANSIENT_PREFIX",
    "InvalidProperty",
    "PropertyName",
    "append_property",
    "check_user_property",
    "decode_properties",
    "encode_properties",
    "get_property",
    "remove_property",
    "set_property",
]

MAX_SIZE: Final = layout.MAX_PROPERTIES_SIZE
"""The encoded form is limited by its length field, a signed 16-bit number."""

_NAME_END = b"\x01"
_ENTRY_END = b"\x02"


class InvalidProperty(RocketqError):
    """A property that would not survive the encoding."""


class PropertyName:
    """The names that mean something to RocketMQ."""

    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    WAIT: Final = "WAIT"
    DELAY: Final = "DELAY"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QUEUE_ID: Final = "REAL_QID"
    TRANSACTION_PREPARED: Final = "TRAN_MSG"
    PRODUCER_GROUP: Final = "PGROUP"
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    BUYER_ID: Final = "BUYER_ID"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MSG_REGION: Final = "MSG_REGION"
    TRACE_SWITCH: Final = "TRACE_ON"
    UNIQUE_KEY: Final = "UNIQ_KEY"
    EXTEND_UNIQUE_INFO: Final = "EXTEND_UNIQ_INFO"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    INNER_NUM: Final = "INNER_NUM"
    INNER_BASE: Final = "INNER_BASE"
    DUP_INFO: Final = "DUP_INFO"
    CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_ID: Final = "__transactionId__"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    INSTANCE_ID: Final = "INSTANCE_ID"
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
    CLUSTER: Final = "CLUSTER"
    MESSAGE_TYPE: Final = "MSG_TYPE"
    POP_CHECK_POINT: Final = "POP_CK"
    POP_CHECK_POINT_OFFSET: Final = "POP_CK_OFFSET"
    FIRST_POP_TIME: Final = "1ST_POP_TIME"
    SHARDING_KEY: Final = "__SHARDINGKEY"
    FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT: Final = "REDIRECT"
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
    TRACE_CONTEXT: Final = "TRACE_CONTEXT"
    TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
    TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
    TIMER_OUT_MS: Final = "TIMER_OUT_MS"
    TIMER_DELETE_UNIQUE_KEY: Final = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
    BORN_HOST: Final = "__BORNHOST"
    BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
    CRC32: Final = "__CRC32#"
    DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
    START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
    ORIGIN_GROUP: Final = "ORIGIN_GROUP"
    PRIORITY: Final = "_SYS_MSG_PRIORITY_"


SYSTEM_PROPERTIES: Final = frozenset(
    value for name, value in vars(PropertyName).items() if name.isupper()
)
"""Names users may not take for properties of their own."""

TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."
"""Properties of that kind live in a consumer only."""


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The encoded form, ending with 0x02 unless empty."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()


def check_user_property(name: str, value: str) -> None:
    """Raise `InvalidProperty` unless a user may put this on a message."""
    if not name.strip() or not value.strip():
        raise InvalidProperty(f"property {name!r} = {value!r}: name and value must not be blank")
    if name in SYSTEM_PROPERTIES:
        raise InvalidProperty(f"property {name!r} is used by the system, choose another name")
    for text in (name, value):
        if "\x01" in text or "\x02" in text:
            raise InvalidProperty(
                f"property {name!r} = {value!r}: characters 1 and 2 separate properties"
            )


def remove_property(encoded: bytes, name: bytes) -> bytes:
    """The encoded form without any entry of that name."""
    spans = _entries_named(encoded, name)
    if not spans:
        return encoded
    kept = []
    kept_to = 0
    for start, end in spans:
        kept.append(encoded[kept_to:start])
        kept_to = end + 1
    kept.append(encoded[kept_to:])
    return b"".join(kept)


def append_property(encoded: bytes, name: bytes, value: bytes) -> bytes:
    """The encoded form with one entry more, for a name that is not in it yet."""
    separator = b"" if not encoded or encoded.endswith(_ENTRY_END) else _ENTRY_END
    return b"%b%b%b\x01%b\x02" % (encoded, separator, name, value)


def set_property(encoded: bytes, name: bytes, value: bytes) -> bytes:
    """The encoded form with this as the only entry of that name, put last."""
    return append_property(remove_property(encoded, name), name, value)


def _entries_named(encoded: bytes, name: bytes) -> list[tuple[int, int]]:
    """Where entries with that name start and end (at their 0x02, or at the end)."""
    spans: list[tuple[int, int]] = []
    wanted = name + _NAME_END
    if wanted not in encoded:
        return spans
    at = 0
    while at < len(encoded):
        stop = entries.entry_end(encoded, at, len(encoded))
        if encoded.startswith(wanted, at):
            spans.append((at, stop))
        at = stop + 1
    return spans

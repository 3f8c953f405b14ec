# cython: annotation_typing=False, boundscheck=True
# (compiled as it stands, with the types in message.pxd, and with bounds: a record that a caller
# hands in may be anything)
"""Messages: what a producer sends, and what a consumer gets.

A `Message` is a topic, a body and properties. Tags, keys, delay level and the like are
properties too; they have attributes here because RocketMQ knows their names.

A `MessageExt` is a message as a broker stored it. It keeps the bytes of its record (layout in
`rocketq.message.record.layout`) and reads a field when it is asked for, so that a consumer which
looks at bodies only pays for bodies only.
"""

import math
import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from rocketq.common import numbers
from rocketq.common.language.signatures import SourceSignature
from rocketq.common.memory import Buffer
from rocketq.message import compression, hosts, ids, names
from rocketq.message.properties.codec import (
    InvalidProperty,
    PropertyName,
    check_user_property,
    decode_properties,
    encode_properties,
    get_property,
)
from rocketq.message.queue import MessageQueue
from rocketq.message.record import layout

KEY_SEPARATOR: Final = " "
_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: no datetime and no time-out needs more."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES: Final = (
    PropertyName.DELAY,
    PropertyName.TIMER_DELAY_SEC,
    PropertyName.TIMER_DELAY_MS,
    PropertyName.TIMER_DELIVER_MS,
)


class Message:
    """What a producer sends.

    >>> message = Message("orders", b"...", tags="paid", keys=["42"], properties={"shop": "7"})
    >>> message.tags, message.keys, message.get_property("shop")
    ('paid', ['42'], '7')
    """

    __slots__ = ("_body", "_flag", "_properties", "_topic")
    __signature__ = SourceSignature()

    _topic: str | None
    _body: bytes | None
    _flag: int | None
    _properties: dict[str, str] | None

    def __init__(
        self,
        topic: str,
        body: Buffer = b"",
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        delay: float | timedelta | None = None,
        delay_ms: int | None = None,
        deliver_at: datetime | int | None = None,
        deliver_at_ms: int | None = None,
        priority: int | None = None,
        sharding_key: str | None = None,
        flag: int = 0,
        wait_store_ok: bool = True,
    ) -> None:
        """Make a message.

        tags: one tag, by which consumers may select.
        keys: what the message can be found by later; one or several, without blanks.
        properties: your own, for SQL selection or for the consumer. Names that RocketMQ
            uses itself are refused.
        delay_level: deliver later, by the broker's table of levels (1 is 1 s by default).
        delay, delay_ms: deliver after so many seconds (or a timedelta), or milliseconds.
        deliver_at, deliver_at_ms: deliver at a datetime, or at milliseconds since 1970.
        priority: the higher, the sooner, from 0 on; for topics of the type PRIORITY.
        sharding_key: messages with the same one go to the same queue.
        flag: a number of your own.
        wait_store_ok: whether the broker answers only when the message is as safe as it is
            configured to make it.
        """
        if type(topic) is not str or not topic:
            _check_topic(topic)
        self._topic = topic
        self._flag = flag
        self._properties = {}
        if type(body) is bytes:
            self._body = body
        else:
            self.body = body
        if properties:
            for name, value in properties.items():
                _check_property(name, value)
            self._properties.update(properties)
        if tags:
            self.tags = tags
        if keys:
            self.keys = keys
        if delay_level:
            self.delay_level = delay_level
        # One look for the many messages without a time.
        if (
            delay is not None
            or delay_ms is not None
            or deliver_at is not None
            or deliver_at_ms is not None
        ):
            _check_one_time(delay_level or None, delay, delay_ms, deliver_at, deliver_at_ms)
            if delay is not None:
                self.delay = delay
            elif delay_ms is not None:
                self.delay_ms = delay_ms
            elif deliver_at is not None:
                self.deliver_at = deliver_at
            else:
                self.deliver_at_ms = deliver_at_ms
        if priority is not None:
            self.priority = priority
        if sharding_key:
            self.sharding_key = sharding_key
        if not wait_store_ok:
            self.wait_store_ok = False

    @classmethod
    def of(cls, topic: str, body: bytes, properties: dict[str, str], flag: int = 0) -> "Message":
        """A message with exactly these properties, whoever they belong to; nothing is checked."""
        message = Message(topic, body, flag=flag)
        message.properties = properties
        return message

    @property
    def topic(self) -> str:
        topic = self._topic
        if topic is None:
            topic = self._topic = self._load_topic()
        return topic

    @topic.setter
    def topic(self, topic: str) -> None:
        self._topic = topic

    @property
    def body(self) -> bytes:
        body = self._body
        if body is None:
            body = self._body = self._load_body()
        return body

    @body.setter
    def body(self, body: Buffer) -> None:
        if type(body) is not bytes:
            body = _body_of(body)
        self._body = body

    @property
    def flag(self) -> int:
        """A number of the application's own."""
        flag = self._flag
        if flag is None:
            flag = self._flag = self._load_flag()
        return flag

    @flag.setter
    def flag(self, flag: int) -> None:
        self._flag = flag

    @property
    def properties(self) -> dict[str, str]:
        """All properties, the system's among them."""
        properties = self._properties
        if properties is None:
            properties = self._properties = self._load_properties()
        return properties

    @properties.setter
    def properties(self, properties: dict[str, str]) -> None:
        self._properties = properties

    def get_property(self, name: str) -> str | None:
        """One property, or None."""
        return self.properties.get(name)

    def put_user_property(self, name: str, value: str) -> None:
        """Set a property of your own; names that RocketMQ uses itself are refused."""
        _check_property(name, value)
        self.properties[name] = value

    def encoded_properties(self) -> bytes:
        """The properties as they travel and are stored."""
        return encode_properties(self.properties)

    @property
    def tags(self) -> str | None:
        return self.get_property(PropertyName.TAGS)

    @tags.setter
    def tags(self, tags: str | None) -> None:
        if tags is not None and not isinstance(tags, str):
            raise TypeError(f"tags is one tag, a text, not {tags!r}")
        self._set(PropertyName.TAGS, tags)

    @property
    def keys(self) -> list[str]:
        """What the message can be found by. Set it to one key, or to several."""
        return (self.get_property(PropertyName.KEYS) or "").split()

    @keys.setter
    def keys(self, keys: str | Iterable[str]) -> None:
        try:
            text = keys if isinstance(keys, str) else KEY_SEPARATOR.join(keys)
        except TypeError:
            raise TypeError(f"keys are texts, one or several, not {keys!r}") from None
        self._set(PropertyName.KEYS, text or None)

    @property
    def delay_level(self) -> int:
        """The delay level, 0 for none."""
        text = self.get_property(PropertyName.DELAY)
        return int(text) if text else 0

    @delay_level.setter
    def delay_level(self, level: int) -> None:
        if not isinstance(level, int):
            raise TypeError(f"delay_level is a number, not {level!r}")
        if level:
            self._set_time(PropertyName.DELAY, level)
        else:
            self._set(PropertyName.DELAY, None)

    # A message has one time: setting any of these takes the others away.

    @property
    def delay(self) -> timedelta | None:
        """How long it waits for its delivery. Set it to seconds, or to a timedelta."""
        delay_ms = self.delay_ms
        return None if delay_ms is None else timedelta(milliseconds=delay_ms)

    @delay.setter
    def delay(self, delay: float | timedelta | None) -> None:
        self.delay_ms = None if delay is None else _milliseconds(delay)

    @property
    def delay_ms(self) -> int | None:
        """The same in milliseconds."""
        return self._number(PropertyName.TIMER_DELAY_MS)

    @delay_ms.setter
    def delay_ms(self, delay_ms: int | None) -> None:
        if delay_ms is None:
            self._set(PropertyName.TIMER_DELAY_MS, None)
        else:
            _check_number("delay_ms", delay_ms, _LATEST_MS)
            self._set_time(PropertyName.TIMER_DELAY_MS, delay_ms)

    @property
    def deliver_at(self) -> datetime | None:
        """When it is delivered, in UTC. Set it to a datetime, or to milliseconds since 1970."""
        at_ms = self.deliver_at_ms
        return None if at_ms is None else _EPOCH + timedelta(milliseconds=at_ms)

    @deliver_at.setter
    def deliver_at(self, at: datetime | int | None) -> None:
        # A datetime without a zone is one of this computer's.
        self.deliver_at_ms = round(at.timestamp() * 1000) if isinstance(at, datetime) else at

    @property
    def deliver_at_ms(self) -> int | None:
        """The same in milliseconds since 1970."""
        return self._number(PropertyName.TIMER_DELIVER_MS)

    @deliver_at_ms.setter
    def deliver_at_ms(self, at_ms: int | None) -> None:
        if at_ms is None:
            self._set(PropertyName.TIMER_DELIVER_MS, None)
        else:
            _check_number("deliver_at", at_ms, _LATEST_MS)
            self._set_time(PropertyName.TIMER_DELIVER_MS, at_ms)

    @property
    def priority(self) -> int | None:
        """Which messages of a PRIORITY topic come first: those with the highest number."""
        return self._number(PropertyName.PRIORITY)

    @priority.setter
    def priority(self, priority: int | None) -> None:
        if priority is not None:
            _check_number("priority", priority, numbers.INT32_MAX)
        self._set(PropertyName.PRIORITY, None if priority is None else str(priority))

    @property
    def sharding_key(self) -> str | None:
        return self.get_property(PropertyName.SHARDING_KEY)

    @sharding_key.setter
    def sharding_key(self, key: str | None) -> None:
        self._set(PropertyName.SHARDING_KEY, key)

    @property
    def wait_store_ok(self) -> bool:
        """Whether the broker answers only once flush and replication are as configured."""
        return self.get_property(PropertyName.WAIT) != "false"

    @wait_store_ok.setter
    def wait_store_ok(self, wait: bool) -> None:
        self._set(PropertyName.WAIT, None if wait else "false")

    @property
    def unique_key(self) -> str | None:
        """The id the producer gave the message, once it was sent."""
        return self.get_property(PropertyName.UNIQUE_KEY)

    @unique_key.setter
    def unique_key(self, unique_key: str | None) -> None:
        self._set(PropertyName.UNIQUE_KEY, unique_key)

    @property
    def transaction_id(self) -> str | None:
        return self.get_property(PropertyName.TRANSACTION_ID) or self.unique_key

    def _set(self, name: str, value: str | None) -> None:
        if value is None:
            self.properties.pop(name, None)
        else:
            self.properties[name] = value

    def _set_time(self, name: str, number: int) -> None:
        for other in _TIMES:
            self._set(other, None)
        self._set(name, str(number))

    def _number(self, name: str) -> int | None:
        """A property that is a natural number; None where there is none, or something else."""
        text = self.get_property(name)
        return numbers.parse_natural(text, _LATEST_MS)

    # A message made by a user has all its parts; only a stored one loads them on demand.

    def _load_topic(self) -> str:
        raise AssertionError("a message has a topic from the start")

    def _load_body(self) -> bytes:
        raise AssertionError("a message has a body from the start")

    def _load_flag(self) -> int:
        raise AssertionError("a message has a flag from the start")

    def _load_properties(self) -> dict[str, str]:
        raise AssertionError("a message has properties from the start")

    def __repr__(self) -> str:
        # Never the body: it may be large, and it is nobody's business in a log.
        return (
            f"{type(self).__name__}(topic={self.topic!r}, body=<{len(self.body)} bytes>, "
            f"properties={self.properties!r})"
        )


def _check_topic(topic: object) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"a topic is a text, not {_named(topic)}")
    if not topic:
        raise names.InvalidName("a message needs a topic: this one is empty")


def _check_property(name: str, value: str) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"properties are texts: {name!r} has the value {value!r}")
    check_user_property(name, value)


def _check_number(name: str, number: int, most: int) -> None:
    if not isinstance(number, int):
        raise TypeError(f"{name} is a whole number, not {number!r}")
    if not 0 <= number <= most:
        raise InvalidProperty(f"{name} must lie between 0 and {most}, not at {number}")


def _check_one_time(*times: object) -> None:
    if sum([time is not None for time in times]) > 1:
        raise InvalidProperty(
            "a message has one time: give delay_level, delay, delay_ms, deliver_at or deliver_at_ms"
        )


def _milliseconds(delay: float | timedelta) -> int:
    if isinstance(delay, timedelta):
        return round(delay.total_seconds() * 1000)
    if not isinstance(delay, (int, float)):
        raise TypeError(f"delay is a number of seconds or a timedelta, not {delay!r}")
    if not math.isfinite(delay):
        raise InvalidProperty(f"nobody waits for {delay} seconds")
    return round(delay * 1000)


def _body_of(body: Buffer) -> bytes:
    if isinstance(body, str):
        raise TypeError("a body is bytes: encode the text first, body=text.encode()")
    try:
        return bytes(memoryview(body))
    except TypeError:
        raise TypeError(
            f"a body is bytes, not {_named(body)}: encode it first, as in "
            "body=json.dumps(value).encode()"
        ) from None


def _named(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


class MessageExt(Message):
    """A message as a broker stored it, as consumers get it.

    Made by `rocketq.message.record.reader.decode_records` and its kin, which check the record
    first. Topic, properties, body and `reconsume_times` may be changed by the client in memory;
    the rest is what the record says.
    """

    __slots__ = ("_added", "_reconsume_times", "broker_name", "record")

    record: bytes
    """The stored record."""
    broker_name: str
    """The broker it was pulled from, empty where that is not known."""
    _reconsume_times: int | None
    _added: Mapping[str, str] | None

    def __init__(
        self, record: bytes, broker_name: str = "", added: Mapping[str, str] | None = None
    ) -> None:
        """A checked record; `added` are properties that only this client sees."""
        self.record = record
        self.broker_name = broker_name
        self._added = added
        self._topic = None
        self._body = None
        self._flag = None
        self._properties = None
        self._reconsume_times = None

    # Positions are those of rocketq.message.record.writer; a host of 20 bytes shifts what follows.

    @property
    def store_size(self) -> int:
        """Bytes it takes in the commit log."""
        return len(self.record)

    @property
    def body_crc(self) -> int:
        """CRC-32 of the stored body, without its highest bit."""
        return _int32(self.record, layout.BODY_CRC_AT)

    @property
    def queue_id(self) -> int:
        return _int32(self.record, layout.QUEUE_ID_AT)

    @property
    def queue_offset(self) -> int:
        """Its number in its queue."""
        return _int64(self.record, layout.QUEUE_OFFSET_AT)

    @property
    def physical_offset(self) -> int:
        """Where it starts in the commit log."""
        return _int64(self.record, layout.PHYSICAL_OFFSET_AT)

    @property
    def sys_flag(self) -> int:
        """Bits of `SysFlag`."""
        return _int32(self.record, layout.SYS_FLAG_AT)

    @property
    def born_timestamp(self) -> int:
        """When the producer sent it, in ms."""
        return _int64(self.record, layout.BORN_TIME_AT)

    @property
    def born_host(self) -> tuple[str, int]:
        """Address and port it came from."""
        return hosts.decode_host(self.raw_born_host)

    @property
    def store_timestamp(self) -> int:
        """When the broker stored it, in ms."""
        return _int64(self.record, layout.store_time_at(self.sys_flag))

    @property
    def store_host(self) -> tuple[str, int]:
        """Address and port of the broker that stored it."""
        return hosts.decode_host(self.raw_store_host)

    @property
    def reconsume_times(self) -> int:
        """How often it was given back already."""
        times = self._reconsume_times
        if times is None:
            at = _body_at(self.record) - layout.RECONSUME_BEFORE_BODY
            times = self._reconsume_times = _int32(self.record, at)
        return times

    @reconsume_times.setter
    def reconsume_times(self, times: int) -> None:
        self._reconsume_times = times

    @property
    def prepared_transaction_offset(self) -> int:
        """Where the half message of a committed one lies in the commit log."""
        return _int64(self.record, _body_at(self.record) - layout.TRANSACTION_BEFORE_BODY)

    @property
    def offset_msg_id(self) -> str:
        """The id that says where it is stored."""
        return ids.offset_message_id(self.raw_store_host, self.physical_offset)

    @property
    def msg_id(self) -> str:
        """The id its producer gave it; where there is none, the one of its place."""
        return self.unique_key or self.offset_msg_id

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @property
    def raw_born_host(self) -> bytes:
        """As `rocketq.message.hosts` encodes it."""
        return self.record[layout.BORN_HOST_AT : layout.store_time_at(self.sys_flag)]

    @property
    def raw_store_host(self) -> bytes:
        at = layout.store_host_at(self.sys_flag)
        return self.record[at : at + layout.store_host_size(self.sys_flag)]

    @property
    def raw_body(self) -> bytes:
        """The body as it is stored, perhaps compressed."""
        record = self.record
        start = _body_at(record)
        return record[start : start + _int32(record, start - layout.SIZE_BEFORE_BODY)]

    @property
    def raw_topic(self) -> bytes:
        start, end = _topic_span(self.record)
        return self.record[start:end]

    @property
    def raw_properties(self) -> bytes:
        """The properties as they are stored."""
        return self.record[_topic_span(self.record)[1] + 2 :]

    @property
    def is_body_intact(self) -> bool:
        """Whether the stored body still has the checksum the broker gave it."""
        return zlib.crc32(self.raw_body) & 0x7FFFFFFF == self.body_crc

    def get_property(self, name: str) -> str | None:
        if self._properties is not None:
            return self._properties.get(name)
        if self._added is not None and name in self._added:
            return self._added[name]
        # Not worth decoding them all.
        value = get_property(self.record, name.encode(), _topic_span(self.record)[1] + 2)
        return None if value is None else value.decode("utf-8", "replace")

    def _load_topic(self) -> str:
        return self.raw_topic.decode("utf-8", "replace")

    def _load_body(self) -> bytes:
        if self.sys_flag & layout.COMPRESSED:
            return compression.decompress(self.sys_flag, self.raw_body)
        return self.raw_body

    def _load_flag(self) -> int:
        return _int32(self.record, layout.FLAG_AT)

    def _load_properties(self) -> dict[str, str]:
        properties = decode_properties(self.raw_properties)
        if self._added:
            properties.update(self._added)
        return properties

    def __repr__(self) -> str:
        return (
            f"MessageExt(topic={self.topic!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, msg_id={self.msg_id!r}, "
            f"body=<{len(self.raw_body)} bytes stored>, properties={self.properties!r})"
        )


# Numbers of a record, which may be shorter than it says: with bounds, unlike those of
# `rocketq.common.memory`.


def _int16(record: bytes, at: int) -> int:
    value = record[at] << 8 | record[at + 1]
    return value - 0x10000 if value >= 0x8000 else value


def _int32(record: bytes, at: int) -> int:
    value = record[at] << 24 | record[at + 1] << 16 | record[at + 2] << 8 | record[at + 3]
    return value - 0x100000000 if value >= 0x80000000 else value


def _int64(record: bytes, at: int) -> int:
    return _int32(record, at) << 32 | _int32(record, at + 4) & 0xFFFFFFFF


def _body_at(record: bytes) -> int:
    return layout.body_at(_int32(record, layout.SYS_FLAG_AT))


def _topic_span(record: bytes) -> tuple[int, int]:
    start = _body_at(record)
    start += _int32(record, start - layout.SIZE_BEFORE_BODY)
    if _int32(record, layout.MAGIC_AT) == layout.MAGIC_V2:
        return start + 2, start + 2 + _int16(record, start)
    return start + 1, start + 1 + record[start]

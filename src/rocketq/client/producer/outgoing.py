"""A message made ready to be sent: checked, named, compressed, its properties encoded.

The caller's message is left as it was. What is added for the wire (unique id, namespace,
compressed body) lives in the `Outgoing`, which serves all attempts of one send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rocketq.client.errors import InvalidMessage
from rocketq.client.producer.batch_item import batch_item
from rocketq.client.producer.options import ProducerConfig
from rocketq.client.producer.request_reply import is_reply
from rocketq.client.trace.records import DELAY, HALF, NORMAL, ORDER
from rocketq.common.clock import Clock
from rocketq.message.compression import compress
from rocketq.message.flags import SysFlag, with_compression
from rocketq.message.ids import UniqueIds
from rocketq.message.message import Message
from rocketq.message.names import is_forbidden_topic, is_retry_topic, validate_topic, wrap_namespace
from rocketq.message.properties.codec import MAX_SIZE, PropertyName, encode_properties
from rocketq.message.record.layout import ITEM_FIXED_SIZE
from rocketq.remoting.codes import RequestCode

_DELAYED: Final = frozenset(
    {
        PropertyName.DELAY,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELIVER_MS,
        PropertyName.START_DELIVER_TIME,
    }
)


class Outgoing:
    """One request's worth of message, ready for any broker."""

    __slots__ = (
        "body",
        "born_ms",
        "code",
        "flag",
        "message",
        "msg_id",
        "msg_ids",
        "properties",
        "sys_flag",
        "topic",
    )

    def __init__(
        self,
        code: int,
        topic: str,
        body: bytes,
        properties: bytes,
        *,
        message: Message,
        msg_id: str,
        born_ms: int,
        sys_flag: int = 0,
        flag: int = 0,
        msg_ids: Sequence[str] = (),
    ) -> None:
        self.code = code
        self.topic = topic
        """As on the wire, namespace included."""
        self.body = body
        self.properties = properties
        self.message = message
        """As the caller made it; of a batch, the first."""
        self.msg_id = msg_id
        self.msg_ids = msg_ids
        """The ids of a batch's messages, in order."""
        self.born_ms = born_ms
        self.sys_flag = sys_flag
        self.flag = flag

    @property
    def message_type(self) -> int:
        """What traces call it."""
        properties = self.message.properties
        if properties.get(PropertyName.TRANSACTION_PREPARED) == "true":
            return HALF
        if not _DELAYED.isdisjoint(properties):
            return DELAY
        if properties.get(PropertyName.SHARDING_KEY):
            return ORDER
        return NORMAL


class Preparation:
    """Makes messages ready; owned by one producer."""

    def __init__(self, config: ProducerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.ids = UniqueIds(now_ms=clock.now_ms)
        self._wire_topics: dict[str, str] = {}

    def wire_topic(self, topic: str) -> str:
        """A checked topic's name on the wire."""
        wire_topic = self._wire_topics.get(topic)
        if wire_topic is None:
            validate_topic(topic)
            if is_forbidden_topic(topic):
                raise InvalidMessage(f"topic {topic!r} is the brokers' own: nobody may send to it")
            wire_topic = wrap_namespace(self._config.namespace, topic)
            validate_topic(wire_topic)
            if len(self._wire_topics) > 10_000:
                self._wire_topics.clear()
            self._wire_topics[topic] = wire_topic
        return wire_topic

    def single(self, message: Message) -> Outgoing:
        """One message, one request."""
        body = message.body
        self._check_body(body)
        properties = message.properties
        msg_id, encoded = self._encoded(properties)
        sys_flag = 0
        config = self._config
        if config.compress_above is not None and len(body) >= config.compress_above:
            body = compress(config.compression_type, config.compression_level, body)
            sys_flag = with_compression(sys_flag, config.compression_type)
        if properties.get(PropertyName.TRANSACTION_PREPARED) == "true":
            sys_flag |= SysFlag.TRANSACTION_PREPARED
        return Outgoing(
            RequestCode.SEND_REPLY_MESSAGE_V2 if is_reply(message) else RequestCode.SEND_MESSAGE_V2,
            self.wire_topic(message.topic),
            body,
            encoded,
            message=message,
            msg_id=msg_id,
            born_ms=self._clock.now_ms(),
            sys_flag=sys_flag,
            flag=message.flag,
        )

    def batches(self, messages: Sequence[Message]) -> list[Outgoing]:
        """Messages of one topic as few requests, none above the size limit."""
        if not messages:
            return []
        self._check_batch(messages)
        limit = min(self._config.batch_bytes, self._config.max_message_size)
        outgoing: list[Outgoing] = []
        entries: list[bytearray] = []
        msg_ids: list[str] = []
        first = messages[0]
        size = 0
        for message in messages:
            msg_id, entry = self.batch_entry(message)
            if entries and size + len(entry) > limit:
                outgoing.append(self.batch(first, entries, msg_ids))
                entries, msg_ids, first, size = [], [], message, 0
            entries.append(entry)
            msg_ids.append(msg_id)
            size += len(entry)
        outgoing.append(self.batch(first, entries, msg_ids))
        return outgoing

    def batch_entry(self, message: Message) -> tuple[str, bytearray]:
        """One message's id and its part of a batch body."""
        body = message.body
        self._check_body(body)
        properties = message.properties
        own_id = properties.get(PropertyName.UNIQUE_KEY) if properties else None
        new_id = self.ids.next() if own_id is None else ""
        encoded = encode_properties(properties) if properties else b""
        entry = batch_item(message.flag, body, encoded, new_id)
        self._check_properties(len(entry) - ITEM_FIXED_SIZE - len(body))
        return own_id or new_id, entry

    def batch(
        self, first: Message, entries: Sequence[bytearray], msg_ids: Sequence[str]
    ) -> Outgoing:
        """The request for a batch made of these parts."""
        # Brokers add these to every message's own; an id here would hide theirs (4.9).
        properties = {PropertyName.WAIT: "true" if first.wait_store_ok else "false"}
        return Outgoing(
            RequestCode.SEND_BATCH_MESSAGE,
            self.wire_topic(first.topic),
            b"".join(entries),
            encode_properties(properties),
            message=first,
            msg_id=",".join(msg_ids),
            msg_ids=msg_ids,
            born_ms=self._clock.now_ms(),
        )

    def _encoded(self, properties: dict[str, str]) -> tuple[str, bytes]:
        """The message's id, its own or a new one, and its properties with it."""
        msg_id = properties.get(PropertyName.UNIQUE_KEY)
        if msg_id is None:
            msg_id = self.ids.next()
            encoded = encode_properties(properties) + b"UNIQ_KEY\x01%b\x02" % msg_id.encode()
        else:
            encoded = encode_properties(properties)
        self._check_properties(len(encoded))
        return msg_id, encoded

    def _check_properties(self, size: int) -> None:
        if size > MAX_SIZE:
            raise InvalidMessage(
                f"the properties take {size} bytes, at most {MAX_SIZE} may be: "
                "put large values into the body"
            )

    def _check_body(self, body: bytes) -> None:
        if not body:
            raise InvalidMessage("the body is empty: brokers take no message without one")
        if len(body) > self._config.max_message_size:
            raise InvalidMessage(
                f"the body has {len(body)} bytes, at most {self._config.max_message_size} may be "
                "(max_message_size here, maxMessageSize at the broker)"
            )

    def _check_batch(self, messages: Sequence[Message]) -> None:
        topic, waits = messages[0].topic, messages[0].wait_store_ok
        if is_retry_topic(topic):
            raise InvalidMessage("messages of a retry topic cannot be sent as a batch")
        for message in messages:
            if message.topic != topic:
                raise InvalidMessage(
                    f"a batch has one topic, this one has {topic!r} and {message.topic!r}"
                )
            if waits and not message.properties:
                continue  # there is nothing else to forbid it
            if message.wait_store_ok != waits:
                raise InvalidMessage("all messages of a batch need the same wait_store_ok")
            if not can_batch(message):
                raise InvalidMessage(
                    "messages with a delay, a priority or a transaction cannot go in a batch"
                )


def can_batch(message: Message) -> bool:
    """Whether a message may travel in a batch."""
    properties = message.properties
    return (
        _DELAYED.isdisjoint(properties)
        and PropertyName.PRIORITY not in properties  # which says the queue, for each its own
        and PropertyName.TRANSACTION_PREPARED not in properties
        and PropertyName.MESSAGE_TYPE not in properties
    )

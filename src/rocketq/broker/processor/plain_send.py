# cython: annotation_typing=False
"""The short way of a send: plain messages with one-letter headers, a whole run at a time.

A run is what one read of a connection brought: often one message, under load hundreds. For
each the header's fields are picked out where they lie, the topic is found with one look-up,
the properties are looked through once and three are added, the record goes into the log,
and the reply is made from a template. Nothing is decoded that is not needed.

Whatever is not plain goes to `SendProcessor`, message by message, in its place in the run:

    topics      unknown ones, retry topics, topics that need keys or several tags
    properties  a delay, a transaction, a timer, a pop handle, or no unique key
    headers     values that are not numbers, queues that do not exist

All checks hold here as there: an entry of the topic cache exists only for a topic that
passes them, and is forgotten when any topic or option changes.

No request waits here behind more than one read of its connection, a few milliseconds'
work, so there is no queue from which requests would have to be dropped for their age.

Compiled where possible (plain_send.pxd gives the types).
"""

import array
import asyncio
from typing import TYPE_CHECKING, Final

from rocketq.broker.acknowledgements import Acknowledgements
from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.stats.stats import BrokerStats
from rocketq.broker.tables.topics import Topics
from rocketq.common import memory
from rocketq.common.memory import Buffer
from rocketq.message.hosts import encode_host
from rocketq.message.properties import entries
from rocketq.remoting import Command, Connection
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.hot import send as sends
from rocketq.remoting.hot.send import SendFields, SendReplies
from rocketq.store import MessageStore, PutStatus, message_inner
from rocketq.store.config import BrokerRole
from rocketq.store.message_inner import MessageInner

if TYPE_CHECKING:
    from rocketq.broker.processor.send import SendProcessor

# Statistics are told this often what was stored, not with every message.
_COUNTS_EVERY_S: Final = 0.2

_ONEWAY = 2


class PlainTopic:
    """What the short way has to know about a topic, and what it has counted for it."""

    def __init__(self, name: str, queue_count: int) -> None:
        self.name = name
        self.name_bytes = name.encode()
        self.queue_count = queue_count
        # By queue: messages, bytes, requests.
        self.counts = array.array("q", bytes(24 * queue_count))
        # Messages by size, as `SIZE_BYTES` has it, and their bytes.
        self.sizes = array.array("q", bytes(64))
        self.is_counted = False
        # By queue: 1 if it is known to have its file.
        self.is_ready = bytearray(queue_count)


class PlainSends:
    """Handles runs of SEND_MESSAGE_V2. Owned by the loop."""

    def __init__(
        self,
        processor: "SendProcessor",
        live: LiveConfig,
        topics: Topics,
        store: MessageStore,
        acknowledgements: Acknowledgements,
        stats: BrokerStats,
        store_host: bytes,
    ) -> None:
        self._processor = processor
        self._live = live
        self._store = store
        self._topics = topics
        self._append = store.append
        self._append_batch = store.append_batch
        self._acknowledgements = acknowledgements
        self._stats = stats
        self._store_host = store_host
        self._plain: dict[str, PlainTopic] = {}
        self._counted: list[PlainTopic] = []
        self._look = PropertyLook()
        self.configure()
        topics.on_change(self._on_topics_change)
        live.on_change(self._on_config_change)

    def _on_topics_change(self, changed: list[TopicConfig]) -> None:
        self._plain.clear()

    def _on_config_change(self, before: BrokerConfig, after: BrokerConfig) -> None:
        self.configure()

    def configure(self) -> None:
        """Take over the options that matter here."""
        config = self._live.broker
        trace = "true" if config.trace_on else "false"
        self._plain.clear()
        self._replies = SendReplies(config.region_id, config.trace_on)
        self._added = (
            f"MSG_REGION\x01{config.region_id}\x02TRACE_ON\x01{trace}\x02"
            f"CLUSTER\x01{config.broker_cluster_name}\x02"
        ).encode()
        is_slave = self._store.role is BrokerRole.SLAVE
        self._is_open = config.start_accept_send_request_time_stamp <= 0 and not is_slave
        self._waits_first = is_slave or self._store.is_waited_for

    def handle_run(self, requests: list[Command], connection: Connection) -> list[Command]:
        """Store the messages of a run; returns the replies that can be given at once."""
        replies: list[Command] = []
        waiting: list[Command] = []
        safe_at = 0
        is_plain = self._is_open and not self._acknowledgements.is_full
        born_host = born_host_of(connection)
        at = -1
        for request in requests:
            at += 1
            fields = sends.read_send(request) if is_plain else None
            topic = None
            if fields is not None:
                topic = self._plain.get(fields.topic)
                if topic is None:
                    topic = self._find(fields.topic)
                if topic is not None and (
                    fields.queue_id < 0
                    or fields.queue_id >= topic.queue_count
                    or not self._look.through(fields.properties)
                ):
                    topic = None
            if topic is None or fields is None:
                answer = self._processor.handle_in_run(request, connection)
                if connection.is_put_off:
                    connection.put_off(requests[at + 1 :])
                    break
                if answer is not None and request.flag & 3 != _ONEWAY:
                    replies.append(answer)
                continue

            if not topic.is_ready[fields.queue_id] and not self._may_use(topic, fields.queue_id):
                self._processor.new_queues.wait(connection, requests[at:])
                break
            properties = fields.properties
            if properties[len(properties) - 1] != 2:
                properties = properties + b"\x02"
            message = self._message(
                fields, topic, request.body, properties + self._added, born_host
            )
            result = self._append(message)
            if result.status_code != 0:
                reply = self._processor.refuse(request, result)
                if request.flag & 3 != _ONEWAY:
                    replies.append(reply)
                continue

            self._count(topic, fields.queue_id, 1, result.size)
            if request.flag & 3 == _ONEWAY:
                continue
            reply = self._replies.reply(
                request,
                0,
                self._store_host,
                result.physical_offset,
                fields.queue_id,
                result.queue_offset,
                self._look.unique_key(fields.properties),
            )
            if self._look.waits:
                waiting.append(reply)
                safe_at = result.physical_offset + result.size
            else:
                replies.append(reply)
        if not waiting:
            return replies
        if self._waits_first and self._acknowledgements.when_safe(
            safe_at, len(waiting), Answer(self._processor, waiting, connection)
        ):
            return replies
        return waiting if not replies else replies + waiting

    def handle_batch(self, request: Command, connection: Connection) -> Command | None:
        """Store the messages of a batch; None when it is acknowledged later."""
        fields = None
        if self._is_open and not self._acknowledgements.is_full:
            fields = sends.read_send(request)
        topic = None
        if fields is not None:
            topic = self._plain.get(fields.topic)
            if topic is None:
                topic = self._find(fields.topic)
        if (
            topic is None
            or fields is None
            or fields.queue_id < 0
            or fields.queue_id >= topic.queue_count
            or fields.born_timestamp == 0
            or not self._look.through(fields.properties)
        ):
            return self._processor.handle_batch(request, connection)
        if not topic.is_ready[fields.queue_id] and not self._may_use(topic, fields.queue_id):
            self._processor.new_queues.wait(connection, [request])
            return None
        message = self._message(fields, topic, request.body, b"", born_host_of(connection))
        result = self._append_batch(message)
        if result.status_code != 0:
            return self._processor.refuse(request, result)
        self._count(topic, fields.queue_id, result.count, result.size)
        reply = self._replies.batch_reply(
            request,
            self._store_host,
            result.physical_offsets,
            fields.queue_id,
            result.queue_offset,
            self._look.unique_key(fields.properties),
        )
        if (
            self._look.waits
            and self._waits_first
            and request.flag & 3 != _ONEWAY
            and self._acknowledgements.when_safe(
                result.physical_offset + result.size,
                result.count,
                Answer(self._processor, [reply], connection),
            )
        ):
            return None
        return reply

    def _message(
        self,
        fields: SendFields,
        topic: PlainTopic,
        body: Buffer,
        properties: bytes,
        born_host: bytes,
    ) -> MessageInner:
        message = message_inner.MessageInner.__new__(message_inner.MessageInner)
        message.topic = topic.name
        message.topic_bytes = topic.name_bytes
        message.queue_id = fields.queue_id
        message.flag = fields.flag
        message.sys_flag = fields.sys_flag
        message.born_timestamp = fields.born_timestamp
        message.born_host = born_host
        message.store_host = self._store_host
        message.reconsume_times = fields.reconsume_times
        message.prepared_transaction_offset = 0
        message.body = body
        message.properties = properties
        message.wait_store = self._look.waits
        return message

    def _find(self, name: str) -> PlainTopic | None:
        """The topic, if messages for it can take the short way."""
        config = self._topics.get(name)
        if config is None or not self._processor.is_plain_topic(config):
            return None
        topic = PlainTopic(name, max(config.write_queue_nums, config.read_queue_nums))
        self._plain[name] = topic
        return topic

    def _may_use(self, topic: PlainTopic, queue_id: int) -> bool:
        """Whether a message may go to this queue now, which may have to be made for it."""
        if self._store.is_ready(topic.name, queue_id):
            topic.is_ready[queue_id] = 1
            return True
        return self._processor.new_queues.may_make()

    def _count(self, topic: PlainTopic, queue_id: int, count: int, size: int) -> None:
        topic.counts[3 * queue_id] += count
        topic.counts[3 * queue_id + 1] += size
        topic.counts[3 * queue_id + 2] += 1
        topic.sizes[_size_class(size if count == 1 else size // count)] += count
        topic.sizes[7] += size
        if not topic.is_counted:
            topic.is_counted = True
            if not self._counted:
                asyncio.get_running_loop().call_later(_COUNTS_EVERY_S, self.report_counts)
            self._counted.append(topic)

    def report_counts(self) -> None:
        """Tell the statistics what has been stored since the last time."""
        counted = self._counted
        self._counted = []
        for topic in counted:
            topic.is_counted = False
            is_deleted = self._topics.get(topic.name) is None
            if not is_deleted:
                self._stats.messages_sized(topic.name, list(topic.sizes[:7]), topic.sizes[7])
            for i in range(8):
                topic.sizes[i] = 0
            for queue_id in range(topic.queue_count):
                counts = topic.counts[3 * queue_id : 3 * queue_id + 3]
                if counts[0]:
                    if is_deleted:
                        self._stats.messages_put_before_deletion(topic.name, counts[0])
                    else:
                        self._stats.messages_put(
                            topic.name, queue_id, counts[0], counts[1], counts[2]
                        )
                    for i in range(3):
                        topic.counts[3 * queue_id + i] = 0


def _size_class(size: int) -> int:
    """Which of `SIZE_BYTES` a message does not exceed; written out because every send asks."""
    if size <= 1_024:
        return 0
    if size <= 4_096:
        return 1
    if size <= 524_288:
        return 2
    if size <= 1_048_576:
        return 3
    if size <= 2_097_152:
        return 4
    return 5 if size <= 4_194_304 else 6


def born_host_of(connection: Connection) -> bytes:
    """The peer's address as it is stored with what it sends."""
    born_host: bytes | None = connection.attributes.get("born_host")
    if born_host is None:
        born_host = encode_host(*connection.peer)
        connection.attributes["born_host"] = born_host
    return born_host


class Answer:
    """Sends the replies of one run once its messages are safe, or says that they are not."""

    def __init__(
        self, processor: "SendProcessor", replies: list[Command], connection: Connection
    ) -> None:
        self._processor = processor
        self._replies = replies
        self._connection = connection

    def __call__(self, status: PutStatus) -> None:
        replies = self._replies
        if status != 0:
            replies = [self._processor.unsafe_reply(reply, status) for reply in replies]
        self._connection.send_all(replies)


class PropertyLook:
    """A look through the encoded properties of one message: is it plain, and what does it say.

    One object serves all messages of a broker, one after the other.
    """

    def __init__(self) -> None:
        self.unique_at = 0
        self.unique_size = 0
        self.waits = True

    def unique_key(self, properties: bytes) -> bytes:
        """The key that was found, out of the properties that were looked through."""
        return memory.bytes_at(memory.address(properties), self.unique_at, self.unique_size)

    def through(self, properties: bytes) -> bool:
        """Find the unique key, and whether the producer waits; False if this is not plain."""
        data: Buffer = memory.address(properties)
        end = len(properties)
        at = 0
        self.unique_size = 0
        self.waits = True
        while at < end:
            stop = entries.entry_end(data, at, end)
            name_end = entries.name_end(data, at, stop)
            if name_end < 0:
                return False  # no entry, or one without name or value
            value_at = name_end + 1
            name_size = name_end - at
            first = data[at]
            if first == 0x55:  # U
                if name_size == 8 and memory.same(data, at, b"UNIQ_KEY", 8):
                    self.unique_at = value_at
                    self.unique_size = stop - value_at
            elif first == 0x57:  # W
                if name_size == 4 and memory.same(data, at, b"WAIT", 4):
                    self.waits = stop - value_at == 4 and memory.same(data, value_at, b"true", 4)
                    if not self.waits and not (
                        stop - value_at == 5 and memory.same(data, value_at, b"false", 5)
                    ):
                        return False
            elif _is_unusual(data, at, name_size):
                return False
            at = stop + 1
        return self.unique_size > 0


def _is_unusual(data: Buffer, at: int, size: int) -> bool:
    """Whether a property of this name makes a message other than plain."""
    first = data[at]
    if first == 0x44:  # D
        return size == 5 and memory.same(data, at, b"DELAY", 5)
    if first == 0x54:  # T
        if size > 6 and memory.same(data, at, b"TIMER_", 6):
            return True
        return size == 8 and (
            memory.same(data, at, b"TRAN_MSG", 8) or memory.same(data, at, b"TRACE_ON", 8)
        )
    if first == 0x49:  # I
        return size > 6 and memory.same(data, at, b"INNER_", 6)
    if first == 0x50:  # P
        return size == 6 and memory.same(data, at, b"POP_CK", 6)
    if first == 0x4D:  # M
        return size == 10 and memory.same(data, at, b"MSG_REGION", 10)
    if first == 0x5F:  # _
        return size == 18 and memory.same(data, at, b"_SYS_MSG_PRIORITY_", 18)
    return first == 0x43 and size == 7 and memory.same(data, at, b"CLUSTER", 7)

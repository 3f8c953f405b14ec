"""The short way of a send: plain messages with one-letter headers, a whole run at a time.

A run is what one read of a connection brought: often one message, under load hundreds. For
each the header's fields are picked out where they lie, the topic is found with one look-up,
the properties are looked through once and three are added, the record goes into the log,
and the reply is made from a template. Nothing is decoded that is not needed.

Whatever is not plain goes to `SendProcessor`, message by message, in its place in the run:

    topics      unknown ones, retry topics, topics that need keys or several tags
    properties  a delay, a transaction, a timer, a pop handle, or no unique key
    headers     numbers that are none, queues that do not exist

All checks hold here as there: an entry of the topic cache exists only for a topic that
passes them, and is forgotten when any topic or option changes.

No request waits here behind more than one read of its connection, a few milliseconds'
work, so there is no queue from which requests would have to be dropped for their age.

Compiled where possible (send_path.pxd gives the types).
"""

import array
import asyncio
import re

import cython

from rocketq.message.hosts import encode_host
from rocketq.store.config import BrokerRole

if cython.compiled:
    from cython.cimports.libc.string import memchr, memcmp
    from cython.cimports.rocketq.remoting.hot.headers import scan_send_v2
    from cython.cimports.rocketq.remoting.hot.replies import SendReplies
    from cython.cimports.rocketq.store.message_inner import MessageInner
else:
    from rocketq.remoting.hot.headers import scan_send_v2
    from rocketq.remoting.hot.replies import SendReplies
    from rocketq.store.message_inner import MessageInner

# Statistics are told this often what was stored, not with every message.
_COUNTS_EVERY_S = 0.2

_ONEWAY = cython.declare(cython.int, 2)


class PlainTopic:
    """What the short way has to know about a topic, and what it has counted for it."""

    def __init__(self, name, queue_count):
        self.name = name
        self.name_bytes = name.encode()
        self.queue_count = queue_count
        # By queue: messages, bytes, requests.
        self.counts = array.array("q", bytes(24 * queue_count))
        self.is_counted = False


class SendPath:
    """Handles runs of SEND_MESSAGE_V2. Owned by the loop."""

    def __init__(self, sends, live, topics, store, acknowledgements, stats, store_host):
        self._sends = sends
        self._live = live
        self._store = store
        self._topics = topics
        self._append = store.append
        self._append_batch = store.append_batch
        self._acknowledgements = acknowledgements
        self._stats = stats
        self._store_host = store_host
        self._plain = {}
        self._counted = []
        self._unique_at = 0
        self._unique_size = 0
        self.configure()
        topics.on_change(self._on_topics_change)
        live.on_change(self._on_config_change)

    def _on_topics_change(self, changed):
        self._plain.clear()

    def _on_config_change(self, before, after):
        self.configure()

    def configure(self):
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

    def handle_run(self, requests, connection):
        """Store the messages of a run; returns the replies that can be given at once."""
        replies = []
        waiting = []
        safe_at = 0
        is_plain = self._is_open and not self._acknowledgements.is_full
        born_host = born_host_of(connection)
        for request in requests:
            fields = scan_send_v2(request) if is_plain else None
            topic = None
            if fields is not None:
                topic = self._plain.get(fields.topic)
                if topic is None:
                    topic = self._find(fields.topic)
                if topic is not None and (
                    fields.queue_id < 0
                    or fields.queue_id >= topic.queue_count
                    or not self._look_through(fields.properties)
                ):
                    topic = None
            if topic is None:
                reply = self._sends.handle_in_run(request, connection)
                if reply is not None and request.flag & 3 != _ONEWAY:
                    replies.append(reply)
                continue

            properties = fields.properties
            if properties[len(properties) - 1] != 2:
                properties = properties + b"\x02"
            message = self._message(
                fields, topic, request.body, properties + self._added, born_host
            )
            result = self._append(message)
            if result.status_code != 0:
                reply = self._sends.refuse(request, result)
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
                fields.properties[self._unique_at : self._unique_at + self._unique_size],
            )
            if self._waits:
                waiting.append(reply)
                safe_at = result.physical_offset + result.size
            else:
                replies.append(reply)
        if not waiting:
            return replies
        if self._waits_first and self._acknowledgements.when_safe(
            safe_at, len(waiting), Answer(self._sends, waiting, connection)
        ):
            return replies
        return waiting if not replies else replies + waiting

    def handle_batch(self, request, connection):
        """Store the messages of a batch; None when it is acknowledged later."""
        fields = None
        if self._is_open and not self._acknowledgements.is_full:
            fields = scan_send_v2(request)
        topic = None
        if fields is not None:
            topic = self._plain.get(fields.topic)
            if topic is None:
                topic = self._find(fields.topic)
        if (
            topic is None
            or fields.queue_id < 0
            or fields.queue_id >= topic.queue_count
            or fields.born_timestamp == 0
            or not self._look_through(fields.properties)
        ):
            return self._sends.handle_batch(request, connection)
        message = self._message(fields, topic, request.body, b"", born_host_of(connection))
        result = self._append_batch(message)
        if result.status_code != 0:
            return self._sends.refuse(request, result)
        self._count(topic, fields.queue_id, result.count, result.size)
        reply = self._replies.batch_reply(
            request,
            self._store_host,
            result.physical_offsets,
            fields.queue_id,
            result.queue_offset,
            fields.properties[self._unique_at : self._unique_at + self._unique_size],
        )
        if (
            self._waits
            and self._waits_first
            and request.flag & 3 != _ONEWAY
            and self._acknowledgements.when_safe(
                result.physical_offset + result.size,
                result.count,
                Answer(self._sends, [reply], connection),
            )
        ):
            return None
        return reply

    def _message(self, fields, topic, body, properties, born_host):
        message = MessageInner.__new__(MessageInner)
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
        message.wait_store = self._waits
        return message

    def _find(self, name):
        """The topic, if messages for it can take the short way."""
        config = self._topics.get(name)
        if config is None or not self._sends.is_plain_topic(config):
            return None
        topic = PlainTopic(name, max(config.write_queue_nums, config.read_queue_nums))
        self._plain[name] = topic
        return topic

    def _look_through(self, properties):
        """Find the unique key, and whether the producer waits; False if this is not plain."""
        if cython.compiled:
            return look_through(
                properties,
                len(properties),
                cython.address(self._unique_at),
                cython.address(self._unique_size),
                cython.address(self._waits),
            )
        self._unique_at, self._unique_size, self._waits = look_through_properties(properties)
        return self._unique_size > 0

    def _count(self, topic, queue_id, count, size):
        topic.counts[3 * queue_id] += count
        topic.counts[3 * queue_id + 1] += size
        topic.counts[3 * queue_id + 2] += 1
        if not topic.is_counted:
            topic.is_counted = True
            if not self._counted:
                asyncio.get_running_loop().call_later(_COUNTS_EVERY_S, self.report_counts)
            self._counted.append(topic)

    def report_counts(self):
        """Tell the statistics what has been stored since the last time."""
        counted = self._counted
        self._counted = []
        for topic in counted:
            topic.is_counted = False
            for queue_id in range(topic.queue_count):
                counts = topic.counts[3 * queue_id : 3 * queue_id + 3]
                if counts[0]:
                    self._stats.messages_put(topic.name, queue_id, counts[0], counts[1], counts[2])
                    for i in range(3):
                        topic.counts[3 * queue_id + i] = 0


def born_host_of(connection):
    """The peer's address as it is stored with what it sends."""
    born_host = connection.attributes.get("born_host")
    if born_host is None:
        born_host = encode_host(*connection.peer)
        connection.attributes["born_host"] = born_host
    return born_host


class Answer:
    """Sends the replies of one run once its messages are safe, or says that they are not."""

    def __init__(self, sends, replies, connection):
        self._sends = sends
        self._replies = replies
        self._connection = connection

    def __call__(self, status):
        replies = self._replies
        if status != 0:
            replies = [self._sends.unsafe_reply(reply, status) for reply in replies]
        self._connection.send_all(replies)


_UNUSUAL = re.compile(
    rb"(?:^|\x02)"
    rb"(?:DELAY|TRAN_MSG|TRACE_ON|TIMER_[^\x01]+|INNER_[^\x01]+|POP_CK|MSG_REGION|CLUSTER"
    rb"|_SYS_MSG_PRIORITY_)\x01"
)
"""A property with which a message is not plain."""


def look_through_properties(properties):
    """Where the unique key lies, its size (0: not a plain message), whether the producer waits."""
    if cython.compiled:
        unique_at: cython.Py_ssize_t = 0
        unique_size: cython.Py_ssize_t = 0
        waits: cython.bint = True
        if not look_through(
            properties,
            len(properties),
            cython.address(unique_at),
            cython.address(unique_size),
            cython.address(waits),
        ):
            unique_size = 0
        return unique_at, unique_size, waits
    key_at = key_size = at = 0
    does_wait = True
    if _UNUSUAL.search(properties) is not None:
        return 0, 0, True
    for entry in properties.removesuffix(b"\x02").split(b"\x02"):
        name, _, value = entry.partition(b"\x01")
        if not name or not value:
            return 0, 0, True
        if name == b"UNIQ_KEY":
            key_at = at + 9
            key_size = len(value)
        elif name == b"WAIT":
            does_wait = value == b"true"
            if not does_wait and value != b"false":
                return 0, 0, True
        at += len(entry) + 1
    return key_at, key_size, does_wait


if cython.compiled:

    @cython.cfunc
    @cython.exceptval(check=False)
    def look_through(
        raw: cython.p_const_char,
        size: cython.Py_ssize_t,
        unique_at: cython.pointer(cython.Py_ssize_t),
        unique_size: cython.pointer(cython.Py_ssize_t),
        waits: cython.pointer(cython.bint),
    ) -> cython.bint:
        at: cython.p_const_char = raw
        end: cython.p_const_char = raw + size
        unique_size[0] = 0
        waits[0] = True
        while at < end:
            entry_end: cython.p_const_char = cython.cast(
                cython.p_const_char, memchr(at, 2, end - at)
            )
            if entry_end == cython.NULL:
                entry_end = end
            name_end: cython.p_const_char = cython.cast(
                cython.p_const_char, memchr(at, 1, entry_end - at)
            )
            if name_end == cython.NULL or name_end == at or name_end + 1 == entry_end:
                return False  # no entry, or one without name or value
            name_size: cython.Py_ssize_t = name_end - at
            value_size: cython.Py_ssize_t = entry_end - name_end - 1
            first: cython.char = at[0]
            if first == b"U":
                if name_size == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
                    unique_at[0] = name_end + 1 - raw
                    unique_size[0] = value_size
            elif first == b"W":
                if name_size == 4 and memcmp(at, b"WAIT", 4) == 0:
                    waits[0] = value_size == 4 and memcmp(name_end + 1, b"true", 4) == 0
                    if not waits[0] and not (
                        value_size == 5 and memcmp(name_end + 1, b"false", 5) == 0
                    ):
                        return False
            elif first == b"D":
                if name_size == 5 and memcmp(at, b"DELAY", 5) == 0:
                    return False
            elif first == b"T":
                if name_size == 8 and (
                    memcmp(at, b"TRAN_MSG", 8) == 0 or memcmp(at, b"TRACE_ON", 8) == 0
                ):
                    return False
                if name_size > 6 and memcmp(at, b"TIMER_", 6) == 0:
                    return False
            elif first == b"I":
                if name_size > 6 and memcmp(at, b"INNER_", 6) == 0:
                    return False
            elif first == b"P":
                if name_size == 6 and memcmp(at, b"POP_CK", 6) == 0:
                    return False
            elif first == b"M":
                if name_size == 10 and memcmp(at, b"MSG_REGION", 10) == 0:
                    return False
            elif first == b"_":
                if name_size == 18 and memcmp(at, b"_SYS_MSG_PRIORITY_", 18) == 0:
                    return False
            elif first == b"C" and name_size == 7 and memcmp(at, b"CLUSTER", 7) == 0:
                return False
            at = entry_end + 1
        return unique_size[0] > 0

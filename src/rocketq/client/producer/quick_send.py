"""The short way of a send: no task, one frame, one future.

Most sends are alike: a known topic, an open connection, a small body, nobody watching. For
those the next queue of the topic is taken, the frame is written from that queue's template,
and the broker's answer completes the caller's future. Frames of one turn of the loop leave
together (`Connection`), and one timer serves all time limits (`Deadlines`).

Anything else is `Delivery`'s business, from the start (`SendPath.send` returns None) or from
the first failure on (`Delivery.go_on`). A frame keeps all that is needed to send it again, so
the caller may reuse the message as soon as `send` has returned.

Compiled where possible (send_path.pxd gives the types).
"""

import time

import cython

from rocketq.client.producer.result import SendStatus
from rocketq.message.properties.codec import encode_properties
from rocketq.remoting.errors import RequestTimeout

if cython.compiled:
    from cython.cimports.rocketq.client.producer.result import SendResult
    from cython.cimports.rocketq.remoting.wire.command import next_opaque
else:
    from rocketq.client.producer.result import SendResult
    from rocketq.remoting.wire.command import next_opaque

_SEND_OK = SendStatus.SEND_OK
_now = time.time

# Deadlines are kept in buckets; one bucket serves the sends of this long.
_BUCKET_S = 0.01

# Messages with these go the long way: a queue of their own, another request, an own id.
_UNUSUAL = ("__SHARDINGKEY", "TRAN_MSG", "MSG_TYPE", "UNIQ_KEY")


class Lane:
    """The way to one queue: its connection, and the frame head its sends share."""

    def __init__(self, connection, template, queue):
        self.connection = connection
        self.template = template
        self.queue = queue  # as the user sees it, without a namespace


class Ring:
    """The lanes of a topic's queues, taken in turn."""

    def __init__(self, lanes, turn):
        self._lanes = lanes
        self._count = len(lanes)
        self._turn = turn % self._count

    def next_lane(self):
        """The next queue's."""
        lane = self._lanes[self._turn]
        self._turn += 1
        if self._turn == self._count:
            self._turn = 0
        return lane


class QuickSend:
    """A frame on its way, waiting for the broker's answer."""

    def leave(self):
        self._bucket.pop(self.opaque, None)

    def complete(self, response):
        future = self.future
        if response.code != 0 or future.done():
            self._path.delivery.answered(self, response)
            return
        fields = response.ext_fields
        queue = self.lane.queue
        queue_id = int(fields.get("queueId", "0"))
        if queue_id != queue.queue_id:  # the broker chose
            queue = queue._replace(queue_id=queue_id)
        result = SendResult.__new__(SendResult)
        result.status = _SEND_OK
        result.msg_id = self.msg_id
        result.offset_msg_id = fields.get("msgId", "")
        result.queue = queue
        result.queue_offset = int(fields.get("queueOffset", "0"))
        result.transaction_id = fields.get("transactionId", "")
        result.region_id = fields.get("MSG_REGION", "")
        result.trace_on = fields.get("TRACE_ON") != "false"
        result.recall_handle = fields.get("recallHandle", "")
        self._path.pending.discard(future)
        future.set_result(result)

    def fail(self, error):
        self._path.delivery.go_on(self, error)

    def expire(self):
        connection = self.lane.connection
        connection.forget(self.opaque)
        self.fail(RequestTimeout(f"no answer from {connection.peer_address} in time"))


class SendPath:
    """The short way of one producer."""

    def __init__(self, delivery, ids, *, budget_s, plain_below):
        """`plain_below` is the size from which bodies are compressed, or refused."""
        self.delivery = delivery
        self.pending = set()
        self._rings = {}
        self._ids = ids
        self._loop = delivery.loop
        self._budget_s = budget_s
        self._plain_below = plain_below
        self._bucket = None
        self._bucket_until = 0.0

    def open(self, topic, ring):
        """Messages of this topic may go this way from now on."""
        self._rings[topic] = ring

    def close(self):
        """No topic may, until it is opened again: routes have changed."""
        self._rings.clear()

    def send(self, message):
        """Send a message the short way; None if it has to go the long one."""
        topic = message.topic
        ring = self._rings.get(topic)
        if ring is None:
            return None
        body = message.body
        size = len(body)
        if size == 0 or size >= self._plain_below:
            return None
        properties = message.properties
        if properties:
            for name in _UNUSUAL:
                if name in properties:
                    return None
        msg_id = self._ids.next()
        encoded = b"UNIQ_KEY\x01%b\x02" % msg_id.encode()
        if properties:
            encoded = encode_properties(properties) + encoded
            if len(encoded) > 32_767:
                return None
        lane = ring.next_lane()
        born_ms = int(_now() * 1000)
        future = self.start(lane, topic, body, encoded, 0, message.flag, born_ms, msg_id, None)
        if future is None:
            del self._rings[topic]
        return future

    def start(self, lane, topic, body, properties, sys_flag, flag, born_ms, msg_id, choice):
        """Write the frame; the future gets the answer. None if it cannot be written now.

        `choice` is how a retry finds its queue; None is any other.
        """
        opaque = next_opaque()
        head = lane.template.head(opaque, sys_flag, born_ms, flag, properties, len(body))
        now = self._loop.time()
        if now >= self._bucket_until:
            self._bucket = lane.connection.deadlines.bucket(self._budget_s + _BUCKET_S)
            self._bucket_until = now + _BUCKET_S
        future = self._loop.create_future()
        waiting = QuickSend.__new__(QuickSend)
        waiting._path = self
        waiting._bucket = self._bucket
        waiting.lane = lane
        waiting.future = future
        waiting.opaque = opaque
        waiting.topic = topic
        waiting.msg_id = msg_id
        waiting.head = head
        waiting.body = body
        waiting.choice = choice
        waiting.deadline = now + self._budget_s
        if not lane.connection.start_frame(opaque, head, body, waiting):
            return None
        self._bucket[opaque] = waiting
        self.pending.add(future)
        return future

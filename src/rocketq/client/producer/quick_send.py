# cython: annotation_typing=False
"""The short way of a send: no task, one frame, one future.

Most sends are alike: a known topic, an open connection, a small body, nobody watching. For
those the next queue of the topic is taken, the frame is written from that queue's template,
and the broker's answer completes the caller's future. Frames of one turn of the loop leave
together (`Connection`), and one timer serves all time limits (`Deadlines`).

Anything else is the long way of `sender.py`, from the start (`QuickSends.send` returns None)
or from the first thing that is not simply a yes (the callback `take_over`). A frame keeps all
that is needed to send it again, so the caller may reuse the message as soon as `send` returns.

Compiled where possible (quick_send.pxd gives the types).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from rocketq.client.producer import result as receipts
from rocketq.client.producer.result import SendResult, SendStatus
from rocketq.client.producer.selectors import QueueChoice
from rocketq.common.errors import RocketqError
from rocketq.message.ids import UniqueIds
from rocketq.message.message import Message
from rocketq.message.properties.codec import encode_properties
from rocketq.message.queue import MessageQueue
from rocketq.message.record import layout
from rocketq.remoting.errors import RequestTimeout
from rocketq.remoting.hot.send import SendTemplate
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.deadlines import Bucket
from rocketq.remoting.wire import command as commands
from rocketq.remoting.wire.command import Command

TakeOver: TypeAlias = Callable[["QuickSend", Command | RocketqError], None]
"""Called with a send that is not simply answered with yes, and what came instead."""

_SEND_OK: Final = SendStatus.SEND_OK
_now: Final = time.time

# Deadlines are kept in buckets; one bucket serves the sends of this long.
_BUCKET_S: Final = 0.01

# Messages with these go the long way: a queue of their own, another request, an own id.
_UNUSUAL: Final = ("__SHARDINGKEY", "TRAN_MSG", "MSG_TYPE", "UNIQ_KEY")


class Lane:
    """The way to one queue: its connection, and the frame head its sends share."""

    def __init__(
        self, connection: Connection, code: int, template: SendTemplate, queue: MessageQueue
    ) -> None:
        self.connection = connection
        self.code = code
        self.template = template
        self.queue = queue  # as the user sees it, without a namespace


class Ring:
    """The lanes of a topic's queues, taken in turn."""

    def __init__(self, lanes: list[Lane], turn: int) -> None:
        self._lanes = lanes
        self._count = len(lanes)
        self._turn = turn % self._count

    def next_lane(self) -> Lane:
        """The next queue's."""
        lane = self._lanes[self._turn]
        self._turn += 1
        if self._turn == self._count:
            self._turn = 0
        return lane


class QuickSend:
    """A frame on its way, waiting for the broker's answer. Made by `QuickSends.start`."""

    _sends: "QuickSends"
    _bucket: Bucket
    lane: Lane
    future: "asyncio.Future[SendResult]"
    opaque: int
    topic: str
    msg_id: str
    head: bytes
    body: bytes
    choice: QueueChoice | None
    deadline: float
    reads: int

    def leave(self) -> None:
        self._bucket.pop(self.opaque, None)

    def complete(self, response: Command) -> None:
        future = self.future
        if response.code != 0 or future.done():
            self._sends.take_over(self, response)
            return
        result = receipts.receipt(_SEND_OK, self.msg_id, self.lane.queue, response.ext_fields)
        self._sends.pending.discard(future)
        future.set_result(result)

    def fail(self, error: Exception) -> None:
        assert isinstance(error, RocketqError), error  # connections fail with nothing else
        self._sends.take_over(self, error)

    def expire(self) -> None:
        connection = self.lane.connection
        connection.expired(self.opaque, self.reads)
        self.fail(RequestTimeout(f"no answer from {connection.peer_address} in time"))


class QuickSends:
    """The sends of one producer that take the short way."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ids: UniqueIds,
        take_over: TakeOver,
        *,
        budget_s: float,
        plain_below: int,
    ) -> None:
        """`plain_below` is the size from which bodies are compressed, or refused."""
        self.take_over = take_over
        self.pending: set[asyncio.Future[SendResult]] = set()
        self._rings: dict[str, Ring] = {}
        self._ids = ids
        self._loop = loop
        self._budget_s = budget_s
        self._plain_below = plain_below
        self._bucket: Bucket = {}
        self._bucket_until = 0.0

    def open(self, topic: str, ring: Ring) -> None:
        """Messages of this topic may go this way from now on."""
        self._rings[topic] = ring

    def close(self) -> None:
        """No topic may, until it is opened again: routes have changed."""
        self._rings.clear()

    def send(self, message: Message) -> "asyncio.Future[SendResult] | None":
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
            if len(encoded) > layout.MAX_PROPERTIES_SIZE:
                return None
        lane = ring.next_lane()
        born_ms = int(_now() * 1000)
        future = self.start(lane, topic, body, encoded, 0, message.flag, born_ms, msg_id, None)
        if future is None:
            del self._rings[topic]
        return future

    def start(
        self,
        lane: Lane,
        topic: str,
        body: bytes,
        properties: bytes,
        sys_flag: int,
        flag: int,
        born_ms: int,
        msg_id: str,
        choice: QueueChoice | None,
    ) -> "asyncio.Future[SendResult] | None":
        """Write the frame; the future gets the answer. None if it cannot be written now.

        `choice` is how a retry finds its queue; with None it takes another one.
        """
        opaque = commands.next_opaque()
        head = lane.template.head(opaque, sys_flag, born_ms, flag, properties, len(body))
        now = self._loop.time()
        if now >= self._bucket_until:
            self._bucket = lane.connection.deadlines.bucket(self._budget_s + _BUCKET_S)
            self._bucket_until = now + _BUCKET_S
        future: asyncio.Future[SendResult] = self._loop.create_future()
        waiting = QuickSend.__new__(QuickSend)
        waiting._sends = self
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
        waiting.reads = lane.connection.reads
        if not lane.connection.start_frame(opaque, head, body, waiting):
            return None
        self._bucket[opaque] = waiting
        self.pending.add(future)
        return future

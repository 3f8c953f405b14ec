"""Consumers that pop: a request as bytes, and acknowledgements made of its answers.

A `PopPipe` is one connection of a consumer. It pops, acknowledges each message on its own, as
the official client does, and pops again with the same write.
"""

import asyncio
import struct
from typing import Final, cast

from benchmarks.frames import frame
from rocketq.remoting import Command
from rocketq.remoting.headers.pop import PopMessage, PopMessageResponse
from rocketq.remoting.wire.frame import FrameSplitter

_LENGTHS: Final = struct.Struct(">II")
_POP: Final = 1
_ACK: Final = 2
_INVISIBLE_MS: Final = 60_000

_ACK_HEAD: Final = (
    '{"code":200051,"extFields":{"consumerGroup":"%s","topic":"%s","queueId":"%s",'
    '"extraInfo":"%s","offset":"%s"},"flag":0,"language":"JAVA","opaque":2,'
    '"serializeTypeCurrentRPC":"JSON","version":485}'
)


def pop_frame(
    topic: str, group: str, most: int, *, hold_ms: int = 0, invisible_ms: int = _INVISIBLE_MS
) -> bytes:
    header = PopMessage(
        consumer_group=group,
        topic=topic,
        queue_id=-1,
        max_msg_nums=most,
        invisible_time=invisible_ms,
        poll_time=hold_ms,
        born_time=0,
        init_mode=0,
    )
    command = Command.request(header)
    command.opaque = _POP
    return frame(command)


def ack_frames(topic: str, group: str, broker: str, answer: PopMessageResponse) -> list[bytes]:
    """One acknowledgement for each message of an answer; retries are left alone."""
    starts = {}
    for entry in (answer.start_offset_info or "").split(";"):
        kind, queue_id, start = entry.split(" ")
        starts[kind, queue_id] = start
    acks = []
    for entry in (answer.msg_offset_info or "").split(";"):
        kind, queue_id, offsets = entry.split(" ")
        receipt = (
            f"{starts[kind, queue_id]} {answer.pop_time} {answer.invisible_time} "
            f"{answer.revive_qid} {kind} {broker} {queue_id} "
        )
        for offset in offsets.split(",") if kind == "0" else ():
            head = (_ACK_HEAD % (group, topic, queue_id, receipt + offset, offset)).encode()
            acks.append(_LENGTHS.pack(4 + len(head), len(head)) + head)
    return acks


class PopPipe(asyncio.Protocol):
    """One consumer: pops and acknowledges until so many have come or nothing is left."""

    def __init__(
        self, topic: str, group: str, broker: str, *, most: int, acks: bool, invisible_ms: int
    ) -> None:
        self._topic, self._group, self._broker = topic, group, broker
        self._pop = pop_frame(topic, group, most, invisible_ms=invisible_ms)
        self._acks = acks
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._unacknowledged = 0
        self._is_out = False
        self.popped = 0
        self.acknowledged = 0
        self.wanted = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connected(
        cls,
        address: str,
        topic: str,
        group: str,
        broker: str,
        *,
        most: int = 32,
        acks: bool = True,
        invisible_ms: int = _INVISIBLE_MS,
    ) -> "PopPipe":
        host, _, port = address.rpartition(":")
        _, pipe = await asyncio.get_running_loop().create_connection(
            lambda: cls(topic, group, broker, most=most, acks=acks, invisible_ms=invisible_ms),
            host,
            int(port),
        )
        return pipe

    def start(self, count: int) -> "asyncio.Future[None]":
        """Pop at least so many more; done when all answers are there."""
        self.wanted = self.popped + count
        self.done = asyncio.get_running_loop().create_future()
        self._is_out = False
        self._write(self._pop)
        return self.done

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for answer in self._splitter.feed(data):
            if answer.opaque == _ACK:
                if answer.code:
                    self._fail(f"an ack was answered {answer.code}: {answer.remark}")
                self._unacknowledged -= 1
                self.acknowledged += 1
            elif answer.opaque == _POP:
                self._take(answer)
        if self._is_out and not self._unacknowledged and not self.done.done():
            self.done.set_result(None)

    def _take(self, answer: Command) -> None:
        if answer.code in (209, 210):
            self._is_out = True
            return
        if answer.code:
            self._fail(f"a pop was answered {answer.code}: {answer.remark}")
            return
        header = PopMessageResponse.from_ext_fields(answer.ext_fields)
        acks = ack_frames(self._topic, self._group, self._broker, header)
        self.popped += len(acks)
        self._is_out = self.popped >= self.wanted
        parts = acks if self._acks else []
        self._unacknowledged += len(parts)
        if not self._is_out:
            parts = [*parts, self._pop]
        if parts:
            self._write(b"".join(parts))

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the broker closed the connection")

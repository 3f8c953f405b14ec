"""Requests as bytes, made once and sent over and over.

A load that builds every request anew measures itself. Here the driver only writes bytes and
counts answers, so that the broker is what limits it, also with thousands of connections.
"""

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from rocketq.message.flags import PullFlag
from rocketq.message.ids import UniqueIds
from rocketq.message.message import Message
from rocketq.message.properties.codec import encode_properties
from rocketq.message.record.batch import encode_batch
from rocketq.remoting import Command
from rocketq.remoting.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rocketq.remoting.headers import HeartBeat, PullMessage, SendMessageV2
from rocketq.remoting.wire.command import ONEWAY_FLAG
from rocketq.remoting.wire.frame import FrameSplitter

_IDS = UniqueIds()


def frame(command: Command) -> bytes:
    return b"".join(bytes(part) for part in command.encode())


def send_frame(
    topic: str,
    queue_id: int,
    body: bytes,
    properties: Mapping[str, str] | None = None,
    *,
    is_oneway: bool = False,
) -> bytes:
    """A message as the official Java client sends it."""
    named = {"UNIQ_KEY": _IDS.next(), "WAIT": "true", **(properties or {})}
    command = Command.request(_send_header(topic, queue_id, named), body)
    if is_oneway:
        command.flag |= ONEWAY_FLAG
    return frame(command)


def batch_frame(topic: str, queue_id: int, bodies: Iterable[bytes]) -> bytes:
    """Several messages in one request."""
    messages = [
        Message.of(topic, body, {"UNIQ_KEY": _IDS.next(), "WAIT": "true"}) for body in bodies
    ]
    header = _send_header(topic, queue_id, {}, is_batch=True)
    return frame(Command.request(header, encode_batch(messages), code=320))


def _send_header(
    topic: str, queue_id: int, properties: Mapping[str, str], *, is_batch: bool = False
) -> SendMessageV2:
    return SendMessageV2(
        producer_group="growth",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=encode_properties(properties).decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=is_batch,
    )


def pull_frame(
    topic: str,
    queue_id: int,
    offset: int,
    *,
    group: str = "growth",
    most: int = 32,
    hold_ms: int = 0,
    commits: bool = False,
) -> bytes:
    """A pull that brings its subscription along; with `hold_ms` it waits for messages."""
    flags = PullFlag.SUBSCRIPTION
    flags |= PullFlag.SUSPEND if hold_ms else 0
    flags |= PullFlag.COMMIT_OFFSET if commits else 0
    header = PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=most,
        sys_flag=int(flags),
        commit_offset=offset,
        suspend_timeout_millis=hold_ms,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    return frame(Command.request(header))


def heartbeat_frame(client_id: str, group: str, topic: str) -> bytes:
    """A consumer makes itself known."""
    data = SubscriptionData(topic=topic, sub_string="*", expression_type="TAG", sub_version=1)
    body = HeartbeatData(
        client_id=client_id,
        consumer_data_set=[ConsumerData(group_name=group, subscription_data_set=[data])],
        producer_data_set=[],
    )
    return frame(Command.request(HeartBeat(), body.encode()))


class Pipe(asyncio.Protocol):
    """One connection. Only one of `flood` and `ask` at a time."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._source: Iterator[bytes] = iter(())
        self._unsent = 0
        self._unanswered = 0
        self._done: asyncio.Future[Command] | None = None
        self.answers = 0

    @classmethod
    async def connected(cls, address: str) -> "Pipe":
        host, _, port = address.rpartition(":")
        _, pipe = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        return pipe

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # What it is for

    def flood(self, source: Iterator[bytes], count: int, window: int) -> asyncio.Future[Command]:
        """Send `count` frames, so many unanswered at a time; done with the last answer."""
        self._done = asyncio.get_running_loop().create_future()
        self._source = source
        self._unsent = self._unanswered = count
        self._send(min(window, count))
        return self._done

    def ask(self, request: bytes) -> asyncio.Future[Command]:
        """Send one frame; done with its answer."""
        return self.flood(iter((request,)), 1, 1)

    def leave(self, request: bytes) -> None:
        """Send a frame whose answer nobody waits for."""
        assert self._transport is not None
        self._transport.write(request)

    def _send(self, count: int) -> None:
        assert self._transport is not None
        self._unsent -= count
        self._transport.write(b"".join(itertools.islice(self._source, count)))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        # Brokers have requests of their own, such as that a group has changed.
        answers = [each for each in self._splitter.feed(data) if each.is_response]
        self.answers += len(answers)
        done = self._done
        if not answers or done is None or done.done():
            return
        for answer in answers:
            if answer.code != 0:
                done.set_exception(RuntimeError(f"answer {answer.code}: {answer.remark}"))
                return
        self._unanswered -= len(answers)
        if self._unanswered <= 0:
            done.set_result(answers[-1])
        elif self._unsent:
            self._send(min(len(answers), self._unsent))

    def connection_lost(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionResetError("the broker closed the connection"))


async def connect_many(address: str, count: int) -> list[Pipe]:
    """Many connections, not more at a time than a listener has room for."""
    pipes: list[Pipe] = []
    while len(pipes) < count:
        some = min(200, count - len(pipes))
        pipes += await asyncio.gather(*(Pipe.connected(address) for _ in range(some)))
    return pipes


async def flood(pipes: Sequence[Pipe], frames: Sequence[bytes], count: int, window: int) -> None:
    """Send `count` frames over connections, `window` unanswered in all."""
    source = itertools.cycle(frames)
    shares = [count // len(pipes) + (n < count % len(pipes)) for n in range(len(pipes))]
    each = max(window // len(pipes), 1)
    await asyncio.gather(
        *(
            pipe.flood(source, share, each)
            for pipe, share in zip(pipes, shares, strict=True)
            if share
        )
    )

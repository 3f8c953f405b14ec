"""`rocketq send`: messages from the command line or from a pipe."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Final

from rocketq.cli import options
from rocketq.cli.commands import Argument, Option, command
from rocketq.cli.failures import CannotStart, fail, log_to_stderr
from rocketq.cli.rate_line import RateLine
from rocketq.cli.serving import run_async
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.result import SendResult
from rocketq.common import json
from rocketq.common.errors import RocketqError
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue

_GROUP: Final = "rocketq-send"
# How many may be on their way at a time: enough to keep a broker busy.
_WINDOW: Final = 1_000
_READ_SIZE: Final = 1 << 16


def send(
    topic: Annotated[str, Argument(metavar="TOPIC", help="Where to send.")],
    body: Annotated[
        str | None,
        Argument(metavar="[BODY|-]", help="The body; - or none: each line of stdin is one."),
    ] = None,
    name_servers: options.NameServers = None,
    tag: Annotated[str | None, Option("--tag", metavar="TAG", help="A tag to select by.")] = None,
    keys: Annotated[
        list[str] | None,
        Option("--key", metavar="KEY", help="A key to find it by; may be repeated."),
    ] = None,
    properties: Annotated[
        list[str] | None,
        Option("--property", metavar="NAME=VALUE", help="A property; may be repeated."),
    ] = None,
    count: Annotated[
        int, Option("--count", metavar="N", minimum=1, help="Send BODY this many times.")
    ] = 1,
    delay: Annotated[
        int, Option("--delay", metavar="LEVEL", minimum=0, help="Deliver later: 1 is 1 s.")
    ] = 0,
    to_queue: Annotated[
        str | None,
        Option("--to-queue", metavar="BROKER:ID", help="One queue instead of all in turn."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Send messages to a topic.

    A single message is answered with its id and where it was stored; of many, only the
    number is told, on stderr. With --json every one is a line of JSON.

    rocketq send orders "hello" --tag paid --key 42
    cat orders.jsonl | rocketq send orders
    rocketq send orders - --json < orders.jsonl > receipts.jsonl
    """
    log_to_stderr(-1)
    try:
        queue = _queue(topic, to_queue)
        named = _properties(properties or [])
    except CannotStart as error:
        fail(error)

    def message(text: bytes) -> Message:
        return Message(topic, text, tags=tag, keys=keys or (), properties=named, delay_level=delay)

    addresses = options.known_name_servers(name_servers)
    from_stdin = body is None or body == "-"

    async def work() -> None:
        bodies = _lines_of_stdin() if from_stdin else _repeated((body or "").encode(), count)
        rate = RateLine("sent")
        async with Producer(_GROUP, namesrv=addresses) as producer, rate.shown():
            sending = _Sending(producer, queue, rate, shows_each=as_json)
            async for text in bodies:
                await sending.send(message(text))
            await sending.finish()
        if as_json:
            return
        if not from_stdin and count == 1 and sending.last is not None:
            result = sending.last
            place = f"{result.queue.broker_name}:{result.queue.queue_id}"
            print(f"{result.msg_id} {place} {result.queue_offset} {result.status.name}")
        else:
            print(rate.summary(), file=sys.stderr)

    try:
        run_async(work)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads the receipts any more
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except RocketqError as error:
        fail(error)


run = command(send)


class _Sending:
    """Keeps a window of messages on their way; the first failure ends it."""

    def __init__(
        self,
        producer: Producer,
        queue: MessageQueue | None,
        rate: RateLine,
        *,
        shows_each: bool,
    ) -> None:
        self._producer = producer
        self._queue = queue
        self._rate = rate
        self._shows_each = shows_each
        self._pending: set[asyncio.Future[SendResult]] = set()
        self.last: SendResult | None = None

    async def send(self, message: Message) -> None:
        if len(self._pending) >= _WINDOW:
            await self._settle(asyncio.FIRST_COMPLETED)
        self._pending.add(self._producer.send_soon(message, queue=self._queue))

    async def finish(self) -> None:
        if self._pending:
            await self._settle(asyncio.ALL_COMPLETED)

    async def _settle(self, when: str) -> None:
        done, self._pending = await asyncio.wait(self._pending, return_when=when)
        for each in done:
            self.last = each.result()
            self._rate.count += 1
            if self._shows_each:
                print(json.standard_dumps(_receipt(self.last)).decode())


def _receipt(result: SendResult) -> dict[str, object]:
    return {
        "msgId": result.msg_id,
        "offsetMsgId": result.offset_msg_id,
        "brokerName": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
        "status": result.status.name,
    }


async def _repeated(body: bytes, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield body


async def _lines_of_stdin() -> AsyncIterator[bytes]:
    """Each line as soon as it is there; blank ones are no messages."""
    if sys.stdin.isatty():
        print("One message a line; Ctrl-D ends.", file=sys.stderr)
    rest = b""
    while chunk := await asyncio.to_thread(os.read, sys.stdin.fileno(), _READ_SIZE):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest


def _queue(topic: str, text: str | None) -> MessageQueue | None:
    if text is None:
        return None
    broker_name, _, number = text.rpartition(":")
    if not broker_name or not number.isdecimal():
        raise CannotStart(f"--to-queue {text}: write it as BROKER:ID, like broker-a:0")
    return MessageQueue(topic, broker_name, int(number))


def _properties(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CannotStart(f"--property {text}: write it as NAME=VALUE")
        found[name] = value
    return found

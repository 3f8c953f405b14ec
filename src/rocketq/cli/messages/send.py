"""`rocketq send`: messages from the command line or from a pipe."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Final

from rocketq.cli import options
from rocketq.cli.commands import Argument, Option, command
from rocketq.cli.failures import CannotStart, fail, log_to_stderr
from rocketq.cli.messages.input import from_json, lines_of_stdin
from rocketq.cli.messages.rate_line import RateLine
from rocketq.cli.servers.serving import run_async
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.result import SendResult
from rocketq.common import json
from rocketq.common.errors import RocketqError
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue

_GROUP: Final = "rocketq-send"
# How many may be on their way at a time: enough to keep a broker busy.
_WINDOW: Final = 1_000


def send(
    topic: Annotated[str, Argument(metavar="TOPIC", help="Where to send.")],
    body: Annotated[
        str | None,
        Argument(metavar="BODY", help="The body; - or none: each line of stdin is one."),
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
    file: Annotated[
        Path | None, Option("--file", metavar="FILE", help="Send a file's content as one message.")
    ] = None,
    json_in: Annotated[
        bool,
        Option(
            "--json-in",
            help="Each line of stdin is an object with body or bodyBase64, and if you like tags,"
            " keys, properties and delayLevel; as tail --json prints them.",
        ),
    ] = False,
    count: Annotated[
        int, Option("--count", metavar="N", minimum=1, help="Send BODY this many times.")
    ] = 1,
    delay: Annotated[
        int,
        Option(
            "--delay",
            metavar="LEVEL",
            minimum=0,
            help="Deliver later. A broker's levels are, from 1 on: 1s 5s 10s 30s 1m 2m 3m 4m 5m"
            " 6m 7m 8m 9m 10m 20m 30m 1h 2h (18); anything above counts as the last.",
        ),
    ] = 0,
    to_queue: Annotated[
        str | None,
        Option("--to-queue", metavar="BROKER:ID", help="One queue instead of all in turn."),
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print the receipt of each message as a line of JSON.")
    ] = False,
) -> None:
    """Send messages to a topic.

    A single message is answered with its id and where it was stored; of many, only the
    number is told, on stderr. With --json the receipt of each is a line of JSON.

    rocketq send orders "hello" --tag paid --key 42
    cat orders.jsonl | rocketq send orders
    rocketq send orders - --json < orders.jsonl > receipts.jsonl
    rocketq tail orders --from earliest --no-follow --json | rocketq send copy --json-in
    rocketq send pictures --file cat.jpg
    """
    log_to_stderr(-1)
    from_stdin = file is None and body in (None, "-")
    try:
        if file is not None and body is not None:
            raise CannotStart("--file and BODY exclude each other")
        if json_in and not from_stdin:
            raise CannotStart("--json-in reads stdin: leave out BODY and --file")
        queue = _queue(topic, to_queue)
        named = _properties(properties or [])
        for option, text in [("--tag", tag or ""), *(("--key", key) for key in keys or ())]:
            _check_is_text(option, text)
        single = _content(body, file)
    except CannotStart as error:
        fail(error)

    def message(text: bytes) -> Message:
        return Message(topic, text, tags=tag, keys=keys or (), properties=named, delay_level=delay)

    async def wanted() -> AsyncIterator[Message]:
        if not from_stdin:
            for _ in range(count):
                yield message(single)
            return
        number = 0
        async for line in lines_of_stdin():
            number += 1
            yield (
                from_json(topic, line, number=number, delay_level=delay)
                if json_in
                else message(line)
            )

    addresses = options.known_name_servers(name_servers)
    by_hand = from_stdin and sys.stdin.isatty()
    rate = RateLine("sent", is_shown=sys.stderr.isatty() and not by_hand)

    async def work() -> None:
        async with Producer(_GROUP, namesrv=addresses) as producer, rate.shown():
            if by_hand:
                print(f"Each line is sent to {topic}; Ctrl-D ends.", file=sys.stderr)
            sending = _Sending(producer, queue, rate, shows_each=as_json)
            try:
                async for each in wanted():
                    await sending.send(each)
                await sending.finish()
            finally:
                await sending.count_stored()
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
        if from_stdin or count > 1:
            print(rate.summary(), file=sys.stderr)
        raise
    except (CannotStart, RocketqError, OSError) as error:
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
            await self._collect(asyncio.FIRST_COMPLETED)
        self._pending.add(self._producer.send_soon(message, queue=self._queue))

    async def finish(self) -> None:
        if self._pending:
            await self._collect(asyncio.ALL_COMPLETED)

    async def count_stored(self) -> None:
        """After a failure or Ctrl-C: count what was stored of those on their way."""
        results = await asyncio.gather(*self._pending, return_exceptions=True)
        self._rate.count += sum(isinstance(each, SendResult) for each in results)
        self._pending.clear()

    async def _collect(self, when: str) -> None:
        done, self._pending = await asyncio.wait(self._pending, return_when=when)
        errors = [error for each in done if (error := each.exception()) is not None]
        if errors:  # all have been looked at, so that none is reported as forgotten
            raise errors[0]
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


def _content(body: str | None, file: Path | None) -> bytes:
    """The bytes as they were typed, in whatever encoding the terminal has."""
    if file is None:
        return os.fsencode(body or "")
    try:
        return file.read_bytes()
    except OSError as error:
        raise CannotStart(f"cannot read {file}: {error.strerror}") from None


def _check_is_text(option: str, text: str) -> None:
    """A body may be any bytes; names are text on the wire."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(text).decode(errors="backslashreplace")
        raise CannotStart(f"{option} {shown}: it must be UTF-8 text") from None


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
        _check_is_text("--property", text)
        found[name] = value
    return found

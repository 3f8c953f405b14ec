"""`rocketq tail`: a topic's messages as they come.

Without a group it reads every queue by itself and leaves no trace at the broker. As a member
of a group it shares the queues with the others, and the group's offsets move on.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final

from rocketq.admin import connected, messages
from rocketq.admin.errors import UnknownTopic
from rocketq.admin.messages import QueueRange
from rocketq.cli import options
from rocketq.cli.commands import Argument, Option, command
from rocketq.cli.failures import CannotStart, fail, log_to_stderr
from rocketq.cli.message_text import body_of, data_of, line_of
from rocketq.cli.rate_line import RateLine
from rocketq.cli.serving import run_async
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.consumer.lite.consumer import LitePullConsumer
from rocketq.client.consumer.start_offset import ConsumeFrom
from rocketq.client.consumer.subscription import Expression, Sql
from rocketq.common import json
from rocketq.common.errors import RocketqError
from rocketq.message.flags import PullFlag
from rocketq.message.message import MessageExt
from rocketq.message.names import TOOLS_CONSUMER_GROUP
from rocketq.message.record.reader import decode_records

_HOLD_MS: Final = 15_000
_PULL_TIMEOUT_S: Final = 30.0
_PULL_COUNT: Final = 512
_PULL_BYTES: Final = 1 << 20
_RETRY_S: Final = 1.0
# After this long without a message a group has read all there is.
_NOTHING_MORE_S: Final = 3.0
# Numbers from here on are times in milliseconds, below they are offsets.
_FIRST_TIME_MS: Final = 10**12
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def tail(
    topic: Annotated[str, Argument(metavar="TOPIC", help="What to read.")],
    name_servers: options.NameServers = None,
    start: Annotated[
        str,
        Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest, an offset, a time (2026-01-31T12:00), or 10m: ten minutes ago.",
        ),
    ] = "latest",
    tag: Annotated[
        str | None, Option("--tag", metavar="TAGS", help="Only these: paid || sent")
    ] = None,
    sql: Annotated[
        str | None, Option("--sql", metavar="CONDITION", help="Only where region = 'eu'.")
    ] = None,
    group: Annotated[
        str | None,
        Option("--group", metavar="GROUP", help="As a member of this consumer group."),
    ] = None,
    max_count: Annotated[
        int | None, Option("-c", "--count", metavar="N", minimum=1, help="End after so many.")
    ] = None,
    follow: Annotated[
        bool, Option("--follow/--no-follow", help="Wait for more, or end with the last one.")
    ] = True,
    as_json: options.Json = False,
) -> None:
    """Print a topic's messages as they come.

    On a terminal a line shows when and where a message was stored, its tag and keys, and
    the body; in a pipe it is the body alone, and with --json all of it.

    rocketq tail orders
    rocketq tail orders --from earliest --no-follow --json | jq .body
    rocketq tail orders --sql "region = 'eu' AND total > 100"
    """
    log_to_stderr(0)
    try:
        if tag is not None and sql is not None:
            raise CannotStart("--tag and --sql exclude each other")
        where = _where(start)
    except CannotStart as error:
        fail(error)
    addresses = options.known_name_servers(name_servers)
    expression: Expression = Sql(sql) if sql is not None else (tag or "*")

    async def work() -> None:
        if group is None:
            found = _of_all_queues(addresses, topic, where, expression, follow=follow)
        else:
            found = _of_group(addresses, topic, group, where, expression, follow=follow)
        in_pipe = not sys.stdout.isatty()
        rate = RateLine("read", is_shown=in_pipe and sys.stderr.isatty())
        async with rate.shown(), aclosing(found):
            async for message in found:
                _print(message, as_json=as_json, in_pipe=in_pipe)
                rate.count += 1
                if rate.count == max_count:
                    return

    try:
        run_async(work)
    except KeyboardInterrupt:
        pass  # the usual way to end it
    except BrokenPipeError:
        sys.stderr.close()  # whoever read it has seen enough
    except RocketqError as error:
        fail(error)


run = command(tail)


def _print(message: MessageExt, *, as_json: bool, in_pipe: bool) -> None:
    if as_json:
        line = json.standard_dumps(data_of(message)).decode()
    else:
        line = body_of(message) if in_pipe else line_of(message)
    print(line, flush=True)


# --- where to begin -----------------------------------------------------------------------


class _Where:
    """Where in every queue to begin: one of the two is None, or both for the latest."""

    def __init__(self, offset: int | None = None, time_ms: int | None = None) -> None:
        self.offset = offset
        self.time_ms = time_ms


def _where(text: str) -> _Where:
    """What `--from` means."""
    text = text.strip()
    if text == "latest":
        return _Where()
    if text == "earliest":
        return _Where(offset=0)
    if text.isdecimal():
        number = int(text)
        return _Where(time_ms=number) if number >= _FIRST_TIME_MS else _Where(offset=number)
    if text[-1:] in _UNITS_S and text[:-1].isdecimal():
        ago_s = int(text[:-1]) * _UNITS_S[text[-1]]
        return _Where(time_ms=int((time.time() - ago_s) * 1000))
    try:
        return _Where(time_ms=int(datetime.fromisoformat(text).timestamp() * 1000))
    except ValueError:
        raise CannotStart(
            f"--from {text}: it is earliest, latest, an offset, a time like 2026-01-31T12:00, "
            "or 10m for ten minutes ago"
        ) from None


_Arrived = list[MessageExt] | RocketqError | None

# --- without a group ----------------------------------------------------------------------


async def _of_all_queues(
    name_servers: str,
    topic: str,
    where: _Where,
    expression: Expression,
    *,
    follow: bool,
) -> AsyncGenerator[MessageExt, None]:
    async with connected(name_servers) as api:
        parts = await _parts(api, topic, where, follow=follow)
        arrived: asyncio.Queue[_Arrived] = asyncio.Queue(maxsize=len(parts))
        readers = [
            asyncio.create_task(_read(api, part, expression, arrived, follow=follow))
            for part in parts
        ]
        try:
            at_work = len(readers)
            while at_work:
                batch = await arrived.get()
                if batch is None:
                    at_work -= 1
                elif isinstance(batch, RocketqError):
                    raise batch
                else:
                    for message in batch:
                        yield message
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def _parts(api: BrokerApi, topic: str, where: _Where, *, follow: bool) -> list[QueueRange]:
    """The queues and where to begin in each; a topic that does not exist yet is waited for."""
    waiting = False
    while True:
        try:
            parts = await messages.ranges(api, topic)
            break
        except UnknownTopic as error:
            if not follow:
                raise
            if not waiting:
                print(f"rocketq: {error} yet; waiting for one", file=sys.stderr)
                waiting = True
            await asyncio.sleep(_RETRY_S)
    # Whoever waited for a topic wants what made it come into being.
    begin = _Where(offset=0) if waiting else where
    return [await _beginning(api, part, begin) for part in parts]


async def _beginning(api: BrokerApi, part: QueueRange, where: _Where) -> QueueRange:
    if where.time_ms is not None:
        offset = await api.search_offset(part.address, part.queue, where.time_ms)
    elif where.offset is not None:
        offset = where.offset
    else:
        offset = part.end
    return replace(part, begin=min(max(offset, part.begin), part.end))


async def _read(
    api: BrokerApi,
    part: QueueRange,
    expression: Expression,
    arrived: asyncio.Queue[_Arrived],
    *,
    follow: bool,
) -> None:
    """Read one queue and hand on its messages; at its end None, or why it came so soon."""
    try:
        await _read_on(api, part, expression, arrived, follow=follow)
    except RocketqError as error:
        await arrived.put(error)
    else:
        await arrived.put(None)


async def _read_on(
    api: BrokerApi,
    part: QueueRange,
    expression: Expression,
    arrived: asyncio.Queue[_Arrived],
    *,
    follow: bool,
) -> None:
    """Read one queue: to its end as it was at the beginning, or for ever."""
    is_sql = isinstance(expression, Sql)
    text = expression.condition if isinstance(expression, Sql) else expression
    tags = set() if is_sql or text == "*" else {each.strip() for each in text.split("||")}
    offset = part.begin
    while follow or offset < part.end:
        try:
            response = await api.pull(
                part.address,
                group=TOOLS_CONSUMER_GROUP,
                queue=part.queue,
                offset=offset,
                max_messages=_PULL_COUNT,
                max_bytes=_PULL_BYTES,
                flags=PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if follow else 0),
                suspend_ms=_HOLD_MS if follow else 0,
                subscription=text,
                expression_type="SQL92" if is_sql else "TAG",
                timeout_s=_PULL_TIMEOUT_S,
            )
        except RocketqError as error:
            if not (follow and error.retriable):
                raise
            await asyncio.sleep(_RETRY_S)
            continue
        if response.code == 0:
            batch = decode_records(response.body, part.queue.broker_name)
            # The broker selects by the hash of a tag; the tag itself is compared here.
            wanted = [m for m in batch if not tags or m.tags in tags]
            if not follow:
                wanted = [m for m in wanted if m.queue_offset < part.end]
            if wanted:
                await arrived.put(wanted)
        elif not follow and response.next_offset <= offset:
            break
        offset = response.next_offset


# --- as a member of a group ---------------------------------------------------------------


async def _of_group(
    name_servers: str,
    topic: str,
    group: str,
    where: _Where,
    expression: Expression,
    *,
    follow: bool,
) -> AsyncGenerator[MessageExt, None]:
    """A group goes on where it is; `where` is for a group that has not read the topic yet."""
    begin = ConsumeFrom.LAST
    if where.time_ms is not None:
        begin = ConsumeFrom.TIMESTAMP
    elif where.offset is not None:
        begin = ConsumeFrom.FIRST
    consumer = LitePullConsumer(
        group,
        topics={topic: expression},
        consume_from=begin,
        consume_timestamp=where.time_ms,
        namesrv=name_servers,
    )
    async with consumer:
        while True:
            found = await consumer.poll(timeout_s=_NOTHING_MORE_S)
            if not found and not follow:
                return
            for message in found:
                yield message

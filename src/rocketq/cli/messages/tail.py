"""`rocketq tail`: topics' messages as they come.

Without a group it reads every queue by itself and leaves no trace at the broker. As a member
of a group it shares the queues with the others, and the group's offsets move on.
"""

import asyncio
import os
import stat
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Annotated, Final

from rocketq.admin import connected
from rocketq.cli import options
from rocketq.cli.commands import Argument, Option, command
from rocketq.cli.failures import CannotStart, fail, log_to_stderr
from rocketq.cli.messages.rate_line import RateLine
from rocketq.cli.messages.text import Text, json_of, line_of, raw_body, template
from rocketq.cli.messages.topic_reader import Batch, TopicReader, Where
from rocketq.cli.servers.serving import run_async
from rocketq.client.consumer.lite.consumer import LitePullConsumer
from rocketq.client.consumer.start_offset import ConsumeFrom
from rocketq.client.consumer.subscription import Expression, Sql
from rocketq.common.errors import RocketqError

# After this long without a message a group has read all there is.
_NOTHING_MORE_S: Final = 3.0
# Numbers from here on are times in milliseconds, below they are offsets.
_FIRST_TIME_MS: Final = 10**12
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def tail(
    topics: Annotated[
        list[str],
        Argument(metavar="TOPIC", help="What to read; several, or patterns like 'orders-*'."),
    ],
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
        int | None, Option("-c", "--count", metavar="N", minimum=1, help="End after N messages.")
    ] = None,
    follow: Annotated[
        bool, Option("--follow/--no-follow", help="Wait for more, or end with the last one.")
    ] = True,
    layout: Annotated[
        str | None,
        Option(
            "--format",
            metavar="TEXT",
            help=r"How to print a message, like '{offset}\t{tag}\t{body}'. There are topic,"
            " broker, queue, offset, id, tag, keys, body, stored, born, retries and"
            " properties[NAME].",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print topics' messages as they come.

    On a terminal a line shows when and where a message was stored, its tag and keys, and
    the body; in a pipe it is the body alone, byte for byte, and with --json all of it. What
    is there already comes in the order in which it was stored, whatever its queue.

    rocketq tail orders
    rocketq tail orders --from earliest --no-follow --json | jq .body
    rocketq tail 'orders-*' payments --format '{stored} {topic} {keys} {body}'
    rocketq tail orders --sql "region = 'eu' AND total > 100"
    """
    log_to_stderr(0)
    try:
        if tag is not None and sql is not None:
            raise CannotStart("--tag and --sql exclude each other")
        if layout is not None and as_json:
            raise CannotStart("--format and --json exclude each other")
        if group is not None and any(mark in topic for topic in topics for mark in "*?["):
            raise CannotStart("a group needs topics by their names, without * and ?")
        where = start_of(start)
        show = _text(layout, as_json=as_json)
    except CannotStart as error:
        fail(error)
    addresses = options.known_name_servers(name_servers)
    expression: Expression = Sql(sql) if sql is not None else (tag or "*")

    async def work() -> None:
        if group is None:
            found = _of_all_queues(addresses, topics, where, expression, follow=follow)
        else:
            found = _of_group(addresses, topics, group, where, expression, follow=follow)
        rate = RateLine("read", is_shown=sys.stderr.isatty() and not sys.stdout.isatty())
        out = sys.stdout.buffer
        async with rate.shown(), aclosing(found), _ended_by_its_reader(out.fileno()):
            async for batch in found:
                if max_count is not None:
                    batch = batch[: max_count - rate.count]
                out.write(b"".join(map(show, batch)))
                out.flush()
                rate.count += len(batch)
                if rate.count == max_count:
                    return

    try:
        run_async(work, second_code=0)
    except KeyboardInterrupt:
        pass  # the usual way to end it
    except BrokenPipeError:
        sys.stderr.close()  # whoever read it has seen enough
    except RocketqError as error:
        fail(error)


run = command(tail)


def _text(layout: str | None, *, as_json: bool) -> Text:
    """How a message is printed."""
    if layout is not None:
        return template(layout)
    if as_json:
        return json_of
    return line_of if sys.stdout.isatty() else raw_body


@asynccontextmanager
async def _ended_by_its_reader(out: int) -> AsyncIterator[None]:
    """Leave the block when nobody reads what is printed any more, as after `| head`.

    Writing would say so, but the next message may be long in coming.
    """
    if not stat.S_ISFIFO(os.fstat(out).st_mode):
        yield
        return
    loop, task, has_left = asyncio.get_running_loop(), asyncio.current_task(), False
    assert task is not None

    def leave() -> None:
        nonlocal has_left
        has_left = True
        loop.remove_reader(out)
        task.cancel()

    loop.add_reader(out, leave)  # the end that is written to is "readable" when it is broken
    try:
        yield
    except asyncio.CancelledError:
        if has_left:
            raise BrokenPipeError from None
        raise
    finally:
        loop.remove_reader(out)


def start_of(text: str, option: str = "--from") -> Where:
    """What `--from` means."""
    text = text.strip()
    if text == "latest":
        return Where()
    if text == "earliest":
        return Where(offset=0)
    if text.isdecimal():
        number = int(text)
        return Where(time_ms=number) if number >= _FIRST_TIME_MS else Where(offset=number)
    if text[-1:] in _UNITS_S and text[:-1].isdecimal():
        ago_s = int(text[:-1]) * _UNITS_S[text[-1]]
        return Where(time_ms=int((time.time() - ago_s) * 1000))
    try:
        return Where(time_ms=int(datetime.fromisoformat(text).timestamp() * 1000))
    except ValueError:
        raise CannotStart(
            f"{option} {text}: it is earliest, latest, an offset, a time like 2026-01-31T12:00, "
            "or 10m for ten minutes ago"
        ) from None


async def _of_all_queues(
    name_servers: str, topics: list[str], where: Where, expression: Expression, *, follow: bool
) -> AsyncGenerator[Batch, None]:
    async with connected(name_servers) as api:
        reader = TopicReader(api, topics, where, expression)
        async with aclosing(reader.read(follow=follow)) as found:
            async for batch in found:
                yield batch


async def _of_group(
    name_servers: str,
    topics: list[str],
    group: str,
    where: Where,
    expression: Expression,
    *,
    follow: bool,
) -> AsyncGenerator[Batch, None]:
    """A group continues where it is; `where` is for a group that has not read the topic yet."""
    begin = ConsumeFrom.LAST
    if where.time_ms is not None:
        begin = ConsumeFrom.TIMESTAMP
    elif where.offset is not None:
        begin = ConsumeFrom.FIRST
    consumer = LitePullConsumer(
        group,
        topics=dict.fromkeys(topics, expression),
        consume_from=begin,
        consume_timestamp=where.time_ms,
        namesrv=name_servers,
    )
    async with consumer:
        while True:
            found = await consumer.poll(timeout_s=_NOTHING_MORE_S)
            if found:
                yield list(found)
            elif not follow:
                return

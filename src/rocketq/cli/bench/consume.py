"""`rocketq bench consume`: how fast a cluster hands out a backlog."""

from contextlib import AsyncExitStack
from typing import Annotated, Final

from rocketq.cli import options
from rocketq.cli.bench import options as bench_options
from rocketq.cli.bench.arriving import Backlog
from rocketq.cli.bench.options import measure, topic_names
from rocketq.cli.bench.preparing import backlog, temporary_group
from rocketq.cli.bench.tally import Budget, Tally
from rocketq.cli.commands import Option

_MODES: Final = ("push", "pull")


def consume(
    topic: bench_options.Topic = bench_options.DEFAULT_TOPIC,
    name_servers: options.NameServers = None,
    mode: Annotated[
        str, Option("--mode", metavar="MODE", choices=_MODES, help="push or pull.")
    ] = "push",
    group: Annotated[
        str | None,
        Option("--group", metavar="GROUP", help="Go on where this group is; else from the start."),
    ] = None,
    count: bench_options.Count = None,
    seconds: bench_options.Seconds = None,
    topics: bench_options.TopicCount = 1,
    batch: Annotated[
        int, Option("--batch", metavar="N", minimum=1, help="Messages a call or a poll gets.")
    ] = 512,
    workers: Annotated[
        int, Option("--workers", metavar="N", minimum=1, help="push: how many calls at a time.")
    ] = 20,
    as_json: options.Json = False,
) -> None:
    """Consume what there is, and say how fast that goes.

    push     a listener gets lists of messages
    pull     the program polls for them

    It ends when it has caught up with what was there at the beginning, after --count
    messages or after --seconds, whichever comes first.

    rocketq bench produce --count 1000000 && rocketq bench consume
    rocketq bench consume orders --mode pull --json
    """
    addresses = options.known_name_servers(name_servers)
    names = topic_names(topic, topics)
    tally = Tally("consumed")

    async def work() -> None:
        expected = await backlog(addresses, names, group)
        if count is not None:
            expected = min(expected, count)
        load = Backlog(expected, Budget(None, seconds), tally)
        async with AsyncExitStack() as stack:
            member_of = group
            if member_of is None:
                member_of = await stack.enter_async_context(temporary_group(addresses))
            tally.begin()
            if mode == "push":
                await load.push(addresses, names, member_of, batch, workers)
            else:
                await load.pull(addresses, names, member_of, batch)

    facts = {"mode": mode, "topic": topic, "topics": topics}
    measure("consume", [tally], work, facts=facts, as_json=as_json)

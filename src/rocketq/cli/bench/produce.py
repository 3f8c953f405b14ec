"""`rocketq bench produce`: how many messages a cluster takes."""

import asyncio
from typing import Annotated, Final

from rocketq.cli import options
from rocketq.cli.bench import options as bench_options
from rocketq.cli.bench.options import measure, topic_names
from rocketq.cli.bench.preparing import make_topics
from rocketq.cli.bench.sending import Sender, same_body, warm_producer
from rocketq.cli.bench.tally import Budget, Tally
from rocketq.cli.commands import Option

_MODES: Final = ("async", "sync", "batch", "oneway")


def produce(
    topic: bench_options.Topic = bench_options.DEFAULT_TOPIC,
    name_servers: options.NameServers = None,
    mode: Annotated[
        str, Option("--mode", metavar="MODE", choices=_MODES, help="async, sync, batch or oneway.")
    ] = "async",
    size: bench_options.Size = 128,
    count: bench_options.Count = None,
    seconds: bench_options.Seconds = None,
    topics: bench_options.TopicCount = 1,
    queues: bench_options.Queues = None,
    in_flight: bench_options.InFlight = 4_000,
    workers: Annotated[
        int,
        Option("--workers", metavar="N", minimum=1, help="sync, batch: N senders at a time."),
    ] = 64,
    batch: Annotated[
        int, Option("--batch", metavar="N", minimum=1, help="batch: messages in a request.")
    ] = 32,
    as_json: options.Json = False,
) -> None:
    """Send as fast as it goes, and say how fast that is.

    async    up to --in-flight messages are on their way at any time
    sync     --workers senders, each waits for a receipt before it sends again
    batch    --workers senders, each waits for a receipt of --batch messages
    oneway   without receipts; what is counted was handed to the connection

    It ends after --count messages or --seconds, after 10 seconds if neither is given.

    rocketq bench produce
    rocketq bench produce --mode sync --workers 8 --size 1024 --seconds 30
    rocketq bench produce orders --topics 100 --queues 8 --count 1000000 --json
    """
    if count is None and seconds is None:
        seconds = bench_options.DEFAULT_SECONDS
    addresses = options.known_name_servers(name_servers)
    names = topic_names(topic, topics)
    tally, budget = Tally("produced"), Budget(count, seconds)

    async def work() -> None:
        await make_topics(addresses, names, queues)
        async with warm_producer(addresses, names, in_flight) as producer:
            sender = Sender(producer, names, same_body(size), tally)
            budget.begin()
            tally.begin()
            if mode == "async":
                await sender.flood(budget, in_flight)
            elif mode == "sync":
                await asyncio.gather(*(sender.one_by_one(budget) for _ in range(workers)))
            elif mode == "batch":
                await asyncio.gather(*(sender.batches(budget, batch) for _ in range(workers)))
            else:
                await sender.oneway(budget)
            tally.end()

    facts = {"mode": mode, "topic": topic, "topics": topics, "size": size}
    measure("produce", [tally], work, facts=facts, as_json=as_json)

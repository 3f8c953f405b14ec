"""`rocketq bench latency`: how long a message takes at a given pace."""

from typing import Annotated

from rocketq.cli import options
from rocketq.cli.bench import options as bench_options
from rocketq.cli.bench.exchange import exchange
from rocketq.cli.bench.options import measure, topic_names
from rocketq.cli.bench.tally import Budget, Tally
from rocketq.cli.commands import Option


def latency(
    topic: bench_options.Topic = bench_options.DEFAULT_TOPIC,
    name_servers: options.NameServers = None,
    rate: Annotated[
        int, Option("--rate", metavar="N", minimum=1, help="Messages per second.")
    ] = 1_000,
    size: bench_options.Size = 128,
    count: bench_options.Count = None,
    seconds: bench_options.Seconds = None,
    topics: bench_options.TopicCount = 1,
    queues: bench_options.Queues = None,
    in_flight: bench_options.InFlight = 10_000,
    end_to_end: Annotated[
        bool, Option("--e2e/--no-e2e", help="Consume them, and measure until they arrive.")
    ] = True,
    as_json: options.Json = False,
) -> None:
    """Send at a steady pace, and say how long messages take.

    Each message has a moment at which it should be sent, and its time runs from there:
    to the receipt (produced) and to the consumer (consumed). When the system is slow for
    a while, the messages that had to wait show it.

    It ends after --count messages or --seconds, after 10 seconds if neither is given.

    rocketq bench latency --rate 2000 --seconds 60
    rocketq bench latency --rate 100 --size 4096 --no-e2e --json
    """
    if count is None and seconds is None:
        seconds = bench_options.DEFAULT_SECONDS
    addresses = options.known_name_servers(name_servers)
    names = topic_names(topic, topics)
    sent, arrived = Tally("produced"), Tally("consumed")

    async def work() -> None:
        await exchange(
            addresses,
            names,
            sent,
            arrived,
            Budget(count, seconds),
            queues=queues,
            size=size,
            in_flight=in_flight,
            rate=rate,
            groups=1 if end_to_end else 0,
        )

    facts = {"rate": rate, "topic": topic, "topics": topics, "size": size}
    tallies = [sent, arrived] if end_to_end else [sent]
    measure("latency", tallies, work, facts=facts, as_json=as_json)

"""`rocketq bench mixed`: producers and consumers at the same time."""

from typing import Annotated

from rocketq.cli import options
from rocketq.cli.bench import options as bench_options
from rocketq.cli.bench.exchange import exchange
from rocketq.cli.bench.options import measure, topic_names
from rocketq.cli.bench.tally import Budget, Tally
from rocketq.cli.commands import Option


def mixed(
    topic: bench_options.Topic = bench_options.DEFAULT_TOPIC,
    name_servers: options.NameServers = None,
    rate: Annotated[
        int | None,
        Option(
            "--rate",
            metavar="N",
            minimum=1,
            help="Messages per second; else all it can.",
        ),
    ] = None,
    size: bench_options.Size = 128,
    count: bench_options.Count = None,
    seconds: bench_options.Seconds = None,
    topics: bench_options.TopicCount = 1,
    queues: bench_options.Queues = None,
    in_flight: bench_options.InFlight = 1_000,
    groups: Annotated[
        int,
        Option("--groups", metavar="N", minimum=1, help="So many groups, each gets everything."),
    ] = 1,
    as_json: options.Json = False,
) -> None:
    """Send and consume at the same time, as systems at work do.

    Without --rate the sender is as fast as it can be with --in-flight messages on their
    way. Every message is consumed once by each of --groups, and the time it took until
    then is measured; what was sent and does not arrive is an error.

    It ends after --count messages or --seconds, after 10 seconds if neither is given.

    rocketq bench mixed --seconds 30
    rocketq bench mixed --rate 5000 --groups 3 --json
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
            groups=groups,
        )

    facts = {"rate": rate, "topic": topic, "topics": topics, "size": size, "groups": groups}
    measure("mixed", [sent, arrived], work, facts=facts, as_json=as_json)

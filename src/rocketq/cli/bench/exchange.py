"""Messages that are sent and consumed at the same time: what `latency` and `mixed` do."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from rocketq.cli.bench.arriving import Arrivals
from rocketq.cli.bench.preparing import make_topics, temporary_group
from rocketq.cli.bench.sending import Sender, warm_producer
from rocketq.cli.bench.tally import Budget, Tally


async def exchange(
    name_servers: str,
    topics: Sequence[str],
    sent: Tally,
    arrived: Tally,
    budget: Budget,
    *,
    queues: int | None,
    size: int,
    in_flight: int,
    rate: int | None,
    groups: int,
) -> None:
    """Send until the budget ends, at a pace or as fast as it goes; wait for what has to arrive.

    Each of the groups consumes every message.
    """
    await make_topics(name_servers, topics, queues)
    arrivals = Arrivals(arrived)
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(warm_producer(name_servers, topics, in_flight))
        for _ in range(groups):
            group = await stack.enter_async_context(temporary_group(name_servers, topics))
            await stack.enter_async_context(arrivals.consuming(name_servers, topics, group))
        sender = Sender(producer, topics, arrivals.make_body(size), sent)
        budget.begin()
        for tally in (sent, arrived):
            tally.begin()
        if rate is None:
            await sender.flood(budget, in_flight)
        else:
            await sender.pace(budget, in_flight, rate)
        sent.end()
        if groups:
            await arrivals.all_of(lambda: sent.messages * groups)

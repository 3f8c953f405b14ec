"""How a sub-command of `rocketq admin` is declared.

    @command("topicClusterList")
    async def topic_cluster_list(api: BrokerApi, topic: Topic) -> Report:
        \"""Get cluster info for topic.\"""
        clusters = await topics.clusters_of(api, topic)
        return Report(clusters, clusters)

The function is handed the RPC layer and its own options. What every sub-command has (`-n`,
`--json`, `-h`), the connection, the printing and the failing are added here, once.
"""

import asyncio
import functools
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from rocketq.admin import connected
from rocketq.cli import options
from rocketq.cli.commands import Option, UsageError
from rocketq.cli.failures import explained, fail, log_to_stderr
from rocketq.cli.servers.serving import run_async
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common import json
from rocketq.common.errors import RocketqError

F = TypeVar("F", bound=Callable[..., "Awaitable[Report] | AsyncIterator[Report]"])


@dataclass(frozen=True, slots=True)
class Report:
    """What a sub-command found: plain data for `--json`, lines of text for people."""

    data: Any
    lines: Iterable[str]


TABLE: dict[str, Callable[..., None]] = {}
"""All sub-commands by name, in the order in which they were declared."""


def command(name: str) -> Callable[[F], F]:
    """Declare a sub-command under RocketMQ's name."""

    def declare(function: F) -> F:
        TABLE[name] = with_connection(function, complaint=f"{name} failed: ")
        return function

    return declare


def with_connection(
    function: Callable[..., Awaitable[Report] | AsyncIterator[Report]], *, complaint: str = ""
) -> Callable[..., None]:
    """The function as a command: blocking, with the shared options in its signature.

    One that looks again and again is an asynchronous generator: each report is shown when it
    is there, as JSON on a line of its own.
    """

    @functools.wraps(function)
    def call(*, name_servers: str | None, as_json: bool, **own: Any) -> None:
        async def work() -> None:
            async with connected(options.known_name_servers(name_servers)) as api:
                found = function(api, **own)
                if isinstance(found, AsyncIterator):
                    async for report in found:
                        show(report, as_json=as_json)
                        sys.stdout.flush()
                else:
                    show(await found, as_json=as_json)

        log_to_stderr(-1)  # what goes wrong is said once, at the end
        try:
            run_async(work)
        except RocketqError as error:
            fail(f"{complaint}{explained(error)}")

    signature = inspect.signature(function)
    first, *own_parameters = signature.parameters.values()
    assert first.annotation is BrokerApi, function
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter("name_servers", keyword, default=None, annotation=options.NameServers),
        inspect.Parameter("as_json", keyword, default=False, annotation=options.Json),
    ]
    parameters = [*(each.replace(kind=keyword) for each in own_parameters), *shared]
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=parameters, return_annotation=None
    )
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def show(report: Report, *, as_json: bool) -> None:
    if as_json:
        print(json.standard_dumps(report.data).decode())
    else:
        for line in report.lines:
            print(line)


# Options that many sub-commands have

Topic = Annotated[str, Option("-t", "--topic", "--topicName", metavar="TOPIC", help="The topic.")]
Group = Annotated[
    str,
    Option(
        *("-g", "--groupName", "--group", "--consumerGroup"),
        metavar="GROUP",
        help="The consumer group.",
    ),
]
BrokerAddress = Annotated[
    str | None,
    Option("-b", "--brokerAddr", metavar="HOST:PORT", help="One broker, by its address."),
]
Cluster = Annotated[
    str | None,
    Option("-c", "--clusterName", "--cluster", metavar="CLUSTER", help="Brokers of a cluster."),
]
RouteCluster = Annotated[str | None, Option("-c", "--cluster", metavar="CLUSTER", hidden=True)]


async def again_and_again(
    look: Callable[[], Awaitable[Report]], interval_s: float, rounds: int = 0
) -> AsyncIterator[Report]:
    """A report, and another one after each pause; 0 rounds never end."""
    done = 0
    while True:
        yield await look()
        done += 1
        if done == rounds:
            return
        await asyncio.sleep(interval_s)


Interval = Annotated[
    int | None,
    Option(
        "-i", "--interval", metavar="SECONDS", minimum=1, help="Again and again, so often. [once]"
    ),
]
Rounds = Annotated[
    int, Option("--rounds", metavar="N", minimum=0, help="End after N rounds; 0 never ends.")
]


def either(broker: str | None, cluster: str | None) -> None:
    """Refuse a request that names neither a broker nor a cluster."""
    if not broker and not cluster:
        raise UsageError("Missing required option: one of -b (a broker) and -c (a cluster)")


def flag(text: str | None, default: bool = False) -> bool:
    """RocketMQ's switches take a word: only `true` is true."""
    return default if text is None else text.strip().lower() == "true"

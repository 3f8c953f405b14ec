"""Rows as aligned text, and what several of the short commands share."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from rocketq.admin.cluster import brokers
from rocketq.admin.errors import AdminError
from rocketq.cli.admin.command import Report, with_connection
from rocketq.cli.commands import Argument, Option, Run, group
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.message.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

TopicName = Annotated[str, Argument(metavar="TOPIC", help="The topic.")]
GroupName = Annotated[str, Argument(metavar="GROUP", help="The consumer group.")]
ClusterName = Annotated[
    str | None,
    Option("--cluster", metavar="NAME", help="Which cluster; needed where there are several."),
]
Everything = Annotated[
    bool, Option("-a", "--all", help="Show what RocketMQ keeps for itself, too.")
]


def commands(
    description: str,
    table: Mapping[str, Callable[..., Awaitable[Report]]],
    others: Mapping[str, Callable[..., None]] | None = None,
) -> Run:
    """A group of short commands; `others` connect and print by themselves."""
    connected = {name: with_connection(function) for name, function in table.items()}
    return group(description, {**connected, **(others or {})})


def rows(titles: Sequence[str], values: Iterable[Sequence[object]]) -> list[str]:
    """Columns as wide as they need to be; numbers stand to the right."""
    lines = [list(titles)] + [[_text(each) for each in row] for row in values]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rights = [
        len(lines) > 1 and all(_is_number(line[i]) for line in lines[1:])
        for i in range(len(titles))
    ]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, rights, strict=True)
        ).rstrip()
        for line in lines
    ]


def listed(titles: Sequence[str], values: Sequence[Sequence[object]]) -> Report:
    """The same as text and as data: an object for each row."""
    keys = [title.lower().replace(" ", "_") for title in titles]
    data: list[dict[str, Any]] = [dict(zip(keys, row, strict=True)) for row in values]
    return Report(data, rows([title.upper() for title in titles], values))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value in (None, "") else str(value)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").isdecimal() or text == "-"


def moment(milliseconds: int) -> str:
    """A time as people write it; nothing for 0."""
    if milliseconds <= 0:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def is_hidden(topic: str, clusters: Iterable[str] = ()) -> bool:
    """Whether a topic is RocketMQ's own rather than somebody's."""
    if is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return True
    return topic in clusters or topic.endswith("_REPLY_TOPIC")


async def the_cluster(api: BrokerApi, wanted: str | None) -> str:
    """The one that is meant: named, or the only one."""
    known = await brokers.clusters(api)
    if wanted is not None and wanted in known:
        return wanted
    if wanted is None and len(known) == 1:
        return known[0]
    if not known:
        raise AdminError("no broker is registered")
    raise AdminError(f"say which cluster with --cluster: there is {', '.join(known)}")


async def own_names(api: BrokerApi) -> set[str]:
    """Topics named after clusters and brokers: every broker makes them for itself."""
    info = await api.cluster_info()
    return {*info.cluster_addr_table, *info.broker_addr_table}

"""Large tables in pages, as RocketMQ 5.5 asks for them.

A reader names the version of the table it has begun to read and how many entries it holds
already. When the table has changed in between, the pages no longer fit together, and it
gets the first one again together with the new version; by that it knows.

A page is one entry longer where that is the last of all: a slave of RocketMQ 5.5 stops asking
when it lacks one entry, and would delete it from its own table.
"""

from collections.abc import Mapping
from typing import TypeVar

from rocketq.common import json
from rocketq.remoting.bodies.registration import DataVersion

T = TypeVar("T")


def page_of(
    table: Mapping[str, T],
    version: DataVersion,
    *,
    first: int | None,
    count: int | None,
    read_version: str | None,
) -> dict[str, T]:
    """The part of a table that was asked for; all of it when no part was."""
    if first is None or count is None or count <= 0:
        return dict(table)
    begin = first if _is_same(read_version, version) else 0
    if begin + count == len(table) - 1:
        count += 1
    names = sorted(table)[begin : begin + count]
    return {name: table[name] for name in names}


def _is_same(read_version: str | None, version: DataVersion) -> bool:
    if not read_version:
        return False
    try:
        stated = json.loads(read_version, json.HEADER_LIMITS)
    except json.JsonError:
        return False
    return isinstance(stated, Mapping) and DataVersion.from_json(stated) == version

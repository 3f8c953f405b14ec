"""Streaming queries of Spark, as far as they report where they are.

A query with the option `groupId` tells brokers its offsets after every batch, and is never a
member of that group. So what moves without members is a query.
"""

import time
from typing import Final

from rocketq.console.catalog import GroupEntry, subscribed
from rocketq.console.view import View, link
from rocketq.console.widgets import formats
from rocketq.console.widgets.frame import page
from rocketq.console.widgets.parts import card
from rocketq.console.widgets.table import Ask, Column, DataTable, Found, Row, page_of

_REFRESH_S: Final = 10.0
_MOST_ASKED: Final = 500


async def build(view: View) -> None:
    t = view.t
    note = t("Queries that report their progress with the option groupId")
    with page(view, "Spark", note=note) as this, card():
        table = DataTable(
            t,
            [
                Column(name="group", title=t("Group"), kind="link", sortable=True, cut=True),
                Column(name="state", title=t("State"), kind="state", sortable=True),
                Column(name="rate", title=t("Read /s"), kind="number", sortable=True),
                Column(name="behind", title=t("Lag"), kind="number", sortable=True),
                Column(name="left", title=t("Left at this rate"), kind="number", minor=True),
                Column(name="last", title=t("Read up to"), sortable=True, minor=True),
                Column(name="topics", title=t("Topics"), cut=True, minor=True),
            ],
            lambda ask: _find(view, ask),
            mark="queries",
            sort_by="rate",
            descending=True,
            empty=t("No query reports its progress"),
        )
        this.every(_REFRESH_S, table.refresh)


async def _find(view: View, ask: Ask) -> Found:
    groups = await view.collector.groups.get(_REFRESH_S)
    reporting = [each for each in groups.values() if each.read > 0 and not each.is_system][
        :_MOST_ASKED
    ]
    members = await view.collector.members_of((each.name for each in reporting), 3 * _REFRESH_S)
    rows = [
        _row(view, entry)
        for entry, connection in zip(reporting, members, strict=True)
        if connection is None or not connection.connection_set
    ]
    return page_of(rows, ask)


def _row(view: View, entry: GroupEntry) -> Row:
    t = view.t
    rate = view.collector.history.read_rate(entry.name, time.time())
    if rate > 0:
        word, tone = t("moves"), "good"
    elif entry.behind <= 0:
        word, tone = t("has read everything"), "info"
    else:
        word, tone = t("stands still"), "warn"
    left = formats.duration(entry.behind / rate * 1000) if rate > 0 else "–"
    return {
        "key": entry.name,
        "group": entry.name,
        "group__href": link("/group", name=entry.name),
        "state": word,
        "state__tone": tone,
        "rate": formats.number(rate),
        "rate__sort": rate,
        "behind": formats.number(entry.behind),
        "behind__sort": entry.behind,
        "left": left,
        "last": formats.moment(entry.last_time),
        "topics": ", ".join(subscribed(entry)),
    }

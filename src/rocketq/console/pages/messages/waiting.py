"""What waits: messages with a delay, timed ones, and transactions nobody has decided."""

import time
from collections.abc import Mapping
from typing import Final

from rocketq.admin import waiting
from rocketq.admin.cluster import brokers
from rocketq.admin.cluster.brokers import MASTER_ID
from rocketq.common.errors import RocketqError
from rocketq.common.numbers import parse_int64
from rocketq.console.pages.messages.messages import message_link, short_id
from rocketq.console.view import View, link
from rocketq.console.widgets import formats
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import Figure, card, grid
from rocketq.console.widgets.table import Ask, Column, DataTable, Found, Row, page_of
from rocketq.message.message import MessageExt
from rocketq.message.names import SCHEDULE_TOPIC
from rocketq.message.properties.codec import PropertyName

_REFRESH_S: Final = 10.0
_LEVEL: Final = "scheduleMessageOffset_"


async def build(view: View) -> None:
    t = view.t
    with page(view, t("Delayed and undecided")) as this:
        shown = _Waiting(this)
        with grid("r-figures"):
            shown.figures()
        with grid("r-two"):
            with card(t("Delay levels")):
                shown.levels()
            with card(t("Timed messages")):
                shown.timed()
        with card(t("Undecided transactions")):
            shown.transactions()
        this.every(_REFRESH_S, shown.refresh)


class _Waiting:
    def __init__(self, this: Page) -> None:
        self._view = this.view
        self._levels: list[Row] = []
        self._timed: list[Row] = []
        self._undecided: list[MessageExt] = []

    def figures(self) -> None:
        t = self._view.t
        self._delayed = Figure(
            t("Delayed"), "figure-delayed", href=link("/messages", topic=SCHEDULE_TOPIC)
        )
        self._timers = Figure(t("Timed"), "figure-timed")
        self._late = Figure(t("Timers behind"), "figure-late")
        self._open = Figure(t("Undecided"), "figure-undecided")

    def levels(self) -> None:
        t = self._view.t
        self._level_table = DataTable(
            t,
            [
                Column(name="broker", title=t("Broker")),
                Column(name="level", title=t("Level"), kind="number"),
                Column(name="delay", title=t("Delay"), kind="number"),
                Column(name="waiting", title=t("Waiting"), kind="number"),
                Column(name="done", title=t("Delivered"), kind="number", minor=True),
            ],
            self._find_levels,
            mark="levels",
            empty=t("No level was ever used"),
        )

    def timed(self) -> None:
        t = self._view.t
        self._timed_table = DataTable(
            t,
            [
                Column(name="topic", title=t("Topic"), kind="link", cut=True),
                Column(name="broker", title=t("Broker"), minor=True),
                Column(name="count", title=t("Waiting"), kind="number"),
                Column(name="changed", title=t("Changed"), minor=True),
            ],
            self._find_timed,
            mark="timed",
            empty=t("No timed message waits"),
        )

    def transactions(self) -> None:
        t = self._view.t
        self._transaction_table = DataTable(
            t,
            [
                Column(name="stored", title=t("Stored"), sortable=True),
                Column(name="age", title=t("Age"), minor=True),
                Column(name="id", title=t("Message id"), kind="link"),
                Column(name="topic", title=t("Topic"), cut=True),
                Column(name="group", title=t("Producer group"), cut=True),
                Column(name="checks", title=t("Asked"), kind="number", minor=True),
            ],
            self._find_transactions,
            mark="transactions",
            empty=t("Every transaction is decided"),
        )

    # Data

    async def refresh(self) -> None:
        view = self._view
        states = await view.collector.brokers.get(_REFRESH_S / 2)
        masters = [each for each in states if each.broker_id == MASTER_ID and each.runtime]
        self._levels, self._timed = [], []
        late = 0.0
        for state in masters:
            delays = await _delays(view, state.address)
            self._levels += _levels(state.broker_name, state.runtime, delays)
            late = max(late, state.number("timerReadBehind"))
            metrics = await waiting.timed(view.api, state.address)
            self._timed += [
                {
                    "key": f"{state.broker_name} {topic}",
                    "topic": topic,
                    "topic__href": link("/topic", name=topic),
                    "broker": state.broker_name,
                    "count": each.count,
                    "changed": formats.moment(each.time_stamp),
                }
                for topic, each in sorted(metrics.timing_count.items() if metrics else ())
                if each.count > 0
            ]
        found = await waiting.undecided(view.api)
        self._undecided = list(found.messages)
        delayed = sum(row["waiting"] for row in self._levels)
        self._delayed.show(formats.number(delayed))
        self._timers.show(formats.number(sum(row["count"] for row in self._timed)))
        self._late.show(formats.duration(late * 1000), tone="warn" if late > 1 else "")
        self._open.show(formats.number(len(self._undecided)))
        for table in (self._level_table, self._timed_table, self._transaction_table):
            await table.refresh()

    async def _find_levels(self, ask: Ask) -> Found:
        return page_of(self._levels, ask)

    async def _find_timed(self, ask: Ask) -> Found:
        return page_of(self._timed, ask)

    async def _find_transactions(self, ask: Ask) -> Found:
        now = time.time() * 1000
        rows: list[Row] = [
            {
                "key": each.offset_msg_id,
                "stored": formats.moment_ms(each.store_timestamp),
                "age": formats.duration(now - each.born_timestamp),
                "id": short_id(each.msg_id),
                "id__title": each.msg_id,
                "id__href": message_link(each),
                "topic": each.get_property(PropertyName.REAL_TOPIC) or "–",
                "group": each.get_property(PropertyName.PRODUCER_GROUP) or "–",
                "checks": each.get_property(PropertyName.TRANSACTION_CHECK_TIMES) or "0",
            }
            for each in self._undecided
        ]
        return page_of(rows, ask)


async def _delays(view: View, address: str) -> list[str]:
    """How long each level is, from the broker's settings."""
    try:
        settings = await brokers.config(view.api, address)
    except RocketqError:
        return []
    return settings.get("messageDelayLevel", "").split()


def _levels(broker: str, runtime: Mapping[str, str], delays: list[str]) -> list[Row]:
    rows: list[Row] = []
    for name, value in runtime.items():
        level = parse_int64(name.removeprefix(_LEVEL)) if name.startswith(_LEVEL) else None
        done, _, end = value.partition(",")
        at, last = parse_int64(done), parse_int64(end)
        if level is None or at is None or last is None:
            continue
        rows.append(
            {
                "key": f"{broker} {level}",
                "broker": broker,
                "level": level,
                "delay": delays[level - 1] if 0 < level <= len(delays) else "–",
                "waiting": max(last - at, 0),
                "done": at,
            }
        )
    return sorted(rows, key=lambda row: int(row["level"]))

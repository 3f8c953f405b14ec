"""The overview: is everything well, and how much goes in and out."""

import time
from typing import Final

from nicegui import ui

from rocketq.admin.cluster.brokers import MASTER_ID, BrokerState
from rocketq.console.catalog import GroupEntry
from rocketq.console.collector import name_of, total_lag
from rocketq.console.history import Sample
from rocketq.console.view import View, link
from rocketq.console.widgets import charts, formats
from rocketq.console.widgets.frame import page
from rocketq.console.widgets.parts import Figure, card, grid
from rocketq.console.widgets.table import Ask, Column, DataTable, Found, Row, page_of

_REFRESH_S: Final = 5.0
_SPANS: Final = {"5 min": 300.0, "15 min": 900.0, "1 h": 3600.0, "6 h": 6 * 3600.0}
_MOST_LAG: Final = 8
_NEARLY_FULL: Final = 0.75
_FULL: Final = 0.9


async def build(view: View) -> None:
    t = view.t
    with page(view, t("Overview")) as this:
        with grid("r-figures"):
            into = Figure(t("Messages in"), "figure-in")
            out = Figure(t("Messages out"), "figure-out")
            lag = Figure(t("Lag of all groups"), "figure-lag", href="/groups")
            disk = Figure(t("Fullest disk"), "figure-disk", href="/cluster")
            up = Figure(t("Brokers"), "figure-brokers", href="/cluster")
        with card(t("Messages per second")) as tools:
            with tools:
                span = ui.toggle(list(_SPANS), value=_first_span(view)).props("dense no-caps flat")
                span.classes("r-spans")
            rates = charts.line_chart("rates", height=220)
        with grid("r-two"):
            with card(t("Lag")):
                lags = charts.line_chart("lags")
            with card(t("Disk")):
                disks = charts.line_chart("disks")
        with grid("r-two"):
            with card(t("Brokers")):
                brokers = DataTable(t, _columns(view), lambda ask: _brokers(view, ask),
                                    mark="brokers", page_size=15)  # fmt: skip
            with card(t("Furthest behind")):
                behind = DataTable(
                    t,
                    [
                        Column(name="group", title=t("Group"), kind="link", cut=True),
                        Column(name="behind", title=t("Lag"), kind="number"),
                        Column(name="tps", title=t("Per second"), kind="number"),
                    ],
                    lambda ask: _behind(view, ask),
                    mark="behind",
                    page_size=15,
                    empty=t("Every group has read everything"),
                )

        def draw() -> None:
            now = time.time()
            begin = now - _SPANS[span.value]
            samples = view.collector.history.since(begin)
            _draw(view, samples, (begin * 1000, now * 1000), rates, lags, disks)

        async def refresh() -> None:
            states = await view.collector.brokers.get(_REFRESH_S)
            groups = view.collector.groups.last or {}
            _figures(view, states, groups, into, out, lag, disk, up)
            draw()
            await brokers.refresh()
            await behind.refresh()

        span.on_value_change(draw)
        this.every(_REFRESH_S, refresh)


def _first_span(view: View) -> str:
    """A console that was just started has not much to show."""
    now = time.time()
    oldest = next(iter(view.collector.history.since(0.0)), None)
    is_young = oldest is None or now - oldest.time_s < _SPANS["5 min"]
    return "5 min" if is_young else "15 min"


def _figures(
    view: View,
    states: list[BrokerState],
    groups: dict[str, GroupEntry],
    into: Figure,
    out: Figure,
    lag: Figure,
    disk: Figure,
    up: Figure,
) -> None:
    t = view.t
    masters = [each for each in states if each.broker_id == MASTER_ID]
    today_in = sum(_today(each, "msgPutTotal") for each in masters)
    today_out = sum(_today(each, "msgGetTotal") for each in masters)
    into.show(
        formats.number(sum(each.number("putTps") for each in masters)) + " /s",
        t("{count} today", count=formats.number(today_in)),
    )
    out.show(
        formats.number(sum(each.number("getTransferredTps") for each in states)) + " /s",
        t("{count} today", count=formats.number(today_out)),
    )
    own = [each for each in groups.values() if not each.is_system]
    late = sum(each.behind > 0 for each in own)
    lag.show(
        formats.number(total_lag(own)),
        t("{late} of {count} groups behind", late=late, count=len(own)),
    )
    fullest = max((each.number("commitLogDiskRatio") for each in states), default=0.0)
    tone = "bad" if fullest >= _FULL else "warn" if fullest >= _NEARLY_FULL else ""
    disk.show(formats.percent(fullest), tone=tone)
    alive = sum(bool(each.runtime) for each in states)
    up.show(
        f"{alive} / {len(states)}",
        t("all answer") if alive == len(states) else t("not all answer"),
        tone="" if alive == len(states) and states else "bad",
    )


def _today(state: BrokerState, name: str) -> int:
    return int(state.number(f"{name}TodayNow") - state.number(f"{name}TodayMorning"))


def _draw(
    view: View,
    samples: list[Sample],
    span: tuple[float, float],
    rates: ui.echart,
    lags: ui.echart,
    disks: ui.echart,
) -> None:
    t = view.t
    charts.show_lines(
        rates,
        {
            t("in"): [(each.time_s * 1000, each.into) for each in samples],
            t("out"): [(each.time_s * 1000, each.out) for each in samples],
        },
        filled=True,
        span=span,
    )
    charts.show_lines(
        lags,
        {t("Lag"): [(s.time_s * 1000, s.lag) for s in samples if s.lag is not None]},
        colours=(charts.AMBER,),
        filled=True,
        span=span,
    )
    names = sorted({name for each in samples for name in each.brokers})
    charts.show_lines(
        disks,
        {
            name: [(s.time_s * 1000, s.brokers[name].disk) for s in samples if name in s.brokers]
            for name in names
        },
        top=1,
        unit="%",
        span=span,
    )


def _columns(view: View) -> list[Column]:
    t = view.t
    return [
        Column(name="name", title=t("Broker"), kind="link"),
        Column(name="role", title=t("Role"), kind="state"),
        Column(name="into", title=t("In /s"), kind="number"),
        Column(name="out", title=t("Out /s"), kind="number"),
        Column(name="disk", title=t("Disk"), kind="meter", minor=True),
    ]


async def _brokers(view: View, ask: Ask) -> Found:
    states = await view.collector.brokers.get(_REFRESH_S)
    return page_of([broker_row(view, each) for each in states], ask)


def broker_row(view: View, state: BrokerState) -> Row:
    """One broker as tables show it."""
    t = view.t
    used = state.number("commitLogDiskRatio")
    is_master = state.broker_id == MASTER_ID
    role = t("master") if is_master else t("slave {number}", number=state.broker_id)
    return {
        "key": state.address,
        "name": name_of(state),
        "name__href": link("/broker", address=state.address),
        "role": role if state.runtime else t("does not answer"),
        "role__tone": ("good" if is_master else "info") if state.runtime else "bad",
        "into": formats.number(state.number("putTps")),
        "out": formats.number(state.number("getTransferredTps")),
        "disk": formats.percent(used),
        "disk__part": round(used * 100, 1),
        "disk__tone": "bad" if used >= _FULL else "warn" if used >= _NEARLY_FULL else "good",
    }


async def _behind(view: View, ask: Ask) -> Found:
    groups = view.collector.groups.last or {}
    late = [each for each in groups.values() if each.behind > 0 and not each.is_system]
    late.sort(key=lambda each: each.behind, reverse=True)
    rows = [
        {
            "key": each.name,
            "group": each.name,
            "group__href": link("/group", name=each.name),
            "behind": formats.number(each.behind),
            "tps": formats.number(each.tps),
        }
        for each in late[:_MOST_LAG]
    ]
    return Found(rows, len(rows))

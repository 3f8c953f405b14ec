"""One topic: its queues, where they are, who reads them, and what can be done with it."""

import asyncio
from typing import Final

from nicegui import ui

from rocketq.admin import groups, offsets, topics
from rocketq.common.errors import RocketqError
from rocketq.console.access import Role
from rocketq.console.catalog import Kind, TopicEntry
from rocketq.console.pages.topics import change_topic, delete_topic
from rocketq.console.view import View, link
from rocketq.console.widgets import formats
from rocketq.console.widgets.dialogs import Form, confirmed
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.moments import moment_field, parse_moment
from rocketq.console.widgets.parts import Figure, button, card, grid, toolbar
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, Row, page_of
from rocketq.message.message import Message
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.bodies.stats import TopicStatsTable

_REFRESH_S: Final = 5.0
_LARGEST_TEST: Final = 64 * 1024


async def build(view: View) -> None:
    t = view.t
    name = view.query.get("name", "")
    with page(view, name, parent=(t("Topics"), "/topics")) as this:
        shown = _TopicPage(this, name)
        with toolbar():
            shown.buttons()
        with grid("r-figures"):
            shown.figures()
        with card(t("Queues")):
            shown.queues()
        with grid("r-two"):
            with card(t("Consumer groups")):
                shown.consumers()
            with card(t("Where it is")):
                shown.route()
        this.every(_REFRESH_S, shown.refresh)


class _TopicPage:
    def __init__(self, this: Page, name: str) -> None:
        self._page = this
        self._view = this.view
        self._name = name
        self._status = TopicStatsTable()
        self._groups: list[Row] = []
        self._route: list[Row] = []

    # Parts

    def buttons(self) -> None:
        t, view = self._view.t, self._view
        ui.link(t("Messages"), link("/messages", topic=self._name)).classes("r-button-link")
        if not view.may(Role.OPERATOR):
            return
        button(t("Send a message"), "send", self._send, mark="send", primary=True)
        button(t("Change"), "edit", self._change, mark="change")
        button(t("Delete"), "delete_outline", self._delete, mark="delete")

    def figures(self) -> None:
        t = self._view.t
        self._kind = Figure(t("Kind"), "figure-kind")
        self._count = Figure(t("Messages"), "figure-messages")
        self._tps = Figure(t("In /s"), "figure-tps")
        self._last = Figure(t("Last stored"), "figure-last")

    def queues(self) -> None:
        t = self._view.t
        self._queue_table = DataTable(
            t,
            [
                Column(name="broker", title=t("Broker"), sortable=True),
                Column(name="queue", title=t("Queue"), kind="number", sortable=True),
                Column(name="min", title=t("Min offset"), kind="number", sortable=True),
                Column(name="max", title=t("Max offset"), kind="number", sortable=True),
                Column(name="count", title=t("Messages"), kind="number", sortable=True),
                Column(name="last", title=t("Last stored"), minor=True, sortable=True),
            ],
            self._find_queues,
            mark="queues",
            page_size=15,
        )

    def consumers(self) -> None:
        t = self._view.t
        actions = [
            Action("reset", "history", t("Reset offsets")),
            Action("skip", "skip_next", t("Skip what is left")),
        ]
        may_change = self._view.may(Role.OPERATOR)
        self._group_table = DataTable(
            t,
            [
                Column(name="group", title=t("Group"), kind="link", cut=True),
                Column(name="members", title=t("Members"), kind="number"),
                Column(name="behind", title=t("Lag"), kind="number"),
                *(
                    [Column(name="act", title="", kind="actions", actions=actions)]
                    if may_change
                    else []
                ),
            ],
            self._find_groups,
            mark="consumers",
            page_size=15,
            empty=t("Nobody reads it"),
        )
        self._group_table.on_action("reset", self._reset)
        self._group_table.on_action("skip", self._skip)

    def route(self) -> None:
        t = self._view.t
        self._route_table = DataTable(
            t,
            [
                Column(name="cluster", title=t("Cluster"), minor=True),
                Column(name="broker", title=t("Broker")),
                Column(name="addresses", title=t("Addresses"), kind="mono"),
                Column(name="queues", title=t("W / R"), kind="number"),
                Column(name="perm", title=t("Rights")),
            ],
            self._find_route,
            mark="route",
            page_size=15,
        )

    # Data

    async def refresh(self) -> None:
        view, t = self._view, self._view.t
        (self._status,) = await view.collector.status_of([self._name], 1.0)
        entry = (await view.collector.topics.get(_REFRESH_S)).get(self._name)
        ends = self._status.offset_table.values()
        last = max((each.last_update_timestamp for each in ends), default=0)
        kind = entry.kind if entry is not None else Kind.UNSPECIFIED
        self._kind.show(t(kind.value.title()), t("ordered") if _is_ordered(entry) else "")
        self._count.show(formats.number(sum(e.max_offset - e.min_offset for e in ends)))
        self._tps.show(formats.number(self._status.topic_put_tps))
        self._last.show(formats.moment(last))
        await self._queue_table.refresh()
        found = await topics.route(view.api, self._name)
        by_name = {each.broker_name: each for each in found.queue_datas}
        self._route = [
            {
                "key": each.broker_name,
                "cluster": each.cluster,
                "broker": each.broker_name,
                "addresses": ", ".join(each.broker_addrs[i] for i in sorted(each.broker_addrs)),
                "queues": f"{by_name[each.broker_name].write_queue_nums}"
                f" / {by_name[each.broker_name].read_queue_nums}",
                "perm": formats.permission(by_name[each.broker_name].perm),
            }
            for each in found.broker_datas
            if each.broker_name in by_name
        ]
        await self._route_table.refresh()
        self._groups = await self._read_groups()
        await self._group_table.refresh()

    async def _read_groups(self) -> list[Row]:
        view = self._view
        names = await topics.groups_of(view.api, self._name)
        members = await view.collector.members_of(names, _REFRESH_S)
        behind = await asyncio.gather(*(self._behind(name) for name in names))
        return [
            {
                "key": name,
                "group": name,
                "group__href": link("/group", name=name),
                "members": len(connection.connection_set) if connection else 0,
                "behind": "–" if lag is None else formats.number(lag),
            }
            for name, connection, lag in zip(names, members, behind, strict=True)
        ]

    async def _behind(self, group: str) -> int | None:
        try:
            stats = await groups.progress_of(self._view.api, group, self._name)
        except RocketqError:
            return None
        return groups.total_behind(stats)

    async def _find_queues(self, ask: Ask) -> Found:
        rows = [
            {
                "key": f"{queue.broker_name} {queue.queue_id}",
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "min": formats.number(at.min_offset),
                "min__sort": at.min_offset,
                "max": formats.number(at.max_offset),
                "max__sort": at.max_offset,
                "count": formats.number(at.max_offset - at.min_offset),
                "count__sort": at.max_offset - at.min_offset,
                "last": formats.moment(at.last_update_timestamp),
            }
            for queue, at in sorted(self._status.offset_table.items())
        ]
        return page_of(rows, ask)

    async def _find_groups(self, ask: Ask) -> Found:
        return page_of(self._groups, ask)

    async def _find_route(self, ask: Ask) -> Found:
        return page_of(self._route, ask)

    # Changes

    async def _change(self) -> None:
        view = self._view
        entry = (await view.collector.topics.get(_REFRESH_S)).get(self._name)
        config = (
            next(iter(entry.configs.values()))
            if entry is not None and entry.configs
            else TopicConfig(topic_name=self._name)
        )
        route = await topics.route(view.api, self._name)
        masters = {
            each.broker_addrs[0]: each.broker_name
            for each in route.broker_datas
            if 0 in each.broker_addrs
        }
        await change_topic(self._page, config, masters, is_new=False)

    async def _delete(self) -> None:
        if await delete_topic(self._view, self._name):
            ui.navigate.to("/topics")

    async def _send(self) -> None:
        t, view = self._view.t, self._view
        title = t("Send a message to {name}", name=self._name)
        with Form(t, title, action=t("Send")) as form:
            tag = form.text(t("Tag"), mark="tag")
            keys = form.text(t("Keys"), mark="keys")
            body = form.text(t("Body"), mark="message-body", rows=6)
            form.require(
                lambda: 0 < len((body.value or "").encode()) <= _LARGEST_TEST,
                t("A body of 1 to {size} bytes", size=_LARGEST_TEST),
            )
        if not await form.answered():
            return
        message = Message(
            self._name,
            body.value.encode(),
            tags=(tag.value or "").strip() or None,
            keys=(keys.value or "").split(),
        )

        async def send() -> None:
            result = await view.send(message)
            ui.notify(
                f"{result.status.name}: {result.msg_id}"
                f" ({result.queue.broker_name} {result.queue.queue_id})",
                timeout=8000,
            )

        if await view.change("Message sent", self._name, send, role=Role.OPERATOR):
            await self._page.again()

    async def _reset(self, group: str) -> None:
        if await reset_offsets(self._view, group, self._name):
            await self._page.again()

    async def _skip(self, group: str) -> None:
        if await skip_offsets(self._view, group, self._name):
            await self._page.again()


def _is_ordered(entry: TopicEntry | None) -> bool:
    return entry is not None and any(each.order for each in entry.configs.values())


async def reset_offsets(view: View, group: str, topic: str) -> bool:
    """Let a group go on somewhere else, in one topic."""
    t = view.t
    title = t("Where shall {group} go on in {topic}?", group=group, topic=topic)
    with Form(t, title, action=t("Reset")) as form:
        where = form.choice(
            t("Place"),
            {
                "earliest": t("The oldest message there is"),
                "time": t("Messages stored since a time"),
                "latest": t("Only what comes from now on"),
            },
            "earliest",
            mark="reset-place",
        )
        moment = moment_field(t("Time"), mark="reset-time")
        moment.bind_visibility_from(where, "value", value="time")
        form.require(
            lambda: where.value != "time" or parse_moment(moment.value) is not None,
            t("A time such as 2026-01-31 12:00"),
        )
    if not await form.answered():
        return False
    at_ms = {"earliest": 0, "latest": offsets.LATEST}.get(where.value)
    if at_ms is None:
        at_ms = parse_moment(moment.value) or 0
    return await view.change(
        "Offsets reset",
        f"{group} in {topic} to {where.value if where.value != 'time' else moment.value}",
        lambda: offsets.reset_to_time(view.api, group, topic, at_ms),
        role=Role.OPERATOR,
    )


async def skip_offsets(view: View, group: str, topic: str) -> bool:
    """Let a group forget what it has not read yet, in one topic."""
    t = view.t
    text = t("{group} will never read what is left in {topic} now.", group=group, topic=topic)
    if not await confirmed(t, t("Skip what is left?"), text, action=t("Skip"), dangerous=True):
        return False
    return await view.change(
        "Messages skipped",
        f"{group} in {topic}",
        lambda: offsets.skip(view.api, group, topic),
        role=Role.OPERATOR,
    )

"""One consumer group: lag by queue, members, subscriptions, retries and dead letters."""

from typing import Final

from nicegui import ui

from rocketq.admin import groups
from rocketq.common.errors import RocketqError
from rocketq.console.access import Role
from rocketq.console.pages.groups import change_group, delete_group
from rocketq.console.pages.topic import reset_offsets, skip_offsets
from rocketq.console.view import View, link
from rocketq.console.widgets import charts, formats
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import Figure, button, card, grid, toolbar
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, Row, page_of
from rocketq.message.names import dlq_topic, is_retry_topic, retry_topic
from rocketq.message.queue import MessageQueue
from rocketq.remoting.bodies.connections import ConsumerConnection
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.stats import ConsumeStats
from rocketq.remoting.versions import version_name

_REFRESH_S: Final = 5.0
_MOST_BARS: Final = 32


async def build(view: View) -> None:
    t = view.t
    name = view.query.get("name", "")
    with page(view, name, parent=(t("Groups"), "/groups")) as this:
        shown = _GroupPage(this, name)
        with toolbar():
            shown.buttons()
        with grid("r-figures"):
            shown.figures()
        with grid("r-two"):
            with card(t("Lag by queue")):
                shown.bars()
            with card(t("Lag over time")):
                shown.history()
        with card(t("Queues")):
            shown.queues()
        with grid("r-two"):
            with card(t("Members")):
                shown.members()
            with card(t("Topics")):
                shown.topics()
        this.every(_REFRESH_S, shown.refresh)


class _GroupPage:
    def __init__(self, this: Page, name: str) -> None:
        self._page = this
        self._view = this.view
        self._name = name
        self._stats = ConsumeStats()
        self._readers: dict[MessageQueue, str] = {}
        self._connection: ConsumerConnection | None = None

    # Parts

    def buttons(self) -> None:
        t = self._view.t
        for title, topic in ((t("Retries"), retry_topic), (t("Dead letters"), dlq_topic)):
            path = "/dead-letters" if topic is dlq_topic else "/topic"
            key = "group" if topic is dlq_topic else "name"
            value = self._name if topic is dlq_topic else topic(self._name)
            ui.link(title, link(path, **{key: value})).classes("r-button-link")
        button(t("Compare members"), "rule", self._compare, mark="compare")
        if self._view.may(Role.OPERATOR):
            button(t("Change"), "edit", self._change, mark="change")
            button(t("Delete"), "delete_outline", self._delete, mark="delete")

    def figures(self) -> None:
        t = self._view.t
        self._lag = Figure(t("Lag"), "figure-lag")
        self._inflight = Figure(t("Fetched, not yet done"), "figure-inflight")
        self._tps = Figure(t("Per second"), "figure-tps")
        self._online = Figure(t("Members"), "figure-members")
        self._dead = Figure(
            t("Dead letters"), "figure-dead", href=link("/dead-letters", group=self._name)
        )

    def bars(self) -> None:
        self._bars = charts.bar_chart("lag-bars", height=charts.bars_height(4))

    def history(self) -> None:
        self._chart = charts.line_chart("lag-history")

    def queues(self) -> None:
        t = self._view.t
        self._queue_table = DataTable(
            t,
            [
                Column(name="topic", title=t("Topic"), kind="link", sortable=True, cut=True),
                Column(name="broker", title=t("Broker"), sortable=True, minor=True),
                Column(name="queue", title=t("Queue"), kind="number", sortable=True),
                Column(name="end", title=t("End"), kind="number", minor=True),
                Column(name="at", title=t("Read up to"), kind="number"),
                Column(name="behind", title=t("Lag"), kind="number", sortable=True),
                Column(name="last", title=t("Last read"), minor=True),
                Column(name="reader", title=t("Reader"), minor=True, cut=True),
            ],
            self._find_queues,
            mark="queues",
            page_size=15,
            empty=t("It has not read anything yet"),
        )

    def members(self) -> None:
        t = self._view.t
        self._member_table = DataTable(
            t,
            [
                Column(name="client", title=t("Client"), kind="link", cut=True),
                Column(name="address", title=t("Address"), kind="mono", minor=True),
                Column(name="language", title=t("Language")),
                Column(name="version", title=t("Version"), minor=True),
            ],
            self._find_members,
            mark="members",
            page_size=15,
            empty=t("Nobody is connected"),
        )

    def topics(self) -> None:
        t = self._view.t
        actions = [
            Action("reset", "history", t("Reset offsets")),
            Action("skip", "skip_next", t("Skip what is left")),
        ]
        self._topic_table = DataTable(
            t,
            [
                Column(name="topic", title=t("Topic"), kind="link", cut=True),
                Column(name="filter", title=t("Filter"), kind="mono", cut=True),
                Column(name="behind", title=t("Lag"), kind="number"),
                *(
                    [Column(name="act", title="", kind="actions", actions=actions)]
                    if self._view.may(Role.OPERATOR)
                    else []
                ),
            ],
            self._find_topics,
            mark="subscriptions",
            page_size=15,
            empty=t("No subscription"),
        )
        self._topic_table.on_action("reset", self._reset)
        self._topic_table.on_action("skip", self._skip)

    # Data

    async def refresh(self) -> None:
        view, t = self._view, self._view.t
        self._stats = await groups.progress_of(view.api, self._name)
        (self._connection,) = await view.collector.members_of([self._name], 1.0)
        self._readers = await groups.clients_by_queue(view.api, self._name)
        behind = groups.total_behind(self._stats)
        count = len(self._connection.connection_set) if self._connection else 0
        self._lag.show(formats.number(behind), tone="warn" if behind and not count else "")
        self._inflight.show(formats.number(groups.total_inflight(self._stats)))
        self._tps.show(formats.number(self._stats.consume_tps))
        model = (self._connection.message_model or "").lower() if self._connection else ""
        self._online.show(str(count), model or t("offline"))
        (dead,) = await view.collector.status_of([dlq_topic(self._name)], _REFRESH_S)
        letters = sum(e.max_offset - e.min_offset for e in dead.offset_table.values())
        self._dead.show(formats.number(letters), tone="bad" if letters else "")
        self._draw()
        for table in (self._queue_table, self._member_table, self._topic_table):
            await table.refresh()

    def _draw(self) -> None:
        lags = {
            f"{queue.topic} · {queue.broker_name} {queue.queue_id}": at.broker_offset
            - at.consumer_offset
            for queue, at in sorted(self._stats.offset_table.items())
            if not is_retry_topic(queue.topic) or at.broker_offset > at.consumer_offset
        }
        most = sorted(lags, key=lambda each: lags[each], reverse=True)[:_MOST_BARS]
        charts.show_bars(self._bars, {name: lags[name] for name in lags if name in set(most)})
        history = self._view.collector.history.lag_of(self._name)
        charts.show_lines(
            self._chart,
            {self._view.t("Lag"): [(when * 1000, lag) for when, lag in history]},
            colours=(charts.AMBER,),
            filled=True,
        )

    async def _find_queues(self, ask: Ask) -> Found:
        rows: list[Row] = [
            {
                "key": f"{queue.topic} {queue.broker_name} {queue.queue_id}",
                "topic": queue.topic,
                "topic__href": link("/topic", name=queue.topic),
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "end": formats.number(at.broker_offset),
                "at": formats.number(at.consumer_offset),
                "behind": formats.number(at.broker_offset - at.consumer_offset),
                "behind__sort": at.broker_offset - at.consumer_offset,
                "last": formats.moment(at.last_timestamp),
                "reader": self._readers.get(queue, ""),
            }
            for queue, at in sorted(self._stats.offset_table.items())
        ]
        return page_of(rows, ask)

    async def _find_members(self, ask: Ask) -> Found:
        clients = self._connection.connection_set if self._connection else []
        rows: list[Row] = [
            {
                "key": each.client_id,
                "client": each.client_id,
                "client__href": link("/client", group=self._name, id=each.client_id),
                "address": each.client_addr,
                "language": each.language,
                "version": version_name(each.version),
            }
            for each in sorted(clients, key=lambda each: each.client_id)
        ]
        return page_of(rows, ask)

    async def _find_topics(self, ask: Ask) -> Found:
        lags: dict[str, int] = {}
        for queue, at in self._stats.offset_table.items():
            lags[queue.topic] = lags.get(queue.topic, 0) + at.broker_offset - at.consumer_offset
        table = self._connection.subscription_table if self._connection else {}
        rows: list[Row] = [
            {
                "key": topic,
                "topic": topic,
                "topic__href": link("/topic", name=topic),
                "filter": table[topic].sub_string if topic in table else "–",
                "behind": formats.number(lags.get(topic, 0)),
            }
            for topic in sorted({*lags, *table})
        ]
        return page_of(rows, ask)

    # Looking closer

    async def _compare(self) -> None:
        """Members of one group must subscribe to the same: where they do not, messages go lost."""
        view, t = self._view, self._view.t
        clients = self._connection.connection_set if self._connection else []
        said: dict[str, str] = {}
        for each in sorted(clients, key=lambda each: each.client_id):
            try:
                info = await groups.running_info(view.api, self._name, each.client_id)
            except RocketqError as error:
                said[each.client_id] = str(error)
                continue
            said[each.client_id] = "\n".join(
                sorted(f"{s.topic} {s.expression_type} {s.sub_string}"
                       for s in info.subscription_set if not is_retry_topic(s.topic))
            )  # fmt: skip
        with ui.dialog(value=True), ui.element("div").classes("r-dialog r-compared"):
            same = len(set(said.values())) <= 1
            title = t("All members subscribe to the same") if same else t("Members differ")
            ui.label(title if said else t("Nobody is connected")).classes("r-h2")
            for client, text in said.items():
                ui.label(client).classes("r-strong")
                with ui.element("pre").classes("r-pre"):
                    ui.label(text)

    # Changes

    async def _change(self) -> None:
        found = await groups.configs(self._view.api, self._name)
        config = found[0].config if found else SubscriptionGroupConfig(group_name=self._name)
        await change_group(self._page, config, is_new=False)

    async def _delete(self) -> None:
        if await delete_group(self._view, self._name):
            ui.navigate.to("/groups")

    async def _reset(self, topic: str) -> None:
        if await reset_offsets(self._view, self._name, topic):
            await self._page.again()

    async def _skip(self, topic: str) -> None:
        if await skip_offsets(self._view, self._name, topic):
            await self._page.again()

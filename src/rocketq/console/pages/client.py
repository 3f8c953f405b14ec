"""One member of a consumer group: what it does, queue by queue, and where its threads are."""

from nicegui import ui

from rocketq.admin import groups
from rocketq.console.view import View, link
from rocketq.console.widgets import formats
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import button, card, facts, grid, toolbar
from rocketq.console.widgets.table import Ask, Column, DataTable, Found, Row, page_of
from rocketq.remoting.bodies.running_info import ConsumerRunningInfo


async def build(view: View) -> None:
    t = view.t
    group, client_id = view.query.get("group", ""), view.query.get("id", "")
    with page(view, client_id, parent=(group, link("/group", name=group))) as this:
        shown = _ClientPage(this, group, client_id)
        with toolbar():
            button(t("Refresh"), "refresh", this.again, mark="refresh")
            button(t("Stack traces"), "account_tree", shown.show_stacks, mark="stacks")
        with card(t("Consumption")):
            shown.status()
        with card(t("Queues")):
            shown.queues()
        with grid("r-two"):
            with card(t("Subscriptions")):
                shown.subscriptions()
            with card(t("Properties")):
                shown.properties = ui.element("div")
        with card(t("Stack traces")):
            shown.stacks = ui.element("div")
        this.once(shown.load)


class _ClientPage:
    properties: ui.element
    stacks: ui.element

    def __init__(self, this: Page, group: str, client_id: str) -> None:
        self._page = this
        self._view = this.view
        self._group = group
        self._client_id = client_id
        self._info = ConsumerRunningInfo()

    def status(self) -> None:
        t = self._view.t
        self._status_table = DataTable(
            t,
            [
                Column(name="topic", title=t("Topic"), kind="link", cut=True),
                Column(name="ok", title=t("Consumed /s"), kind="number"),
                Column(name="failed", title=t("Failed /s"), kind="number"),
                Column(name="rt", title=t("Takes"), kind="number"),
                Column(name="pull", title=t("Pulled /s"), kind="number", minor=True),
                Column(name="pull_rt", title=t("A pull takes"), kind="number", minor=True),
                Column(name="hour", title=t("Failed in an hour"), kind="number", minor=True),
            ],
            self._find_status,
            mark="status",
            page_size=15,
        )

    def queues(self) -> None:
        t = self._view.t
        self._queue_table = DataTable(
            t,
            [
                Column(name="topic", title=t("Topic"), cut=True, sortable=True),
                Column(name="broker", title=t("Broker"), minor=True),
                Column(name="queue", title=t("Queue"), kind="number"),
                Column(name="commit", title=t("Committed"), kind="number"),
                Column(name="cached", title=t("Held"), kind="number"),
                Column(name="size", title=t("Size"), kind="number", minor=True),
                Column(name="pulled", title=t("Last pull"), minor=True),
                Column(name="consumed", title=t("Last consumed"), minor=True),
            ],
            self._find_queues,
            mark="queues",
            page_size=15,
        )

    def subscriptions(self) -> None:
        t = self._view.t
        self._subscription_table = DataTable(
            t,
            [
                Column(name="topic", title=t("Topic"), cut=True),
                Column(name="kind", title=t("Kind")),
                Column(name="filter", title=t("Filter"), kind="mono", cut=True),
            ],
            self._find_subscriptions,
            mark="subscriptions",
            page_size=15,
        )

    # Data

    async def load(self) -> None:
        self._info = await groups.running_info(self._view.api, self._group, self._client_id)
        for table in (self._status_table, self._queue_table, self._subscription_table):
            await table.refresh()
        self.properties.clear()
        with self.properties:
            facts(sorted(self._info.properties.items()), mark="properties")

    async def show_stacks(self) -> None:
        """Asked for when somebody wants to see them: a client stops for it."""
        async with self._page.trouble():
            info = await groups.running_info(
                self._view.api, self._group, self._client_id, stacks=True
            )
            self.stacks.clear()
            with self.stacks, ui.element("pre").classes("r-pre r-stack-text"):
                ui.label(info.jstack or self._view.t("It does not say"))

    async def _find_status(self, ask: Ask) -> Found:
        rows: list[Row] = [
            {
                "key": topic,
                "topic": topic,
                "topic__href": link("/topic", name=topic),
                "ok": formats.number(each.consume_ok_tps),
                "failed": formats.number(each.consume_failed_tps),
                "rt": formats.duration(each.consume_rt),
                "pull": formats.number(each.pull_tps),
                "pull_rt": formats.duration(each.pull_rt),
                "hour": formats.number(each.consume_failed_msgs),
            }
            for topic, each in sorted(self._info.status_table.items())
        ]
        return page_of(rows, ask)

    async def _find_queues(self, ask: Ask) -> Found:
        rows: list[Row] = [
            {
                "key": f"{queue.topic} {queue.broker_name} {queue.queue_id}",
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "commit": formats.number(each.commit_offset),
                "cached": formats.number(each.cached_msg_count),
                "size": f"{each.cached_msg_size_in_mib} MB",
                "pulled": formats.moment(each.last_pull_timestamp),
                "consumed": formats.moment(each.last_consume_timestamp),
            }
            for queue, each in sorted(self._info.mq_table.items())
        ]
        rows += [
            {
                "key": f"pop {queue.topic} {queue.broker_name} {queue.queue_id}",
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "commit": "–",
                "cached": formats.number(each.wait_ack_count),
                "size": "–",
                "pulled": formats.moment(each.last_pop_timestamp),
                "consumed": "–",
            }
            for queue, each in sorted(self._info.mq_pop_table.items())
        ]
        return page_of(rows, ask)

    async def _find_subscriptions(self, ask: Ask) -> Found:
        rows: list[Row] = [
            {
                "key": each.topic,
                "topic": each.topic,
                "kind": each.expression_type,
                "filter": each.sub_string,
            }
            for each in sorted(self._info.subscription_set, key=lambda each: each.topic)
        ]
        return page_of(rows, ask)

"""Messages that a group could not consume: found, looked at, given back, exported."""

import time
from typing import Final

from nicegui import ui

from rocketq.admin import browsing
from rocketq.console.access import Role
from rocketq.console.catalog import Kind
from rocketq.console.pages.messages.bodies import exported
from rocketq.console.pages.messages.messages import message_columns, message_row
from rocketq.console.view import View
from rocketq.console.widgets.dialogs import confirmed
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.moments import moment_field, parse_moment
from rocketq.console.widgets.parts import button, card, space, toolbar
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, Row, page_of
from rocketq.message.message import MessageExt
from rocketq.message.names import DLQ_PREFIX, dlq_topic
from rocketq.message.properties.codec import PropertyName

_COUNT: Final = 500
_WEEK_S: Final = 7 * 86400.0


async def build(view: View) -> None:
    t = view.t
    with page(view, t("Dead letters")) as this:
        letters = _Letters(this)
        with card():
            letters.fields()
        with card():
            letters.results()
        this.once(letters.first)


class _Letters:
    def __init__(self, this: Page) -> None:
        self._page = this
        self._view = this.view
        self._found: list[MessageExt] = []

    # Parts

    def fields(self) -> None:
        t = self._view.t
        with toolbar():
            self._group = ui.select([], label=t("Group"), with_input=True)
            self._group.props("dense outlined options-dense use-input fill-input hide-selected")
            self._group.classes("r-field r-wide r-group")
            now = time.time()
            self._begin = moment_field(t("From"), mark="begin", at_s=now - _WEEK_S)
            self._end = moment_field(t("To"), mark="end", at_s=now + 60)
            self._text = ui.input(t("Id, key or body contains")).props("dense outlined")
            self._text.classes("r-field r-contains")
            self._text.on("keydown.enter", self.search)
            button(t("Search"), "search", self.search, mark="find", primary=True)

    def results(self) -> None:
        t = self._view.t
        with toolbar():
            self._note = ui.label("").classes("r-note r-result-note")
            space()
            if self._view.may(Role.OPERATOR):
                button(t("Give back chosen"), "redo", self.give_back, mark="give-back")
            button(t("Export"), "download", self.export, mark="export")
        columns = message_columns(self._view)
        columns.insert(3, Column(name="topic", title=t("Topic"), minor=True))
        if self._view.may(Role.OPERATOR):
            actions = [Action("give", "redo", t("Give back to the group"))]
            columns.append(Column(name="act", title="", kind="actions", actions=actions))
        self._table = DataTable(
            t,
            columns,
            self._find,
            mark="letters",
            selectable=True,
            empty=t("No dead letters"),
        )
        self._table.on_action("give", lambda key: self._give_back([key]))

    # Searching

    async def first(self) -> None:
        entries = await self._view.collector.topics.get(10.0)
        names = [
            each.name.removeprefix(DLQ_PREFIX) for each in entries.values() if each.kind is Kind.DLQ
        ]
        wanted = self._group.value or self._view.query.get("group", "") or next(iter(names), None)
        if wanted and wanted not in names:
            names.append(wanted)
        self._group.set_options(names, value=wanted)
        await self.search()

    async def search(self) -> None:
        t = self._view.t
        self._found = []
        if self._group.value and dlq_topic(self._group.value) in (
            await self._view.collector.topics.get(10.0)
        ):
            async with self._page.trouble():
                found = await browsing.newest(
                    self._view.api,
                    dlq_topic(self._group.value),
                    count=_COUNT,
                    begin_ms=parse_moment(self._begin.value),
                    end_ms=parse_moment(self._end.value),
                )
                self._found = [each for each in found if self._is_wanted(each)]
        self._note.set_text(t("{count} found", count=len(self._found)))
        self._table.table.selected = []
        await self._table.refresh(from_start=True)

    def _is_wanted(self, message: MessageExt) -> bool:
        text = (self._text.value or "").strip()
        if not text:
            return True
        return (
            text in (message.msg_id, message.offset_msg_id)
            or text in message.keys
            or text.encode() in message.body
        )

    async def _find(self, ask: Ask) -> Found:
        return page_of([_row(each) for each in self._found], ask)

    # What can be done

    async def give_back(self) -> None:
        await self._give_back(self._table.selected)

    async def _give_back(self, keys: list[str]) -> None:
        view, t = self._view, self._view.t
        chosen = [each for each in self._found if each.offset_msg_id in set(keys)]
        if not chosen:
            ui.notify(t("Choose messages first"))
            return
        group = str(self._group.value)
        text = t("{count} messages go to {group} again, as retries. The dead letters stay.",
                 count=len(chosen), group=group)  # fmt: skip
        if not await confirmed(t, t("Give them back?"), text, action=t("Give back")):
            return

        async def send() -> None:
            for message in chosen:
                await view.send(browsing.again(message))

        await view.change(
            "Dead letters given back", f"{len(chosen)} of {group}", send, role=Role.OPERATOR
        )

    def export(self) -> None:
        chosen = set(self._table.selected)
        wanted = [each for each in self._found if not chosen or each.offset_msg_id in chosen]
        ui.download.content(exported(wanted), f"dead-letters-{self._group.value}.jsonl")


def _row(message: MessageExt) -> Row:
    origin = message.get_property(PropertyName.RETRY_TOPIC)
    return {**message_row(message), "topic": origin or "–"}

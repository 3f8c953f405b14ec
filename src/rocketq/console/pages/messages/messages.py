"""Messages: found by topic and time, by key, by id."""

import time
from typing import Final

from nicegui import ui

from rocketq.admin import browsing, messages
from rocketq.common.errors import RocketqError
from rocketq.console.catalog import Kind
from rocketq.console.pages.messages.bodies import excerpt, exported
from rocketq.console.view import View, link
from rocketq.console.widgets import formats
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.moments import moment_field, parse_moment
from rocketq.console.widgets.parts import button, card, space, toolbar
from rocketq.console.widgets.table import Ask, Column, DataTable, Found, Row, page_of
from rocketq.message.message import MessageExt

_COUNT: Final = 200
_HOUR_S: Final = 3600.0


async def build(view: View) -> None:
    t = view.t
    with page(view, t("Messages")) as this:
        search = _Search(this)
        with card():
            search.fields()
        with card():
            search.results()
        this.once(search.first)


class _Search:
    def __init__(self, this: Page) -> None:
        self._page = this
        self._view = this.view
        self._found: list[MessageExt] = []
        self._is_first = True

    # Parts

    def fields(self) -> None:
        t, query = self._view.t, self._view.query
        with toolbar():
            by = query.get("by", "time")
            self._by = ui.toggle(
                {"time": t("By time"), "key": t("By key"), "id": t("By id")},
                value=by if by in ("time", "key", "id") else "time",
            ).props("dense no-caps flat")
            self._by.classes("r-spans r-by")
        with toolbar():
            self._topic = ui.select([], label=t("Topic"), with_input=True, clearable=True)
            self._topic.props("dense outlined options-dense use-input fill-input hide-selected")
            self._topic.classes("r-field r-wide r-topic")
            now = time.time()
            self._begin = moment_field(t("From"), mark="begin", at_s=now - _HOUR_S)
            self._end = moment_field(t("To"), mark="end", at_s=now + 60)
            self._key = ui.input(t("Key"), value=query.get("key", "")).props("dense outlined")
            self._key.classes("r-field r-key")
            self._id = ui.input(t("Message id"), value=query.get("id", ""))
            self._id.props("dense outlined").classes("r-field r-wide r-id")
            for field, mode in (
                (self._begin, "time"),
                (self._end, "time"),
                (self._key, "key"),
                (self._id, "id"),
            ):
                field.bind_visibility_from(self._by, "value", value=mode)
                field.on("keydown.enter", self.search)
            button(t("Search"), "search", self.search, mark="find", primary=True)

    def results(self) -> None:
        t = self._view.t
        with toolbar():
            self._note = ui.label("").classes("r-note r-result-note")
            space()
            self._older = button(t("Older ones"), "expand_more", self.older, mark="older")
            self._export = button(t("Export"), "download", self.export, mark="export")
        self._table = DataTable(
            t,
            message_columns(self._view),
            self._find,
            mark="messages",
            empty=t("Choose a topic and search"),
        )
        self._older.set_visibility(False)
        self._export.set_visibility(False)

    # Searching

    async def first(self) -> None:
        view = self._view
        entries = await view.collector.topics.get(30.0)
        hidden = (Kind.SYSTEM,)
        names = [each.name for each in entries.values() if each.kind not in hidden]
        wanted = view.query.get("topic", "")
        if wanted and wanted not in names:
            names.append(wanted)
        self._topic.set_options(names, value=wanted or None)
        if self._is_first and (wanted or view.query.get("id")):
            self._is_first = False
            await self.search()

    async def search(self) -> None:
        self._found = []
        async with self._page.trouble():
            self._found = await self._searched()
        await self._shown()

    async def older(self) -> None:
        """Those before the oldest one shown."""
        oldest = self._found[-1].store_timestamp
        known = {message.offset_msg_id for message in self._found}
        async with self._page.trouble():
            more = await self._by_time(oldest)
            self._found += [each for each in more if each.offset_msg_id not in known]
        await self._shown()

    async def _searched(self) -> list[MessageExt]:
        view, topic = self._view, str(self._topic.value or "")
        if self._by.value == "id":
            return await self._by_id(topic, (self._id.value or "").strip())
        if not topic:
            return []
        if self._by.value == "key":
            key = (self._key.value or "").strip()
            found = await messages.by_key(view.api, topic, key) if key else []
            return sorted(found, key=lambda each: each.store_timestamp, reverse=True)
        return await self._by_time(parse_moment(self._end.value))

    async def _by_time(self, end_ms: int | None) -> list[MessageExt]:
        return await browsing.newest(
            self._view.api,
            str(self._topic.value),
            count=_COUNT,
            begin_ms=parse_moment(self._begin.value),
            end_ms=end_ms,
        )

    async def _by_id(self, topic: str, message_id: str) -> list[MessageExt]:
        """In a topic, or in all that people have made: an id does not name its topic."""
        if not message_id:
            return []
        view = self._view
        if topic:
            names = [topic]
        else:
            entries = await view.collector.topics.get(30.0)
            names = [each.name for each in entries.values() if each.kind is not Kind.SYSTEM]
        for name in names:
            try:
                message = await messages.by_id(view.api, name, message_id)
            except RocketqError:
                if topic:
                    raise
                continue
            if message is not None:
                return [message]
        return []

    async def _shown(self) -> None:
        t = self._view.t
        is_by_time = self._by.value == "time"
        count = len(self._found)
        self._note.set_text(t("{count} found", count=count))
        self._older.set_visibility(is_by_time and count > 0 and count % _COUNT == 0)
        self._export.set_visibility(count > 0)
        self._table.table.props["no-data-label"] = t("No message like that")
        await self._table.refresh(from_start=True)

    async def _find(self, ask: Ask) -> Found:
        return page_of([message_row(each) for each in self._found], ask)

    def export(self) -> None:
        ui.download.content(exported(self._found), "messages.jsonl")


def message_columns(view: View) -> list[Column]:
    t = view.t
    return [
        Column(name="stored", title=t("Stored"), sortable=True, minor=True),
        Column(name="id", title=t("Message id"), kind="link"),
        Column(name="place", title=t("Queue"), minor=True),
        Column(name="tag", title=t("Tag"), sortable=True, minor=True),
        Column(name="keys", title=t("Keys"), sortable=True, cut=True, width="12%"),
        Column(name="body", title=t("Body"), kind="mono", cut=True, width="46%"),
    ]


def message_row(message: MessageExt) -> Row:
    """A message as tables show it."""
    return {
        "key": message.offset_msg_id,
        "id": short_id(message.msg_id),
        "id__title": message.msg_id,
        "id__href": message_link(message),
        "stored": formats.moment_ms(message.store_timestamp),
        "place": f"{message.queue_id} @ {message.queue_offset:,}",
        "tag": message.tags or "",
        "keys": " ".join(message.keys),
        "body": excerpt(message.body),
    }


def short_id(message_id: str) -> str:
    """Ids of one producer differ at their ends."""
    return f"{message_id[:4]}…{message_id[-10:]}" if len(message_id) > 16 else message_id


def message_link(message: MessageExt) -> str:
    """By where it is stored; by the id its producer gave it, should that place be gone."""
    return link("/message", topic=message.topic, id=message.offset_msg_id, uid=message.msg_id)

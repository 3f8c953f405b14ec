"""All topics: found, made, deleted."""

from typing import Final

from rocketq.admin import topics
from rocketq.admin.cluster import brokers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.console.access import Role
from rocketq.console.catalog import OWN_KINDS, Kind, TopicEntry
from rocketq.console.view import View, link
from rocketq.console.widgets import formats
from rocketq.console.widgets.dialogs import Form, confirmed
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import Chips, button, card, search_box, space, toolbar
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, Row
from rocketq.message.names import InvalidName, validate_topic
from rocketq.remoting.bodies.registration import TopicConfig
from rocketq.remoting.bodies.stats import TopicStatsTable

_REFRESH_S: Final = 10.0
_MOST_QUEUES: Final = 65_536

_TONES: Final = {
    Kind.NORMAL: "good",
    Kind.FIFO: "info",
    Kind.DELAY: "warn",
    Kind.TRANSACTION: "warn",
    Kind.UNSPECIFIED: "calm",
    Kind.RETRY: "calm",
    Kind.DLQ: "bad",
    Kind.SYSTEM: "calm",
}


async def build(view: View) -> None:
    t = view.t
    wanted = view.query.get("q", "")
    with page(view, t("Topics")) as this, card():
        with toolbar():

            async def typed(text: str) -> None:
                nonlocal wanted
                wanted = text
                await table.refresh(from_start=True)

            search_box(t("Name contains"), wanted, typed)
            kinds = Chips(
                {kind.value: t(kind.value.title()) for kind in Kind},
                [kind.value for kind in OWN_KINDS],
                lambda: table.refresh(from_start=True),
            )
            space()
            if view.may(Role.OPERATOR):
                button(t("New topic"), "add", lambda: create(this), mark="new-topic", primary=True)
        actions = [Action("delete", "delete_outline", t("Delete"))]
        table = DataTable(
            t,
            [
                Column(name="name", title=t("Topic"), kind="link", sortable=True, cut=True),
                Column(name="kind", title=t("Kind"), kind="state", sortable=True),
                Column(name="queues", title=t("Queues"), kind="number", sortable=True, minor=True),
                Column(name="perm", title=t("Rights"), minor=True),
                Column(name="messages", title=t("Messages"), kind="number"),
                Column(name="tps", title=t("In /s"), kind="number", minor=True),
                Column(name="last", title=t("Last stored"), minor=True),
                *(
                    [Column(name="act", title="", kind="actions", actions=actions)]
                    if view.may(Role.OPERATOR)
                    else []
                ),
            ],
            lambda ask: find(view, wanted, kinds.on, ask),
            mark="topics",
            sort_by="name",
            empty=t("No topic like that"),
        )

        async def delete(name: str) -> None:
            if await delete_topic(view, name):
                await this.again()

        table.on_action("delete", delete)
        this.every(_REFRESH_S, table.refresh)


async def find(view: View, wanted: str, kinds: set[str], ask: Ask) -> Found:
    """One page of topics: all names are here, figures are asked for only where they show."""
    entries = await view.collector.topics.get(_REFRESH_S)
    text = wanted.lower()
    found = [
        each
        for each in entries.values()
        if each.kind.value in kinds and (not text or text in each.name.lower())
    ]
    match ask.sort_by:
        case "queues":
            found.sort(key=lambda each: each.write_queues, reverse=ask.descending)
        case "kind":
            found.sort(key=lambda each: each.kind.value, reverse=ask.descending)
        case _:
            found.sort(key=lambda each: each.name.lower(), reverse=ask.descending)
    shown = found[ask.first : ask.first + ask.count]
    tables = await view.collector.status_of((each.name for each in shown), _REFRESH_S / 2)
    return Found([_row(view, *both) for both in zip(shown, tables, strict=True)], len(found))


def _row(view: View, entry: TopicEntry, status: TopicStatsTable) -> Row:
    ends = status.offset_table.values()
    last = max((each.last_update_timestamp for each in ends), default=0)
    return {
        "key": entry.name,
        "name": entry.name,
        "name__href": link("/topic", name=entry.name),
        "kind": view.t(entry.kind.value.title()),
        "kind__tone": _TONES[entry.kind],
        "queues": _queues(entry),
        "perm": " ".join(sorted(map(formats.permission, entry.permissions))),
        "messages": formats.number(sum(each.max_offset - each.min_offset for each in ends)),
        "tps": formats.number(status.topic_put_tps),
        "last": formats.moment(last),
    }


def _queues(entry: TopicEntry) -> str:
    if entry.write_queues == entry.read_queues:
        return str(entry.write_queues)
    return f"{entry.write_queues} / {entry.read_queues}"


# Changes


async def create(this: Page) -> None:
    view = this.view
    states = await view.collector.brokers.get(10.0)
    masters = {each.address: each.broker_name for each in states if each.broker_id == 0}
    await change_topic(this, TopicConfig(topic_name="", read_queue_nums=8, write_queue_nums=8),
                       masters, is_new=True)  # fmt: skip


async def change_topic(
    this: Page, config: TopicConfig, masters: dict[str, str], *, is_new: bool
) -> None:
    """A topic's settings in a form, and the change; `masters` are names by address."""
    view, t = this.view, this.view.t
    title = t("New topic") if is_new else t("Change {name}", name=config.topic_name)
    kind = config.attributes.get("message.type", "UNSPECIFIED" if not is_new else "NORMAL")
    with Form(t, title, action=t("Create") if is_new else t("Change")) as form:
        name = form.text(t("Name"), config.topic_name, mark="topic-name")
        if not is_new:
            name.disable()
        form.require(lambda: _is_name(name.value), t("A name of letters, digits, - and _"))
        write = form.number(
            t("Write queues"), config.write_queue_nums, mark="write", low=1, high=_MOST_QUEUES
        )
        read = form.number(
            t("Read queues"), config.read_queue_nums, mark="read", low=1, high=_MOST_QUEUES
        )
        rights = form.choice(
            t("Rights"),
            {6: t("read and write"), 4: t("read"), 2: t("write")},
            config.perm if config.perm in (6, 4, 2) else 6,
            mark="perm",
        )
        kinds = {each.value: t(each.value.title()) for each in OWN_KINDS}
        message_kind = form.choice(
            t("Kind of messages"), kinds, kind if kind in kinds else "UNSPECIFIED", mark="kind"
        )
        order = form.switch(t("Ordered"), config.order, mark="order")
        where = form.choice(t("Brokers"), masters, list(masters), mark="where", many=True)
        form.require(lambda: bool(where.value), t("Choose a broker"))
    if not await form.answered():
        return
    new = TopicConfig(
        topic_name=name.value.strip(),
        read_queue_nums=int(read.value),
        write_queue_nums=int(write.value),
        perm=int(rights.value),
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=bool(order.value),
    )
    # Brokers refuse attributes that have not changed their value for the same kind twice.
    attributes = ""
    if message_kind.value != kind or (is_new and message_kind.value != "UNSPECIFIED"):
        attributes = f"+message.type={message_kind.value}"
    what = "Topic created" if is_new else "Topic changed"
    done = await view.change(
        what,
        new.topic_name,
        lambda: topics.create(view.api, new, where.value, attributes=attributes),
        role=Role.OPERATOR,
    )
    if done:
        await this.again()


def _is_name(text: str | None) -> bool:
    try:
        validate_topic((text or "").strip())
    except InvalidName:
        return False
    return True


async def delete_topic(view: View, name: str) -> bool:
    t = view.t
    text = t("All messages of {name} are lost, on every broker.", name=name)
    if not await confirmed(t, t("Delete the topic?"), text, action=t("Delete"), dangerous=True):
        return False
    return await view.change(
        "Topic deleted", name, lambda: _delete(view.api, name), role=Role.OPERATOR
    )


async def _delete(api: BrokerApi, name: str) -> None:
    for cluster in await brokers.clusters(api):
        await topics.delete(api, name, cluster)

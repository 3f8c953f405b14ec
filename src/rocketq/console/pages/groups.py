"""All consumer groups: how far behind, how many members; made, changed, deleted."""

from dataclasses import replace
from typing import Final

from rocketq.admin import groups
from rocketq.admin.cluster import brokers
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.console.access import Role
from rocketq.console.catalog import GroupEntry, subscribed
from rocketq.console.view import View, link
from rocketq.console.widgets import formats
from rocketq.console.widgets.dialogs import Form, confirmed
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import Chips, button, card, search_box, space, toolbar
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, Row
from rocketq.message.names import InvalidName, validate_group
from rocketq.remoting.bodies.connections import ConsumerConnection
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig

_REFRESH_S: Final = 10.0
_MOST_RETRIES: Final = 10_000
_MODELS: Final = {"CLUSTERING": "shared", "BROADCASTING": "broadcast"}


async def build(view: View) -> None:
    t = view.t
    wanted = view.query.get("q", "")
    with page(view, t("Groups")) as this, card():
        with toolbar():

            async def typed(text: str) -> None:
                nonlocal wanted
                wanted = text
                await table.refresh(from_start=True)

            search_box(t("Name contains"), wanted, typed)
            kinds = Chips(
                {"NORMAL": t("Normal"), "FIFO": t("Ordered"), "SYSTEM": t("System")},
                ["NORMAL", "FIFO"],
                lambda: table.refresh(from_start=True),
            )
            space()
            if view.may(Role.OPERATOR):
                button(t("New group"), "add", lambda: create(this), mark="new-group", primary=True)
        actions = [Action("delete", "delete_outline", t("Delete"))]
        table = DataTable(
            t,
            [
                Column(name="name", title=t("Group"), kind="link", sortable=True, cut=True),
                Column(name="state", title=t("State"), kind="state"),
                Column(name="members", title=t("Members"), kind="number", minor=True),
                Column(name="behind", title=t("Lag"), kind="number", sortable=True),
                Column(name="tps", title=t("Per second"), kind="number", sortable=True),
                Column(name="model", title=t("Model"), minor=True),
                Column(name="topics", title=t("Topics"), minor=True, cut=True),
                *(
                    [Column(name="act", title="", kind="actions", actions=actions)]
                    if view.may(Role.OPERATOR)
                    else []
                ),
            ],
            lambda ask: find(view, wanted, kinds.on, ask),
            mark="groups",
            sort_by="behind",
            descending=True,
            empty=t("No group like that"),
        )

        async def delete(name: str) -> None:
            if await delete_group(view, name):
                await this.again()

        table.on_action("delete", delete)
        this.every(_REFRESH_S, table.refresh)


async def find(view: View, wanted: str, kinds: set[str], ask: Ask) -> Found:
    """One page of groups; who is connected is asked for only where it shows."""
    entries = await view.collector.groups.get(_REFRESH_S)
    text = wanted.lower()
    found = [
        each
        for each in entries.values()
        if _kind(each) in kinds and (not text or text in each.name.lower())
    ]
    match ask.sort_by:
        case "name":
            found.sort(key=lambda each: each.name.lower(), reverse=ask.descending)
        case "tps":
            found.sort(key=lambda each: each.tps, reverse=ask.descending)
        case _:
            found.sort(key=lambda each: each.behind, reverse=ask.descending)
    shown = found[ask.first : ask.first + ask.count]
    members = await view.collector.members_of((each.name for each in shown), _REFRESH_S / 2)
    rows = [_row(view, *both) for both in zip(shown, members, strict=True)]
    return Found(rows, len(found))


def _kind(entry: GroupEntry) -> str:
    if entry.is_system:
        return "SYSTEM"
    return "FIFO" if entry.is_orderly else "NORMAL"


def _row(view: View, entry: GroupEntry, connection: ConsumerConnection | None) -> Row:
    t = view.t
    count = len(connection.connection_set) if connection is not None else 0
    word, tone = (t("online"), "good") if count else (t("offline"), "calm")
    if not entry.is_enabled:
        word, tone = t("stopped"), "bad"
    elif entry.behind > 0 and not count:
        tone = "warn"
    model = (connection.message_model if connection is not None else None) or ""
    return {
        "key": entry.name,
        "name": entry.name,
        "name__href": link("/group", name=entry.name),
        "state": word,
        "state__tone": tone,
        "members": count,
        "behind": formats.number(entry.behind),
        "tps": formats.number(entry.tps),
        "model": t(_MODELS.get(model, "–")),
        "topics": ", ".join(subscribed(entry)),
    }


# Changes


async def create(this: Page) -> None:
    await change_group(this, SubscriptionGroupConfig(group_name=""), is_new=True)


async def change_group(this: Page, config: SubscriptionGroupConfig, *, is_new: bool) -> None:
    """A group's settings in a form, and the change."""
    view, t = this.view, this.view.t
    states = await view.collector.brokers.get(_REFRESH_S)
    masters = {each.address: each.broker_name for each in states if each.broker_id == 0}
    title = t("New group") if is_new else t("Change {name}", name=config.group_name)
    with Form(t, title, action=t("Create") if is_new else t("Change")) as form:
        name = form.text(t("Name"), config.group_name, mark="group-name")
        if not is_new:
            name.disable()
        form.require(lambda: _is_name(name.value), t("A name of letters, digits, - and _"))
        enabled = form.switch(t("May consume"), config.consume_enable, mark="enabled")
        orderly = form.switch(t("Ordered"), config.consume_message_orderly, mark="orderly")
        broadcast = form.switch(
            t("May broadcast"), config.consume_broadcast_enable, mark="broadcast"
        )
        retries = form.number(
            t("Retries before a message is dead"),
            config.retry_max_times,
            mark="retries",
            low=-1,
            high=_MOST_RETRIES,
        )
        queues = form.number(
            t("Retry queues"), config.retry_queue_nums, mark="retry-queues", low=1, high=1024
        )
        where = form.choice(t("Brokers"), masters, list(masters), mark="where", many=True)
        form.require(lambda: bool(where.value), t("Choose a broker"))
    if not await form.answered():
        return
    new = replace(
        config,
        group_name=name.value.strip(),
        consume_enable=bool(enabled.value),
        consume_message_orderly=bool(orderly.value),
        consume_broadcast_enable=bool(broadcast.value),
        retry_max_times=int(retries.value),
        retry_queue_nums=int(queues.value),
    )
    done = await view.change(
        "Group created" if is_new else "Group changed",
        new.group_name,
        lambda: groups.create(view.api, new, where.value),
        role=Role.OPERATOR,
    )
    if done:
        await this.again()


def _is_name(text: str | None) -> bool:
    try:
        validate_group((text or "").strip())
    except InvalidName:
        return False
    return True


async def delete_group(view: View, name: str) -> bool:
    t = view.t
    text = t("{name} forgets how far it has read; its dead letters are lost.", name=name)
    if not await confirmed(t, t("Delete the group?"), text, action=t("Delete"), dangerous=True):
        return False
    return await view.change(
        "Group deleted", name, lambda: _delete(view.api, name), role=Role.OPERATOR
    )


async def _delete(api: BrokerApi, name: str) -> None:
    for cluster in await brokers.clusters(api):
        await groups.delete(api, name, broker=None, cluster=cluster, with_offsets=True)

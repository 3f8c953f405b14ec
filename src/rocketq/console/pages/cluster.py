"""The cluster: brokers, their roles, how far slaves are behind."""

import asyncio
import time
from typing import Final

from rocketq.admin.cluster import name_servers, replication
from rocketq.admin.cluster.brokers import MASTER_ID, BrokerState
from rocketq.common.errors import RocketqError
from rocketq.console.access import Role
from rocketq.console.pages.overview import broker_row
from rocketq.console.view import View
from rocketq.console.widgets import formats
from rocketq.console.widgets.dialogs import confirmed
from rocketq.console.widgets.frame import page
from rocketq.console.widgets.parts import card
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, Row, page_of

_REFRESH_S: Final = 5.0


async def build(view: View) -> None:
    t = view.t
    with page(view, t("Cluster")) as this:
        with card(t("Brokers")):
            actions = [
                Action("close", "block", t("Keep producers off")),
                Action("open", "check_circle_outline", t("Let producers in")),
            ]
            table = DataTable(
                t,
                [
                    Column(name="cluster", title=t("Cluster"), sortable=True, minor=True),
                    Column(name="name", title=t("Broker"), kind="link", sortable=True),
                    Column(name="role", title=t("Role"), kind="state"),
                    Column(name="address", title=t("Address"), kind="mono", minor=True),
                    Column(name="version", title=t("Version"), minor=True),
                    Column(name="into", title=t("In /s"), kind="number"),
                    Column(name="out", title=t("Out /s"), kind="number"),
                    Column(name="today", title=t("Today"), kind="number", minor=True),
                    Column(name="disk", title=t("Disk"), kind="meter", minor=True),
                    Column(name="up", title=t("Up for"), minor=True),
                    *(
                        [Column(name="act", title="", kind="actions", actions=actions)]
                        if view.may(Role.ADMIN)
                        else []
                    ),
                ],
                lambda ask: _brokers(view, ask),
                mark="brokers",
            )
        with card(t("Replication")):
            slaves = DataTable(
                t,
                [
                    Column(name="master", title=t("Master")),
                    Column(name="slave", title=t("Slave"), kind="mono"),
                    Column(name="state", title=t("State"), kind="state"),
                    Column(name="diff", title=t("Behind"), kind="number"),
                    Column(name="speed", title=t("Speed"), kind="number", minor=True),
                    Column(name="at", title=t("Confirmed up to"), kind="number", minor=True),
                ],
                lambda ask: _slaves(view, ask),
                mark="slaves",
                empty=t("No broker has a slave"),
            )

        async def close(address: str) -> None:
            await _change_writing(view, address, is_open=False)

        async def open_again(address: str) -> None:
            await _change_writing(view, address, is_open=True)

        table.on_action("close", close)
        table.on_action("open", open_again)

        async def refresh() -> None:
            await table.refresh()
            await slaves.refresh()

        this.every(_REFRESH_S, refresh)


async def _brokers(view: View, ask: Ask) -> Found:
    states = await view.collector.brokers.get(_REFRESH_S)
    return page_of([_row(view, each) for each in states], ask)


def _row(view: View, state: BrokerState) -> Row:
    boot = state.number("bootTimestamp")
    today = state.number("msgPutTotalTodayNow") - state.number("msgPutTotalTodayMorning")
    return {
        **broker_row(view, state),
        "cluster": state.cluster,
        "address": state.address,
        "version": state.runtime.get("brokerVersionDesc", "–"),
        "today": formats.number(today),
        "up": formats.duration(time.time() * 1000 - boot) if boot else "–",
    }


async def _slaves(view: View, ask: Ask) -> Found:
    states = await view.collector.brokers.get(_REFRESH_S)
    masters = [each for each in states if each.broker_id == MASTER_ID and each.runtime]
    rows = await asyncio.gather(*(_slaves_of(view, each) for each in masters))
    return page_of([row for of_master in rows for row in of_master], ask)


async def _slaves_of(view: View, master: BrokerState) -> list[Row]:
    t = view.t
    try:
        info = await replication.status(view.api, master.address)
    except RocketqError:
        return []
    return [
        {
            "key": f"{master.address} {each.addr}",
            "master": master.broker_name,
            "slave": each.addr,
            "state": t("in sync") if each.in_sync else t("falls behind"),
            "state__tone": "good" if each.in_sync else "bad",
            "diff": formats.size(each.diff),
            "speed": f"{formats.size(each.transferred_byte_in_second)}/s",
            "at": f"{each.slave_ack_offset:,}",
        }
        for each in info.ha_connection_info
    ]


async def _change_writing(view: View, address: str, *, is_open: bool) -> None:
    """What NameServers tell producers about a broker."""
    t = view.t
    states = await view.collector.brokers.get(30.0)
    name = next((each.broker_name for each in states if each.address == address), "")
    if is_open:
        title, text = t("Let producers in?"), t("NameServers offer {name} again.", name=name)
        what, change = "Write permission given", name_servers.add_write_permission
    else:
        title = t("Keep producers off?")
        text = t("NameServers no longer offer {name} to producers; consumers go on.", name=name)
        what, change = "Write permission taken", name_servers.wipe_write_permission
    if await confirmed(t, title, text, action=t("Yes"), dangerous=not is_open):
        await view.change(what, name, lambda: change(view.api, name), role=Role.ADMIN)

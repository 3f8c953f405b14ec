"""All producers that are connected, by group."""

import asyncio
from typing import Final

from rocketq.admin import groups
from rocketq.admin.cluster import brokers
from rocketq.common.errors import RocketqError
from rocketq.console.view import View
from rocketq.console.widgets import formats
from rocketq.console.widgets.frame import page
from rocketq.console.widgets.parts import card, search_box, toolbar
from rocketq.console.widgets.table import Ask, Column, DataTable, Found, Row, page_of
from rocketq.remoting.bodies.connections import ProducerTable
from rocketq.remoting.versions import version_name

_REFRESH_S: Final = 10.0


async def build(view: View) -> None:
    t = view.t
    wanted = ""
    with page(view, t("Producers")) as this, card():
        rows: list[Row] = []

        async def typed(text: str) -> None:
            nonlocal wanted
            wanted = text.lower()
            await table.refresh(from_start=True)

        async def find(ask: Ask) -> Found:
            found = [
                row for row in rows if wanted in row["group"].lower() or wanted in row["client"]
            ]
            return page_of(found, ask)

        async def refresh() -> None:
            nonlocal rows
            rows = await _rows(view)
            await table.refresh()

        with toolbar():
            search_box(t("Group or client contains"), "", typed)
        table = DataTable(
            t,
            [
                Column(name="group", title=t("Group"), sortable=True, cut=True),
                Column(name="client", title=t("Client"), sortable=True, cut=True),
                Column(name="address", title=t("Address"), kind="mono", minor=True),
                Column(name="language", title=t("Language"), sortable=True, minor=True),
                Column(name="version", title=t("Version"), minor=True),
                Column(name="brokers", title=t("Brokers"), minor=True),
                Column(name="seen", title=t("Last seen"), sortable=True),
            ],
            find,
            mark="producers",
            sort_by="group",
            empty=t("No producer is connected"),
        )
        this.every(_REFRESH_S, refresh)


async def _rows(view: View) -> list[Row]:
    """One row for a client of a group, however many brokers it is connected to."""
    addresses = await brokers.addresses(view.api)
    tables = await asyncio.gather(*(_table(view, each) for each in addresses))
    found: dict[tuple[str, str], Row] = {}
    for table in tables:
        for group, clients in table.data.items():
            for client in clients:
                row = found.setdefault(
                    (group, client.client_id),
                    {
                        "key": f"{group} {client.client_id}",
                        "group": group,
                        "client": client.client_id,
                        "address": client.remote_ip.lstrip("/"),
                        "language": client.language,
                        "version": version_name(client.version),
                        "brokers": 0,
                        "seen__sort": 0,
                    },
                )
                row["brokers"] += 1
                row["seen__sort"] = max(row["seen__sort"], client.last_update_timestamp)
                row["seen"] = formats.moment(row["seen__sort"])
    return list(found.values())


async def _table(view: View, address: str) -> ProducerTable:
    try:
        return await groups.producers(view.api, address)
    except RocketqError:
        return ProducerTable()

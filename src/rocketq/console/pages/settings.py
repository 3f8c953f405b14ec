"""NameServers: which ones, their options, and what they keep for others."""

from typing import Final

from nicegui import ui

from rocketq.admin import topics
from rocketq.admin.cluster import name_servers
from rocketq.common.errors import RocketqError
from rocketq.console.access import Role
from rocketq.console.pages.broker import is_secret, shown_value
from rocketq.console.view import View
from rocketq.console.widgets.dialogs import Form, confirmed
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import button, card, facts, grid, search_box, state
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, Row, page_of

_REFRESH_S: Final = 15.0


async def build(view: View) -> None:
    t = view.t
    with page(view, t("Settings")) as this:
        shown = _Settings(this)
        with grid("r-two"):
            with card("NameServer"):
                shown.servers = ui.element("div").classes("r-stack r-servers")
            with card(t("This console")):
                _about(view)
        with card(t("Options of NameServers")):
            shown.options()
        with card(t("Kept at NameServers")) as tools:
            if view.may(Role.ADMIN):
                with tools:
                    button(t("New entry"), "add", shown.put, mark="new-entry")
            shown.kept()
        this.every(_REFRESH_S, shown.refresh)


def _about(view: View) -> None:
    t = view.t
    facts(
        [
            (t("Who"), view.session.user or t("everybody: no broker asks for a login")),
            (t("Role"), t(view.session.role.name.lower())),
            (t("Changes"), t("none: read-only") if view.access.is_read_only else t("allowed")),
        ],
        mark="about",
    )


class _Settings:
    servers: ui.element

    def __init__(self, this: Page) -> None:
        self._page = this
        self._view = this.view
        self._configs: dict[str, dict[str, str]] = {}
        self._kept: list[Row] = []
        self._wanted = ""

    # Parts

    def options(self) -> None:
        t = self._view.t

        async def typed(text: str) -> None:
            self._wanted = text.lower()
            await self._option_table.refresh(from_start=True)

        search_box(t("Name contains"), "", typed)
        actions = [Action("edit", "edit", t("Change"))]
        self._option_table = DataTable(
            t,
            [
                Column(name="server", title="NameServer", kind="mono", minor=True),
                Column(name="name", title=t("Setting"), sortable=True, cut=True),
                Column(name="value", title=t("Value"), kind="mono", cut=True, width="40%"),
                *self._action_column(actions),
            ],
            self._find_options,
            mark="options",
            sort_by="name",
            page_size=15,
        )
        self._option_table.on_action("edit", self._edit)

    def kept(self) -> None:
        t = self._view.t
        actions = [Action("delete", "delete_outline", t("Delete"))]
        self._kept_table = DataTable(
            t,
            [
                Column(name="namespace", title=t("Namespace"), sortable=True),
                Column(name="name", title=t("Key"), sortable=True, cut=True),
                Column(name="value", title=t("Value"), kind="mono", cut=True, width="40%"),
                *self._action_column(actions),
            ],
            self._find_kept,
            mark="kept",
            page_size=15,
            empty=t("Nothing: ordered topics and the like would be here"),
        )
        self._kept_table.on_action("delete", self._delete)

    def _action_column(self, actions: list[Action]) -> list[Column]:
        if not self._view.may(Role.ADMIN):
            return []
        return [Column(name="act", title="", kind="actions", actions=actions)]

    # Data

    async def refresh(self) -> None:
        view, t = self._view, self._view.t
        self._configs = {}
        self.servers.clear()
        with self.servers:
            for address in view.api.name_servers.addresses:
                try:
                    self._configs[address] = await name_servers.config(view.api, address)
                    word, tone = t("answers"), "good"
                except RocketqError as error:
                    word, tone = str(error), "bad"
                with ui.element("div").classes("r-line"):
                    ui.label(address).classes("r-mono")
                    state(word, tone)
        table = await name_servers.settings(view.api, topics.ORDER_NAMESPACE)
        self._kept = [
            {
                "key": f"{topics.ORDER_NAMESPACE}\n{name}",
                "namespace": topics.ORDER_NAMESPACE,
                "name": name,
                "value": value,
            }
            for name, value in sorted(table.items())
        ]
        await self._option_table.refresh()
        await self._kept_table.refresh()

    async def _find_options(self, ask: Ask) -> Found:
        rows: list[Row] = [
            {
                "key": f"{address} {name}",
                "server": address,
                "name": name,
                "value": shown_value(name, value),
            }
            for address, table in self._configs.items()
            for name, value in table.items()
            if self._wanted in name.lower()
        ]
        return page_of(rows, ask)

    async def _find_kept(self, ask: Ask) -> Found:
        return page_of(self._kept, ask)

    # Changes

    async def _edit(self, key: str) -> None:
        view, t = self._view, self._view.t
        address, _, name = key.partition(" ")
        if is_secret(name):
            return
        text = t("At every NameServer. They refuse what they cannot change.")
        with Form(t, t("Change {name}", name=name), action=t("Change"), text=text) as form:
            value = form.text(
                t("Value"), self._configs.get(address, {}).get(name, ""), mark="setting-value"
            )
        if not await form.answered():
            return
        new = (value.value or "").strip()
        done = await view.change(
            "NameServer setting changed",
            f"{name}={new}",
            lambda: name_servers.update_config(view.api, name, new),
            role=Role.ADMIN,
        )
        if done:
            await self._page.again()

    async def put(self) -> None:
        view, t = self._view, self._view.t
        with Form(t, t("New entry"), action=t("Create")) as form:
            space = form.text(t("Namespace"), topics.ORDER_NAMESPACE, mark="namespace")
            name = form.text(t("Key"), mark="entry-key")
            value = form.text(t("Value"), mark="entry-value")
            form.require(lambda: bool(space.value and name.value and value.value), t("All three"))
        if not await form.answered():
            return
        done = await view.change(
            "NameServer entry set",
            f"{space.value} {name.value}={value.value}",
            lambda: name_servers.put_setting(view.api, space.value, name.value, value.value),
            role=Role.ADMIN,
        )
        if done:
            await self._page.again()

    async def _delete(self, key: str) -> None:
        view, t = self._view, self._view.t
        namespace, name = key.split("\n")
        text = f"{namespace} {name}"
        if await confirmed(t, t("Delete the entry?"), text, action=t("Delete"), dangerous=True):
            done = await view.change(
                "NameServer entry deleted",
                text,
                lambda: name_servers.delete_setting(view.api, namespace, name),
                role=Role.ADMIN,
            )
            if done:
                await self._page.again()

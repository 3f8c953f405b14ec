"""One broker: its figures, and its settings to look at and to change."""

from typing import Final

from rocketq.admin.cluster import brokers
from rocketq.admin.errors import UnknownBroker
from rocketq.console.access import Role
from rocketq.console.view import View
from rocketq.console.widgets import formats
from rocketq.console.widgets.dialogs import Form, confirmed
from rocketq.console.widgets.frame import Page, page
from rocketq.console.widgets.parts import Figure, button, card, grid, search_box, toolbar
from rocketq.console.widgets.table import Action, Ask, Column, DataTable, Found, page_of

_REFRESH_S: Final = 10.0
# Whatever sounds like one is not shown, on brokers that send it too.
_SECRETS: Final = ("password", "secret", "credential", "initauthenticationuser", "token")


async def build(view: View) -> None:
    t = view.t
    address = view.query.get("address", "")
    with page(view, address, parent=(t("Cluster"), "/cluster")) as this:
        shown = _BrokerPage(this, address)
        if view.may(Role.ADMIN):
            with toolbar():
                shown.buttons()
        with grid("r-figures"):
            shown.figures()
        with grid("r-two"):
            with card(t("Settings")):
                shown.settings()
            with card(t("Figures")):
                shown.runtime()
        this.every(_REFRESH_S, shown.refresh)


class _BrokerPage:
    def __init__(self, this: Page, address: str) -> None:
        self._page = this
        self._view = this.view
        self._address = address
        self._settings: dict[str, str] = {}
        self._figures: dict[str, str] = {}
        self._wanted = ""
        self._wanted_figure = ""

    # Parts

    def buttons(self) -> None:
        t = self._view.t
        button(t("Clean expired queues"), "cleaning_services", self._clean, mark="clean")

    def figures(self) -> None:
        t = self._view.t
        self._version = Figure(t("Version"), "figure-version")
        self._in = Figure(t("In /s"), "figure-in")
        self._out = Figure(t("Out /s"), "figure-out")
        self._disk = Figure(t("Disk"), "figure-disk")
        self._slow = Figure(t("Longest send"), "figure-slow")

    def settings(self) -> None:
        t = self._view.t

        async def typed(text: str) -> None:
            self._wanted = text.lower()
            await self._setting_table.refresh(from_start=True)

        search_box(t("Name contains"), "", typed)
        actions = [Action("edit", "edit", t("Change"))]
        self._setting_table = DataTable(
            t,
            [
                Column(name="name", title=t("Setting"), sortable=True, cut=True, width="45%"),
                Column(name="value", title=t("Value"), kind="mono", cut=True, width="45%"),
                *(
                    [Column(name="act", title="", kind="actions", actions=actions)]
                    if self._view.may(Role.ADMIN)
                    else []
                ),
            ],
            self._find_settings,
            mark="settings",
            sort_by="name",
        )
        self._setting_table.on_action("edit", self._edit)

    def runtime(self) -> None:
        t = self._view.t

        async def typed(text: str) -> None:
            self._wanted_figure = text.lower()
            await self._figure_table.refresh(from_start=True)

        search_box(t("Name contains"), "", typed, mark="figure-filter")
        self._figure_table = DataTable(
            t,
            [
                Column(name="name", title=t("Figure"), sortable=True, cut=True, width="45%"),
                Column(name="value", title=t("Value"), kind="mono", cut=True, width="55%"),
            ],
            self._find_figures,
            mark="runtime",
            sort_by="name",
        )

    # Data

    async def refresh(self) -> None:
        states = await self._view.collector.brokers.get(_REFRESH_S / 2)
        state = next((each for each in states if each.address == self._address), None)
        if state is None:
            raise UnknownBroker(self._address)
        self._figures = dict(state.runtime)
        self._version.show(state.runtime.get("brokerVersionDesc", "–"))
        self._in.show(formats.number(state.number("putTps")))
        self._out.show(formats.number(state.number("getTransferredTps")))
        self._disk.show(formats.percent(state.number("commitLogDiskRatio")))
        self._slow.show(formats.duration(state.number("putMessageEntireTimeMax")))
        self._settings = await brokers.config(self._view.api, self._address)
        await self._setting_table.refresh()
        await self._figure_table.refresh()

    async def _find_settings(self, ask: Ask) -> Found:
        rows = [
            {"key": name, "name": name, "value": shown_value(name, value)}
            for name, value in self._settings.items()
            if self._wanted in name.lower()
        ]
        return page_of(rows, ask)

    async def _find_figures(self, ask: Ask) -> Found:
        rows = [
            {"key": name, "name": name, "value": value}
            for name, value in self._figures.items()
            if self._wanted_figure in name.lower()
        ]
        return page_of(rows, ask)

    # Changes

    async def _edit(self, name: str) -> None:
        view, t = self._view, self._view.t
        if name not in self._settings or is_secret(name):
            return
        text = t("On {address}, while it runs. It refuses what it cannot change.",
                 address=self._address)  # fmt: skip
        with Form(t, t("Change {name}", name=name), action=t("Change"), text=text) as form:
            value = form.text(t("Value"), self._settings[name], mark="setting-value")
            form.require(lambda: "\n" not in (value.value or ""), t("One line"))
        if not await form.answered():
            return
        new = (value.value or "").strip()
        done = await view.change(
            "Broker setting changed",
            f"{self._address} {name}={new}",
            lambda: brokers.update_config(view.api, self._address, name, new),
            role=Role.ADMIN,
        )
        if done:
            await self._page.again()

    async def _clean(self) -> None:
        view, t = self._view, self._view.t
        text = t("Parts of queues whose messages are gone are removed.")
        if await confirmed(t, t("Clean expired queues?"), text, action=t("Clean")):
            await view.change(
                "Expired queues cleaned",
                self._address,
                lambda: brokers.clean_expired_queues(view.api, self._address),
                role=Role.ADMIN,
            )


def is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRETS)


def shown_value(name: str, value: str) -> str:
    return "••••••" if value and is_secret(name) else value

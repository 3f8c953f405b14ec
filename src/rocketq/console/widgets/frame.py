"""What surrounds every page: the menu, the bar on top, and the place for trouble."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple

from nicegui import ui

from rocketq.common.errors import RocketqError
from rocketq.console.access import Role
from rocketq.console.texts import LANGUAGES
from rocketq.console.view import View, link


class Entry(NamedTuple):
    """One line of the menu."""

    path: str
    icon: str
    title: str
    role: Role = Role.VIEWER


MENU: Final = (
    ("", (
        Entry("/", "insights", "Overview"),
        Entry("/cluster", "dns", "Cluster"),
    )),
    ("Data", (
        Entry("/topics", "topic", "Topics"),
        Entry("/groups", "groups", "Groups"),
        Entry("/producers", "outbox", "Producers"),
        Entry("/messages", "mail", "Messages"),
    )),
    ("Care", (
        Entry("/dead-letters", "report", "Dead letters"),
        Entry("/waiting", "schedule", "Delayed"),
        Entry("/spark", "bolt", "Spark"),
    )),
    ("Administration", (
        Entry("/users", "admin_panel_settings", "Users"),
        Entry("/settings", "tune", "Settings"),
    )),
)  # fmt: skip

# A choice is a cookie, so that a page arrives as it shall look.
_CHOOSE: Final = (
    "document.cookie = '{name}={value}; path=/; max-age=31536000; samesite=strict';"
    " location.reload()"
)
_THEME_SCRIPT: Final = """
<script>
(() => {
  const chosen = (document.cookie.match(/rocketq_theme=(dark|light)/) || [])[1];
  const dark = chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
})();
</script>
"""
_FLIP_THEME: Final = """
const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
document.cookie = 'rocketq_theme=' + next + '; path=/; max-age=31536000; samesite=strict';
document.documentElement.dataset.theme = next;
Quasar.Dark.set(next === 'dark');
"""


def head(style_url: str) -> str:
    """What every page has in its head."""
    return f'<link rel="stylesheet" href="{style_url}">{_THEME_SCRIPT}'


class Page:
    """The inside of a page: its title, its actions, and how it is kept up to date."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._trouble = ui.element("div").classes("r-trouble").mark("trouble")
        self._trouble.set_visibility(False)
        self._refreshes: list[Callable[[], Awaitable[None]]] = []

    def every(self, seconds: float, refresh: Callable[[], Awaitable[None]]) -> None:
        """Call it when the browser is there, and again at intervals while somebody looks."""
        self._refreshes.append(refresh)
        ui.timer(seconds, lambda: self._run(refresh))

    def once(self, load: Callable[[], Awaitable[None]]) -> None:
        """Call it when the browser is there."""
        self._refreshes.append(load)
        ui.timer(0, lambda: self._run(load), once=True)

    async def again(self) -> None:
        """After a change: everything anew."""
        for refresh in self._refreshes:
            await self._run(refresh)

    async def _run(self, refresh: Callable[[], Awaitable[None]]) -> None:
        if self.view.session.is_over:
            ui.navigate.to("/login")
            return
        async with self.trouble():
            await refresh()

    @asynccontextmanager
    async def trouble(self) -> AsyncIterator[None]:
        """Whatever the cluster refuses is said on the page, until it works again."""
        try:
            yield
        except (TimeoutError, RocketqError) as error:
            self._say(str(error) or type(error).__name__)
        else:
            self._trouble.set_visibility(False)

    def _say(self, text: str) -> None:
        self._trouble.clear()
        with self._trouble:
            ui.icon("error_outline")
            ui.label(text)
        self._trouble.set_visibility(True)


@contextmanager
def page(
    view: View, title: str, *, parent: tuple[str, str] | None = None, note: str = ""
) -> Iterator[Page]:
    """Frame and title; the block fills the rest. `parent` is where one came from."""
    t = view.t
    ui.colors(primary="#4c7dff", positive="#16a394", negative="#d5484a", warning="#e09b3d")
    ui.query("body").classes("r-body")
    drawer = ui.left_drawer(top_corner=True, bottom_corner=True, bordered=False).classes("r-drawer")
    drawer.props("width=214 breakpoint=900 show-if-above")
    with drawer:
        _menu(view)
    with ui.header(elevated=False).classes("r-header"):
        ui.button(icon="menu", on_click=drawer.toggle, color=None).props(
            "flat dense round"
        ).classes("r-menu-button")
        _search(view)
        ui.element("div").classes("r-space")
        if view.access.is_read_only:
            ui.label(t("read-only")).classes("r-badge")
        _choices(view)
    with ui.element("main").classes("r-page"):
        with ui.element("div").classes("r-title"):
            if parent is not None:
                ui.link(parent[0], parent[1]).classes("r-crumb")
                ui.label("/").classes("r-crumb-mark")
            ui.label(title).classes("r-h1")
            if note:
                ui.label(note).classes("r-note")
        yield Page(view)


def _menu(view: View) -> None:
    with ui.link(target="/").classes("r-brand"):
        ui.element("span").classes("r-logo")
        ui.label("rocketq")
    for heading, entries in MENU:
        if heading:
            ui.label(view.t(heading)).classes("r-menu-heading")
        for entry in entries:
            classes = "r-menu-entry"
            if _is_active(entry.path, view.path):
                classes += " r-active"
            with ui.link(target=entry.path).classes(classes):
                ui.icon(entry.icon)
                ui.label(view.t(entry.title))
    ui.element("div").classes("r-space")
    names = ", ".join(view.api.addresses)
    with ui.element("div").classes("r-where"):
        ui.label("NameServer")
        ui.label(names)


_BELOW: Final = {"/topic": "/topics", "/group": "/groups", "/client": "/groups",
                 "/message": "/messages", "/broker": "/cluster"}  # fmt: skip


def _is_active(path: str, shown: str) -> bool:
    return _BELOW.get(shown, shown) == path


def _search(view: View) -> None:
    box = ui.input(placeholder=view.t("Topic, group or message id")).classes("r-search")
    box.props("dense borderless debounce=0 clearable input-class=r-search-input")
    with box.add_slot("prepend"):
        ui.icon("search")

    async def go() -> None:
        wanted = (box.value or "").strip()
        if wanted:
            ui.navigate.to(await destination(view, wanted))

    box.on("keydown.enter", go)


async def destination(view: View, wanted: str) -> str:
    """Where somebody wants to go who types this."""
    try:
        topics = await view.collector.topics.get(30.0)
        if wanted in topics:
            return link("/topic", name=wanted)
        groups = await view.collector.groups.get(30.0)
        if wanted in groups:
            return link("/group", name=wanted)
    except RocketqError:
        return link("/topics", q=wanted)
    if len(wanted) == 32 and all(c in "0123456789abcdefABCDEF" for c in wanted):
        return link("/messages", by="id", id=wanted)
    found = any(wanted.lower() in name.lower() for name in topics)
    return link("/topics", q=wanted) if found else link("/groups", q=wanted)


def _choices(view: View) -> None:
    t = view.t
    other = next(code for code in LANGUAGES if code != t.language)
    language = (
        ui.button(LANGUAGES[other], color=None)
        .props("flat dense no-caps")
        .classes("r-choice r-lang")
    )
    language.on("click", js_handler=f"() => {{ {_chosen('rocketq_lang', other)} }}")
    theme = (
        ui.button(icon="contrast", color=None).props("flat dense round").classes("r-choice r-theme")
    )
    theme.tooltip(t("Dark or light"))
    theme.on("click", js_handler=f"() => {{ {_FLIP_THEME} }}")
    # Quasar's own parts follow the page's theme.
    ui.timer(
        0,
        lambda: ui.run_javascript(
            "Quasar.Dark.set(document.documentElement.dataset.theme === 'dark')"
        ),
        once=True,
    )
    if view.session.user:
        user = ui.button(icon="account_circle", color=None).props("flat dense round")
        user.classes("r-choice r-user")
        with user, ui.menu(), ui.element("div").classes("r-user-menu"):
            ui.label(view.session.user).classes("r-strong")
            ui.label(t(view.session.role.name.lower())).classes("r-note")
            ui.link(t("Log out"), "/logout").classes("r-logout")


def _chosen(name: str, value: str) -> str:
    return _CHOOSE.replace("{name}", name).replace("{value}", value)

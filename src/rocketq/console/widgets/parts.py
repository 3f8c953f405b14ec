"""Small parts: cards, figures, facts, tabs of filters."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from nicegui import ui

from rocketq.console.widgets.outcomes import told


@contextmanager
def card(title: str = "", *, classes: str = "") -> Iterator[ui.element]:
    """A panel with a heading; what stands to the right of it goes into the yielded element."""
    with ui.element("section").classes(f"r-card {classes}"):
        tools = ui.element("div").classes("r-card-tools")
        if title:
            with ui.element("div").classes("r-card-head") as head:
                ui.label(title).classes("r-h2")
            tools.move(head)
        yield tools


@contextmanager
def grid(classes: str = "") -> Iterator[None]:
    with ui.element("div").classes(f"r-grid {classes}"):
        yield


@contextmanager
def toolbar() -> Iterator[None]:
    with ui.element("div").classes("r-toolbar"):
        yield


def space() -> None:
    ui.element("div").classes("r-space")


class Figure:
    """One number that matters, with its name above and a remark below."""

    def __init__(self, title: str, mark: str, *, href: str = "") -> None:
        tag = ui.link(target=href) if href else ui.element("div")
        with tag.classes(f"r-figure r-{mark}"):
            ui.label(title).classes("r-figure-title")
            self._value = ui.label("–").classes("r-figure-value")
            self._remark = ui.label("").classes("r-figure-remark")

    def show(self, value: str, remark: str = "", *, tone: str = "") -> None:
        self._value.set_text(value)
        self._remark.set_text(remark)
        self._value.props(f"data-tone={tone or 'none'}")


def facts(pairs: Mapping[str, str] | Iterable[tuple[str, str]], *, mark: str = "facts") -> None:
    """Names and values, one below the other."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    with ui.element("dl").classes(f"r-facts r-{mark}"):
        for name, value in items:
            with ui.element("dt"):
                ui.label(name)
            with ui.element("dd"):
                ui.label(value)


def state(text: str, tone: str) -> None:
    """A word with a dot: good, warn, bad, info or calm."""
    ui.label(text).classes("r-state").props(f"data-tone={tone}")


class Chips:
    """Filters of which any number may be on."""

    def __init__(
        self, names: Mapping[str, str], on: Iterable[str], changed: Callable[[], object]
    ) -> None:
        self._on = set(on)
        self._changed = changed
        self._chips: dict[str, ui.button] = {}
        with ui.element("div").classes("r-chips"):
            for name, title in names.items():
                chip = ui.button(title, on_click=lambda name=name: self._flip(name), color=None)
                chip.props("flat dense no-caps").classes(f"r-chip r-chip-{name.lower()}")
                self._chips[name] = chip
        self._paint()

    @property
    def on(self) -> set[str]:
        return self._on

    async def _flip(self, name: str) -> None:
        self._on ^= {name}
        self._paint()
        await told(self._changed())

    def _paint(self) -> None:
        for name, chip in self._chips.items():
            chip.classes(
                add="r-on" if name in self._on else "",
                remove="r-on" if name not in self._on else "",
            )


def search_box(
    placeholder: str, value: str, changed: Callable[[str], object], *, mark: str = "filter"
) -> ui.input:
    """Asks again when somebody has stopped typing for a moment."""

    async def typed() -> None:
        await told(changed((box.value or "").strip()))

    box = ui.input(placeholder=placeholder, value=value).classes(f"r-filter r-{mark}")
    box.props("dense outlined debounce=250 clearable")
    with box.add_slot("prepend"):
        ui.icon("search")
    box.on_value_change(typed)
    return box


def button(
    title: str, icon: str, on_click: Callable[[], object], *, mark: str, primary: bool = False
) -> ui.button:
    colour = "primary" if primary else None

    async def clicked() -> None:
        await told(on_click())

    made = ui.button(title, icon=icon, on_click=clicked, color=colour)
    made.classes(f"r-button r-{mark}")
    return made.props("unelevated dense no-caps" if primary else "outline dense no-caps")

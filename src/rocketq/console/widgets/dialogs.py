"""Dialogs: every change is asked for once, in one of these."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from rocketq.console.texts import Texts


async def confirmed(
    t: Texts, title: str, text: str, *, action: str, dangerous: bool = False
) -> bool:
    """Ask; whether the answer was yes."""
    with ui.dialog() as dialog, ui.element("div").classes("r-dialog"):
        ui.label(title).classes("r-h2")
        ui.label(text).classes("r-dialog-text")
        with ui.element("div").classes("r-dialog-actions"):
            ui.button(t("Cancel"), on_click=lambda: dialog.submit(False), color=None).props(
                "flat dense no-caps"
            ).classes("r-cancel")
            colour = "negative" if dangerous else "primary"
            ui.button(action, on_click=lambda: dialog.submit(True), color=colour).props(
                "unelevated dense no-caps"
            ).classes("r-confirm")
    answer = await dialog
    dialog.delete()
    return bool(answer)


class Form:
    """A dialog with fields; what it will do stands on its button."""

    def __init__(self, t: Texts, title: str, *, action: str, text: str = "") -> None:
        self._t = t
        self._action = action
        self._checks: list[tuple[Callable[[], bool], str]] = []
        self.dialog = ui.dialog()
        with self.dialog, ui.element("div").classes("r-dialog r-form") as self._body:
            ui.label(title).classes("r-h2")
            if text:
                ui.label(text).classes("r-dialog-text")

    def __enter__(self) -> "Form":
        self._body.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._problem = ui.label("").classes("r-problem")
        with ui.element("div").classes("r-dialog-actions"):
            ui.button(
                self._t("Cancel"), on_click=lambda: self.dialog.submit(False), color=None
            ).props("flat dense no-caps").classes("r-cancel")
            ui.button(self._action, on_click=self._submit).props(
                "unelevated dense no-caps"
            ).classes("r-confirm")
        self._body.__exit__(*error)

    def require(self, check: Callable[[], bool], problem: str) -> None:
        """What must be true before the button does anything."""
        self._checks.append((check, problem))

    def _submit(self) -> None:
        for check, problem in self._checks:
            if not check():
                self._problem.set_text(problem)
                return
        self.dialog.submit(True)

    async def answered(self) -> bool:
        answer = await self.dialog
        return bool(answer)

    # Fields

    def text(self, title: str, value: str = "", *, mark: str, rows: int = 1) -> ui.input:
        field: Any = ui.textarea(title, value=value) if rows > 1 else ui.input(title, value=value)
        if rows > 1:
            field.props(f"rows={rows}")
        field.props("dense outlined").classes(f"r-field r-{mark}")
        return field  # type: ignore[no-any-return]

    def number(
        self, title: str, value: int, *, mark: str, low: int = 0, high: int = 2**31 - 1
    ) -> ui.number:
        field = ui.number(title, value=value, min=low, max=high, precision=0)
        field.props("dense outlined").classes(f"r-field r-{mark}")
        self.require(lambda: field.value is not None and low <= field.value <= high, title)
        return field

    def choice(
        self, title: str, options: dict[Any, str], value: Any, *, mark: str, many: bool = False
    ) -> ui.select:
        field = ui.select(options, label=title, value=value, multiple=many)
        field.props("dense outlined options-dense").classes(f"r-field r-{mark}")
        return field

    def switch(self, title: str, value: bool, *, mark: str) -> ui.switch:
        field = ui.switch(title, value=value)
        field.props("dense").classes(f"r-field r-{mark}")
        return field

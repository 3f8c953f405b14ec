"""Tables whose rows stay on the server until they are looked at.

A page hands in its columns and a function that finds one page of rows. Sorting, searching and
turning pages ask that function again; the browser never gets more than one page.

Values are put in by the browser as text, never as HTML, whatever a name or a message holds.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from nicegui import ui
from nicegui.events import GenericEventArguments

from rocketq.console.texts import Texts
from rocketq.console.widgets.outcomes import told

Row = dict[str, Any]
CellKind = Literal["text", "number", "link", "state", "meter", "mono", "actions"]

PAGE_SIZES: Final = (15, 25, 50, 100)

# `NAME__href`, `NAME__tone` and `NAME__part` are how a cell is shown beside its value.
_CELL: Final = """
<q-td :props="props">
  <a v-if="props.col.kind === 'link' && props.row[props.col.name + '__href']"
     :href="props.row[props.col.name + '__href']" class="r-link"
     :title="props.row[props.col.name + '__title']"
     >{{ props.row[props.col.name] }}</a>
  <span v-else-if="props.col.kind === 'state'" class="r-state"
        :data-tone="props.row[props.col.name + '__tone']">{{ props.row[props.col.name] }}</span>
  <div v-else-if="props.col.kind === 'meter'" class="r-meter"
       :data-tone="props.row[props.col.name + '__tone']">
    <span>{{ props.row[props.col.name] }}</span>
    <i><b :style="{width: props.row[props.col.name + '__part'] + '%'}"></b></i>
  </div>
  <div v-else-if="props.col.kind === 'actions'" class="r-actions">
    <q-btn v-for="act in props.col.actions" flat dense no-caps size="sm" :key="act.name"
           :icon="act.icon" :class="'act-' + act.name" :aria-label="act.label"
           @click.stop="$parent.$emit('act', {name: act.name, key: props.row.key})"
      ><q-tooltip :delay="400">{{ act.label }}</q-tooltip></q-btn>
  </div>
  <span v-else :class="{'r-mono': props.col.kind === 'mono'}"
        :title="props.row[props.col.name + '__title']
                || (props.col.cut ? props.row[props.col.name] : null)"
        >{{ props.row[props.col.name] }}</span>
</q-td>
"""


@dataclass(frozen=True, slots=True)
class Action:
    """A button in each row."""

    name: str
    icon: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. `minor` ones are left out on a phone, `cut` ones end in dots where long."""

    name: str
    title: str
    kind: CellKind = "text"
    sortable: bool = False
    minor: bool = False
    cut: bool = False
    width: str = ""
    actions: Sequence[Action] = ()

    def to_quasar(self) -> dict[str, Any]:
        align = "right" if self.kind in ("number", "actions") else "left"
        classes = " ".join(
            word for word, wanted in (("r-minor", self.minor), ("r-cut", self.cut)) if wanted
        )
        return {
            "name": self.name,
            "label": self.title,
            "field": self.name,
            "align": align,
            "sortable": self.sortable,
            "kind": self.kind,
            "cut": self.cut,
            "classes": classes,
            "style": f"width: {self.width}" if self.width else "",
            "headerClasses": classes,
            "actions": [
                {"name": each.name, "icon": each.icon, "label": each.label} for each in self.actions
            ],
        }


@dataclass(frozen=True, slots=True)
class Ask:
    """Which rows are wanted: `count` of them from `first` on."""

    first: int
    count: int
    sort_by: str
    descending: bool


@dataclass(frozen=True, slots=True)
class Found:
    """One page of rows, and how many there are in all."""

    rows: Sequence[Row]
    total: int


Find = Callable[[Ask], Awaitable[Found]]


def page_of(rows: Sequence[Row], ask: Ask) -> Found:
    """For rows that are all here already: sorted and cut."""
    ordered = list(rows)
    if ask.sort_by:
        ordered.sort(key=lambda row: _sortable(row, ask.sort_by), reverse=ask.descending)
    return Found(ordered[ask.first : ask.first + ask.count], len(rows))


def _sortable(row: Row, name: str) -> tuple[int, float, str]:
    """By `NAME__sort` where a row has it, for values that are shown as text."""
    value = row.get(f"{name}__sort", row.get(name))
    if isinstance(value, int | float):
        return 0, value, ""
    return 1, 0.0, str(value).lower()


class DataTable:
    """A table on a page."""

    def __init__(
        self,
        t: Texts,
        columns: Sequence[Column],
        find: Find,
        *,
        mark: str,
        sort_by: str = "",
        descending: bool = False,
        page_size: int = PAGE_SIZES[1],
        empty: str = "",
        selectable: bool = False,
    ) -> None:
        self._find = find
        self._handlers: dict[str, Callable[[str], Awaitable[None] | None]] = {}
        self._pagination: dict[str, Any] = {
            "page": 1,
            "rowsPerPage": page_size,
            "sortBy": sort_by or None,
            "descending": descending,
            "rowsNumber": 0,
        }
        self.table = ui.table(
            columns=[column.to_quasar() for column in columns],
            rows=[],
            row_key="key",
            selection="multiple" if selectable else None,
            pagination=dict(self._pagination),
            on_pagination_change=self._keep_pagination,
        )
        self.table.classes(f"r-table r-{mark}").props(
            "flat dense binary-state-sort hide-selected-banner"
        )
        self.table.props["rows-per-page-options"] = list(PAGE_SIZES)
        self.table.props["no-data-label"] = empty or t("Nothing here")
        self.table.props["rows-per-page-label"] = t("Rows")
        self.table.add_slot("body-cell", _CELL)
        self.table.add_slot(
            "no-data", '<div class="r-empty"><span>{{ props.message }}</span></div>'
        )
        self.table.on("request", self._requested)
        self.table.on("act", self._acted)

    @property
    def selected(self) -> list[str]:
        return [row["key"] for row in self.table.selected]

    def on_action(self, name: str, handler: Callable[[str], Awaitable[None] | None]) -> None:
        """Called with the key of the row whose button was pressed."""
        self._handlers[name] = handler

    async def refresh(self, *, from_start: bool = False) -> None:
        """Find the rows of this page anew."""
        pagination = dict(self._pagination)
        if from_start:
            pagination["page"] = 1
        await self._show(pagination)

    async def _requested(self, event: GenericEventArguments) -> None:
        wanted = event.args.get("pagination") if isinstance(event.args, dict) else None
        if isinstance(wanted, dict):
            await told(self._show({**self._pagination, **wanted}))

    def _keep_pagination(self) -> None:
        """What the browser thinks of it may be older than the rows it has: the server decides.

        That somebody listens makes Quasar take the number of rows from here at all.
        """
        self.table.pagination = dict(self._pagination)
        self.table.update()

    async def _show(self, pagination: dict[str, Any]) -> None:
        size = _whole(pagination.get("rowsPerPage"), PAGE_SIZES[1])
        size = size if size in PAGE_SIZES else PAGE_SIZES[-1]
        page = max(_whole(pagination.get("page"), 1), 1)
        found = await self._find(_ask(pagination, page, size))
        last = max(-(-found.total // size), 1)
        if page > last:  # rows were deleted meanwhile
            page = last
            found = await self._find(_ask(pagination, page, size))
        pagination |= {"page": page, "rowsPerPage": size, "rowsNumber": found.total}
        self._pagination = pagination
        self.table.pagination = dict(pagination)
        self.table.props["hide-bottom"] = 0 < found.total <= PAGE_SIZES[0]
        self.table.rows = [{"key": str(at), **row} for at, row in enumerate(found.rows)]
        self.table.update()

    async def _acted(self, event: GenericEventArguments) -> None:
        if not isinstance(event.args, dict):
            return
        handler = self._handlers.get(str(event.args.get("name")))
        if handler is not None:
            await told(handler(str(event.args.get("key"))))


def _ask(pagination: dict[str, Any], page: int, size: int) -> Ask:
    return Ask(
        first=(page - 1) * size,
        count=size,
        sort_by=str(pagination.get("sortBy") or ""),
        descending=bool(pagination.get("descending")),
    )


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and 0 < value < 1_000_000 else default

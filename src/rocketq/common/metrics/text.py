"""Points as Prometheus reads them: its text format, version 0.0.4.

There may be hundreds of thousands of series, so a family's line is a template that is made once.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from rocketq.common.metrics.family import Family, Histogram, Point

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


class TextWriter:
    """Turns points into lines. `constant` are labels of every series."""

    def __init__(self, constant: Mapping[str, str]) -> None:
        pairs = (f'{name}="{escaped(constant[name])}"' for name in constant)
        self._constant = ",".join(pairs).replace("%", "%%")
        self._family: Family | None = None
        self._labels = ""
        self._line = ""

    def write(self, point: Point, lines: list[str]) -> None:
        """Add the lines of a point, and before the first of a family what the family is."""
        family = point.family
        if family is not self._family:
            self._begin(family, lines)
        values = point.labels
        if not _are_plain(values):
            values = tuple(map(escaped, values))
        value = point.value
        if isinstance(value, Histogram):
            _write_histogram(family.name, self._labels % values, value, lines)
        else:
            lines.append(self._line % (*values, number(value)))

    def _begin(self, family: Family, lines: list[str]) -> None:
        self._family = family
        own = ",".join(f'{name}="%s"' for name in family.labels)
        self._labels = ",".join(part for part in (self._constant, own) if part)
        braced = f"{{{self._labels}}}" if self._labels else ""
        self._line = f"{family.name}{braced} %s\n"
        lines.append(f"# HELP {family.name} {family.help.translate(_HELP_ESCAPED)}\n")
        lines.append(f"# TYPE {family.name} {family.kind.value}\n")


def _write_histogram(name: str, labels: str, value: Histogram, lines: list[str]) -> None:
    before = f"{labels}," if labels else ""
    braced = f"{{{labels}}}" if labels else ""
    reached = 0
    for bound, count in zip(value.bounds, value.counts, strict=False):
        reached += count
        lines.append(f'{name}_bucket{{{before}le="{number(bound)}"}} {reached}\n')
    reached += value.counts[-1]
    lines.append(f'{name}_bucket{{{before}le="+Inf"}} {reached}\n')
    lines.append(f"{name}_sum{braced} {number(value.sum)}\n")
    lines.append(f"{name}_count{braced} {reached}\n")


def _are_plain(values: tuple[str, ...]) -> bool:
    together = "".join(values)
    return not ("\\" in together or '"' in together or "\n" in together)


def escaped(value: str) -> str:
    """A label's value as it stands between quotes."""
    return value.translate(_ESCAPED)


def number(value: float) -> str:
    """Java's way to write numbers: `5.0` and not `5`, so that texts can be compared."""
    if isinstance(value, int):
        return f"{value:d}.0" if -(2**53) < value < 2**53 else f"{value:d}"
    return repr(value)


def exposition(points: Iterable[Point], constant: Mapping[str, str]) -> str:
    """All of it at once."""
    writer = TextWriter(constant)
    lines: list[str] = []
    for point in points:
        writer.write(point, lines)
    return "".join(lines)

"""Charts. Their colours work on light and on dark pages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nicegui import ui

BLUE: Final = "#4c7dff"
GREEN: Final = "#16a394"
AMBER: Final = "#e09b3d"
RED: Final = "#e0565b"
PURPLE: Final = "#9a6cf0"
COLOURS: Final = (BLUE, GREEN, AMBER, PURPLE, RED, "#3fb0d6", "#c26fa8", "#8aa05a")
_GREY: Final = "#8b96a5"
_LINE: Final = "rgba(139,150,165,.18)"

Points = Sequence[tuple[float, float]]
"""Milliseconds since 1970, and a value."""


def line_chart(mark: str, *, height: int = 190) -> ui.echart:
    """An empty chart over time; `show_lines` fills it."""
    chart = ui.echart(_base()).classes(f"r-chart r-{mark}")
    return chart.style(f"height: {height}px")


def show_lines(
    chart: ui.echart,
    series: Mapping[str, Points],
    *,
    colours: Sequence[str] = COLOURS,
    filled: bool = False,
    top: float | None = None,
    unit: str = "",
    span: tuple[float, float] | None = None,
) -> None:
    """Set what a chart shows; `span` is what of time it shows, in ms."""
    options = chart.options
    options["xAxis"]["min"], options["xAxis"]["max"] = span or (None, None)
    options["yAxis"]["max"] = top
    options["yAxis"]["interval"] = top / 4 if top else None
    options["yAxis"]["axisLabel"][":formatter"] = _axis_formatter(unit)
    options["legend"]["show"] = len(series) > 1
    options["series"] = [
        {
            "name": name,
            "type": "line",
            "showSymbol": len(points) == 1,
            "symbolSize": 5,
            "smooth": 0.15,
            "lineStyle": {"width": 1.6},
            "color": colours[at % len(colours)],
            "areaStyle": {"opacity": 0.10} if filled else None,
            "data": [[round(when), round(value, 3)] for when, value in points],
        }
        for at, (name, points) in enumerate(series.items())
    ]
    chart.update()


def bar_chart(mark: str, *, height: int) -> ui.echart:
    """Lying bars; `show_bars` fills it."""
    options = _base()
    options["xAxis"] = {
        "type": "value",
        "minInterval": 1,
        "axisLabel": {"color": _GREY, "fontSize": 11, "hideOverlap": True},
        "splitLine": {"lineStyle": {"color": _LINE}},
    }
    options["yAxis"] = {
        "type": "category",
        "inverse": True,
        "data": [],
        "axisTick": {"show": False},
        "axisLine": {"lineStyle": {"color": _LINE}},
        "axisLabel": {"color": _GREY, "fontSize": 11, "width": 150, "overflow": "truncate"},
    }
    options["tooltip"] = {"trigger": "item"}
    chart = ui.echart(options).classes(f"r-chart r-{mark}")
    return chart.style(f"height: {height}px")


def show_bars(chart: ui.echart, values: Mapping[str, float], *, colour: str = AMBER) -> None:
    chart.options["yAxis"]["data"] = list(values)
    chart.options["series"] = [
        {
            "type": "bar",
            "barMaxWidth": 12,
            "color": colour,
            "itemStyle": {"borderRadius": [0, 3, 3, 0]},
            "data": [round(value, 3) for value in values.values()],
        }
    ]
    chart.style(f"height: {bars_height(len(values))}px")
    chart.update()


def bars_height(count: int) -> int:
    return 50 + 20 * max(count, 1)


def _base() -> dict[str, Any]:
    return {
        "animation": False,
        "grid": {"left": 8, "right": 14, "top": 26, "bottom": 4, "containLabel": True},
        "textStyle": {"fontFamily": "inherit"},
        "legend": {
            "show": False,
            "right": 6,
            "top": 0,
            "itemWidth": 12,
            "itemHeight": 3,
            "icon": "roundRect",
            "textStyle": {"color": _GREY, "fontSize": 11},
        },
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            "renderMode": "richText",
            "textStyle": {"fontSize": 11},
        },
        "xAxis": {
            "type": "time",
            "axisLine": {"lineStyle": {"color": _LINE}},
            "axisTick": {"show": False},
            "axisLabel": {"color": _GREY, "fontSize": 11, "hideOverlap": True},
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "minInterval": 0,
            "splitNumber": 3,
            "axisLabel": {"color": _GREY, "fontSize": 11},
            "splitLine": {"lineStyle": {"color": _LINE}},
        },
        "series": [],
    }


def _axis_formatter(unit: str) -> str:
    """Short numbers: 1.2k, 3M."""
    if unit == "%":
        return "v => Math.round(v * 100) + ' %'"
    return (
        "v => v >= 1e9 ? +(v/1e9).toFixed(1) + 'G' : v >= 1e6 ? +(v/1e6).toFixed(1) + 'M'"
        " : v >= 1e3 ? +(v/1e3).toFixed(1) + 'k' : +v.toFixed(2)"
    )

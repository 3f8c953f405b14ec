"""Plain charts as SVG: bars per question, lines for how a cost grows."""

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#9aa5b1", "#e4572e", "#f2b134", "#2e86ab")
FONT = 'font-family="sans-serif" font-size="12"'


def bars(title: str, rows: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Groups of horizontal bars, each group on its own scale: the loads differ by orders."""
    names = list(rows[0][1])
    height, left, width = 18, 240, 420
    group = height * len(names) + 14
    total = 60 + group * len(rows)
    out = [head(left + width + 110, total, title)]
    for index, name in enumerate(names):
        x = left + index * 170
        out.append(f'<rect x="{x}" y="30" width="12" height="12" fill="{COLOURS[index]}"/>')
        out.append(f'<text x="{x + 18}" y="41" {FONT}>{escape(name)}</text>')
    for row, (label, values) in enumerate(rows):
        top = 56 + row * group
        out.append(
            f'<text x="{left - 8}" y="{top + 14}" text-anchor="end" {FONT}>{escape(label)}</text>'
        )
        largest = max(values.values()) or 1
        for index, name in enumerate(names):
            length = width * values[name] / largest
            y = top + index * height
            out.append(
                f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{height - 3}" '
                f'fill="{COLOURS[index]}"/>'
            )
            end = left + length + 5
            out.append(f'<text x="{end:.1f}" y="{y + 12}" {FONT}>{figure(values[name])}</text>')
    return "\n".join([*out, "</svg>\n"])


def lines(
    title: str,
    x_name: str,
    y_name: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
) -> str:
    """How a cost grows: the steps of x evenly spaced, as they are chosen by factors."""
    width, height, left, top = 560, 260, 80, 50
    steps = sorted({x for points in series.values() for x, _ in points})
    largest = max((y for points in series.values() for _, y in points), default=1) or 1
    out = [head(left + width + 40, top + height + 60, title)]
    for part in range(5):
        y = top + height - height * part / 4
        out.append(
            f'<line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y + 4}" text-anchor="end" {FONT}>'
            f"{figure(largest * part / 4)}</text>"
        )
    at = {x: left + width * (i + 0.5) / len(steps) for i, x in enumerate(steps)}
    for x, place in at.items():
        out.append(
            f'<text x="{place:.1f}" y="{top + height + 18}" text-anchor="middle" {FONT}>'
            f"{figure(x)}</text>"
        )
    for index, (name, points) in enumerate(series.items()):
        path = " ".join(f"{at[x]:.1f},{top + height - height * y / largest:.1f}" for x, y in points)
        colour = COLOURS[(index + 1) % len(COLOURS)]
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(
            f'<text x="{left + 10 + 170 * index}" y="42" fill="{colour}" {FONT}>'
            f"{escape(name)}</text>"
        )
    out.append(
        f'<text x="{left + width / 2}" y="{top + height + 40}" {FONT}>{escape(x_name)}</text>'
    )
    out.append(f'<text x="8" y="{top - 10}" {FONT}>{escape(y_name)}</text>')
    return "\n".join([*out, "</svg>\n"])


def head(width: float, height: float, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="10" y="20" font-family="sans-serif" font-size="15">{escape(title)}</text>'
    )


def figure(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:.1f} M"
    if value >= 10_000:
        return f"{value / 1_000:.0f} k"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}".rstrip("0").rstrip(".")

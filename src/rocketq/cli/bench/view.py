"""The figures of a load: a line for each side while it runs, a report when it is over."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from rocketq.cli.bench.histogram import Histogram
from rocketq.cli.bench.tally import Tally
from rocketq.common import json

_INTERVAL_S: Final = 0.5
_PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
_LIVE_PERCENTILES: Final = ("p50", "p99", "p99.9")
_MIB: Final = 1 << 20


class LiveView:
    """Lines on stderr that are written over and over; nothing unless that is a terminal."""

    def __init__(self, tallies: Sequence[Tally], *, is_shown: bool | None = None) -> None:
        self._sides = [_Side(tally) for tally in tallies]
        self._is_shown = sys.stderr.isatty() if is_shown is None else is_shown

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Keep the lines up to date for the length of a block, then remove them."""
        if not self._is_shown:
            yield
            return
        print("\n" * len(self._sides), end="", file=sys.stderr)
        task = asyncio.create_task(self._keep_current())
        try:
            yield
        finally:
            task.cancel()
            print(f"\x1b[{len(self._sides)}A\x1b[J", end="", file=sys.stderr, flush=True)

    async def _keep_current(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            lines = [f"\x1b[K{side.line()}\n" for side in self._sides]
            up = f"\x1b[{len(lines)}A"
            print(up + "".join(lines), end="", file=sys.stderr, flush=True)


class _Side:
    """A tally, and what it was when it was last shown."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._messages = 0
        self._latency = tally.latency.copy()
        self._shown_at = time.monotonic()

    def line(self) -> str:
        """The rate and the latencies since the last time, the sums since the beginning."""
        tally, now = self._tally, time.monotonic()
        rate = (tally.messages - self._messages) / max(now - self._shown_at, 1e-9)
        recent = tally.latency.since(self._latency)
        self._messages, self._latency, self._shown_at = tally.messages, tally.latency.copy(), now
        parts = [f"{tally.verb:<9} {tally.messages:>13,}  {rate:>11,.0f}/s"]
        parts += [
            f"{name} {_ms(recent.percentile(_PERCENTILES[name]))}"
            for name in _LIVE_PERCENTILES
            if tally.latency.count
        ]
        if tally.failures:
            parts.append(f"errors {tally.failures:,}")
        return "  ".join(parts)


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f} ms" if microseconds < 100_000 else _seconds(microseconds)


def _seconds(microseconds: float) -> str:
    return f"{microseconds / 1e6:.2f} s"


# The report


def print_report(
    command: str, tallies: Sequence[Tally], *, facts: Mapping[str, object], as_json: bool
) -> None:
    if as_json:
        data = {"command": command, **facts}
        data |= {tally.verb: figures(tally) for tally in tallies}
        print(json.standard_dumps(data).decode())
        return
    for tally in tallies:
        print(_paragraph(tally))


def figures(tally: Tally) -> dict[str, object]:
    """A tally as data; times in milliseconds."""
    found: dict[str, object] = {
        "messages": tally.messages,
        "bytes": tally.bytes,
        "seconds": round(tally.seconds, 3),
        "messages_per_s": round(tally.messages / tally.seconds, 1),
        "mib_per_s": round(tally.bytes / tally.seconds / _MIB, 3),
        "errors": tally.failures,
        "errors_by_kind": dict(tally.errors),
    }
    if tally.latency.count:
        found["latency_ms"] = _latencies(tally.latency)
    return found


def _latencies(histogram: Histogram) -> dict[str, float]:
    found = {"mean": histogram.mean}
    found |= {name: histogram.percentile(percent) for name, percent in _PERCENTILES.items()}
    found["max"] = histogram.largest
    return {name: round(value / 1000, 3) for name, value in found.items()}


def _paragraph(tally: Tally) -> str:
    rate = tally.messages / tally.seconds
    lines = [
        f"{tally.verb:<9} {tally.messages:,} messages in {tally.seconds:.2f} s",
        f"  rate    {rate:,.0f} messages/s, {tally.bytes / tally.seconds / _MIB:,.2f} MiB/s",
    ]
    if tally.latency.count:
        named = {name: tally.latency.percentile(each) for name, each in _PERCENTILES.items()}
        named["max"] = tally.latency.largest
        lines.append("  latency " + "  ".join(f"{name} {_ms(v)}" for name, v in named.items()))
    if tally.failures:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in tally.errors.most_common())
        lines += [f"  errors  {kinds}", f"          the first: {tally.first_error}"]
    else:
        lines.append("  errors  none")
    return "\n".join(lines)

"""Where the figures and the health of a process are asked for, or sent to.

`Monitoring` is one for a process. Each server in it has a `Part` with labels of its own: a
NameServer and a broker that share a process are asked at one address.

Questions cost what they cost, however often they come: an answer is given again for a second,
and only one is made at a time. There is a limit to the series of a family and to all of them;
what is left out is counted.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Final

from rocketq.common import json
from rocketq.common.loop.service import running
from rocketq.common.loop.turns import Turns
from rocketq.common.metrics import process
from rocketq.common.metrics.family import Collector, Family, Point, gauge
from rocketq.common.metrics.health import Check, Health
from rocketq.common.metrics.http import Answer, PageServer
from rocketq.common.metrics.text import CONTENT_TYPE, TextWriter

logger = logging.getLogger(__name__)

_FRESH_S: Final = 1.0
_MOST_SERIES: Final = 200_000
_POINTS_A_BATCH: Final = 64
_LINES_A_PIECE: Final = 256

LEFT_OUT = gauge(
    "rocketq_metrics_series_left_out",
    "Series that were left out because a family, or all of them, had too many.",
    "metric",
)
HEALTHY = gauge("rocketq_healthy", "1 while a check finds nothing wrong, else 0.", "check")

FAMILIES: Final = (*process.FAMILIES, HEALTHY, LEFT_OUT)


class ExporterKind(Enum):
    """RocketMQ's kinds of exporters, by name and number."""

    DISABLE = 0
    OTLP_GRPC = 1
    PROM = 2
    LOG = 3

    @classmethod
    def parse(cls, text: str) -> "ExporterKind":
        """A name or a number."""
        word = text.strip().upper()
        return cls(int(word)) if word.isdecimal() else cls[word]


EXPORTER_KINDS: Final = tuple(
    word for kind in ExporterKind for word in (kind.name, str(kind.value))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSettings:
    """Where figures go."""

    kind: ExporterKind = ExporterKind.DISABLE
    host: str = "127.0.0.1"
    port: int = 5557
    shown_host: str = ""
    """What the URL says, where `host` is not an address that one can go to."""
    series_limit: int = 50_000
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every series, beside those of a part."""
    target: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 3.0
    interval_s: float = 60.0
    batch: int = 1000


def parse_labels(text: str) -> dict[str, str]:
    """RocketMQ's way to write them: `k:v,k:v`."""
    pairs = (pair.partition(":") for pair in text.split(",") if pair.strip())
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


class Part:
    """What one server says of itself."""

    def __init__(self, name: str, labels: Mapping[str, str], monitoring: "Monitoring") -> None:
        self.name = name
        self.labels = dict(labels)
        self._monitoring = monitoring
        self.collectors: list[Collector] = []

    def add(self, families: Iterable[Family], collect: Collector) -> None:
        """Have points of these families asked for; nobody else may have any of them."""
        for family in families:
            self._monitoring.claim(family)
        self.collectors.append(collect)

    def check(self, name: str, check: Check, *, is_needed: bool = True) -> None:
        """Have something asked when somebody wants to know whether all is well."""
        self._monitoring.health.add(f"{self.name}.{name}", check, is_needed=is_needed)


class Monitoring:
    """One for a process. Owned by the loop."""

    def __init__(self, settings: ExporterSettings) -> None:
        self.settings = settings
        self.health = Health()
        self._process = process.ProcessFigures()
        self._parts: list[Part] = []
        self._families: dict[str, Family] = {}
        self._turns = Turns()
        self._making = asyncio.Lock()
        self._text: list[bytes] = []
        self._made_s = 0.0
        self._server: PageServer | None = None
        own = self.part("process", {})
        own.add(process.FAMILIES, self._process.collect)

    @property
    def is_on(self) -> bool:
        return self.settings.kind is not ExporterKind.DISABLE

    @property
    def families(self) -> list[Family]:
        """Everything that may be said, in the order it was declared."""
        return [*self._families.values(), HEALTHY, LEFT_OUT]

    @property
    def parts(self) -> list[Part]:
        return list(self._parts)

    @property
    def url(self) -> str:
        """Where the text is; empty unless it is served."""
        if self._server is None:
            return ""
        host = self.settings.shown_host or self.settings.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self._server.port}/metrics"

    def part(self, name: str, labels: Mapping[str, str]) -> Part:
        """A new part, with labels that all its series have."""
        part = Part(name, {**self.settings.labels, **labels}, self)
        self._parts.append(part)
        return part

    def claim(self, family: Family) -> None:
        assert family.name not in self._families, f"{family.name} is counted twice"
        self._families[family.name] = family

    # Life

    @asynccontextmanager
    async def serving(self, turns: Turns | None = None) -> AsyncIterator["Monitoring"]:
        """Be there to be asked, or send what there is, for the length of a block.

        `turns` are those of the server's other long work.
        """
        if turns is not None:
            self._turns = turns
        if not self.is_on:
            yield self
            return
        async with running("figures of the process", self._process.run), self._exporter():
            yield self

    @asynccontextmanager
    async def _exporter(self) -> AsyncIterator[None]:
        if self.settings.kind is ExporterKind.PROM:
            async with self._pages():
                yield
            return
        # Imported here: what it needs is an extra.
        from rocketq.common.metrics import pushing

        async with running("export of figures", pushing.exporter(self).run):
            yield

    @asynccontextmanager
    async def _pages(self) -> AsyncIterator[None]:
        server = PageServer(
            {
                "/metrics": self._metrics,
                "/livez": self._alive,
                "/readyz": self._ready,
                "/healthz": self._healthy,
            }
        )
        await server.start(self.settings.host, self.settings.port)
        self._server = server
        logger.info("figures at %s", self.url)
        try:
            yield
        finally:
            self._server = None
            await server.stop()

    # Points

    async def points(self) -> AsyncIterator[tuple[Mapping[str, str], list[Point]]]:
        """Everything that is counted, some points of a part at a time, with its labels.

        A few milliseconds a turn, whatever there is.
        """
        limits = _Limits(self.settings.series_limit)
        for part in list(self._parts):
            for collect in list(part.collectors):
                try:
                    async for some in self._turns.over(limits.batches(collect())):
                        if some:
                            yield part.labels, some
                except Exception:
                    # One that cannot be had must not hide the others.
                    logger.exception("figures of %s failed", part.name)
        faults = self.health.faults()
        last = [Point(HEALTHY, (name,), name not in faults) for name in self.health.names]
        last += [Point(LEFT_OUT, (name,), count) for name, count in limits.left_out.items()]
        yield self._parts[0].labels, last

    async def text(self) -> list[bytes]:
        """What Prometheus is told, in pieces; the same for all who ask within a second."""
        async with self._making:
            if not self._text or time.monotonic() - self._made_s >= _FRESH_S:
                self._text = await self._make_text()
                self._made_s = time.monotonic()
            return self._text

    async def _make_text(self) -> list[bytes]:
        pieces: list[bytes] = []
        lines: list[str] = []
        writer, labels = TextWriter({}), None
        async for own, points in self.points():
            if own is not labels:
                writer, labels = TextWriter(own), own
            for point in points:
                writer.write(point, lines)
            if len(lines) >= _LINES_A_PIECE:
                pieces.append("".join(lines).encode())
                lines.clear()
        pieces.append("".join(lines).encode())
        return pieces

    # Pages

    async def _metrics(self) -> Answer:
        return Answer(HTTPStatus.OK, CONTENT_TYPE, await self.text())

    async def _alive(self) -> Answer:
        return _verdict({})

    async def _ready(self) -> Answer:
        return _verdict(self.health.faults(of_ready=True))

    async def _healthy(self) -> Answer:
        return _verdict(self.health.faults())


def _verdict(faults: dict[str, str]) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if faults else HTTPStatus.OK
    body = json.dumps({"status": "failing" if faults else "ok", "faults": faults})
    return Answer(status, "application/json", [body, b"\n"])


class _Limits:
    """Of how many series are said, and how many were not."""

    def __init__(self, of_family: int) -> None:
        self.left_out: dict[str, int] = {}
        self._of_family = of_family
        self._total = 0

    def batches(self, points: Iterable[Point | None]) -> Iterator[list[Point]]:
        """The points, some at a time: each alone would cost more to pass on than to write."""
        family: Family | None = None
        series = 0
        some: list[Point] = []
        try:
            for number, point in enumerate(points):
                if point is None or number % _POINTS_A_BATCH == 0:
                    yield some
                    some = []
                if point is None:
                    continue
                if point.family is not family:
                    family, series = point.family, 0
                series += 1
                self._total += 1
                if series > self._of_family or self._total > _MOST_SERIES:
                    self.left_out[family.name] = self.left_out.get(family.name, 0) + 1
                else:
                    some.append(point)
        except Exception:
            yield some  # what it had said before
            raise
        yield some

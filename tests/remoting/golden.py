"""Frames recorded between real RocketMQ programs (tests/golden/wire)."""

import base64
import functools
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIRE = Path(__file__).parent.parent / "golden" / "wire"
CAPTURES = ("json", "binary-client", "binary-all", "slave", "v4.9.8")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One frame and what its recorder understood of it."""

    capture: str
    number: int
    kind: str
    exchange: str
    frame: bytes
    header: dict[str, Any]
    ext_fields: dict[str, str] | None
    body: bytes

    def __str__(self) -> str:
        return f"{self.capture}#{self.number} {self.exchange} {self.kind}"


@functools.cache
def recorded(capture: str) -> tuple[Recorded, ...]:
    return tuple(_read(capture))


def all_recorded() -> Iterator[Recorded]:
    for capture in CAPTURES:
        yield from recorded(capture)


def first(exchange: str, kind: str, capture: str = "json") -> Recorded:
    """The first frame of its kind."""
    return next(
        each for each in recorded(capture) if (each.exchange, each.kind) == (exchange, kind)
    )


def _read(capture: str) -> Iterator[Recorded]:
    with gzip.open(WIRE / f"{capture}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            frame = base64.b64decode(row["frameB64"])
            yield Recorded(
                capture=capture,
                number=row["n"],
                kind=row["kind"],
                exchange=row["exchange"],
                frame=frame,
                header={
                    name: row[name]
                    for name in ("code", "flag", "opaque", "language", "version", "remark")
                },
                ext_fields=row["extFields"],
                body=frame[len(frame) - row.get("bodyLength", 0) :],
            )

"""The stores that real brokers wrote: their commit logs, and what Java said is in them."""

import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

STORES = Path(__file__).parents[2] / "golden" / "stores"
NAMES = ("store-5.5.0", "store-4.9.8", "store-5.5.0-crashed", "store-5.5.0-timer-pop")


@cache
def manifest(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((STORES / name / "manifest.json").read_bytes())
    return parsed


@cache
def commit_log(name: str) -> bytes:
    """All files of the commit log, joined: a position in it is a physical offset."""
    with tarfile.open(STORES / name / "store.tar.gz") as archive:
        files = sorted(
            (member.name, archive.extractfile(member))
            for member in archive.getmembers()
            if "/commitlog/" in member.name and member.isfile()
        )
        return b"".join(file.read() for _, file in files if file is not None)


def messages(name: str) -> Iterator[dict[str, Any]]:
    yield from manifest(name)["messages"]

"""What real RocketMQ wrote: config files of its stores, and recorded exchanges."""

import base64
import gzip
import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_GOLDEN = Path(__file__).parents[1] / "golden"


def config_file(store: str, name: str, folder: Path) -> tuple[Path, Any]:
    """A config file of a Java broker, unpacked, and its content as fastjson reads it."""
    with tarfile.open(_GOLDEN / "stores" / store / "store.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (path,) = folder.rglob(name)
    recorded = json.loads((_GOLDEN / "stores" / store / "manifest.json").read_text())["config"]
    return path, recorded[next(key for key in recorded if key.endswith(name))]


class Exchange(NamedTuple):
    """A recorded request and what the Java broker answered."""

    scenario: str
    code: int
    ext_fields: dict[str, str]
    body: bytes
    language: str
    version: int
    response_code: int
    response_remark: str | None
    response_ext_fields: dict[str, str]
    response_body: bytes


def exchanges(file: str = "json", link: str = "client-broker") -> list[Exchange]:
    """All request-response pairs of a recording, in order."""
    recorded = frames(file)
    return [
        Exchange(
            scenario=request["scenario"],
            code=request["code"],
            ext_fields=request["extFields"] or {},
            body=_body(request),
            language=request["language"],
            version=request["version"],
            response_code=response["code"],
            response_remark=response["remark"],
            response_ext_fields=response["extFields"] or {},
            response_body=_body(response),
        )
        for response in recorded.values()
        if response["kind"] == "response"
        and response["link"] == link
        and (request := recorded.get(response.get("answers", -1))) is not None
    ]


@cache
def frames(file: str) -> dict[int, dict[str, Any]]:
    """All frames of a recording by their number."""
    with gzip.open(_GOLDEN / "wire" / f"{file}.jsonl.gz", "rt") as lines:
        return {frame["n"]: frame for frame in map(json.loads, lines)}


def _body(frame: dict[str, Any]) -> bytes:
    if frame.get("bodyB64") is not None:
        return base64.b64decode(frame["bodyB64"])
    return str(frame.get("body") or "").encode()


def scenario(name: str, file: str = "json") -> Iterator[Exchange]:
    """The exchanges recorded under one name."""
    return (exchange for exchange in exchanges(file) if exchange.scenario == name)

"""Requests a real client sent and what a real broker answered, to be compared with ours."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from rocketq.common import json
from rocketq.remoting import Command, RequestCode
from rocketq.remoting.wire.frame import decode_frame
from tests.broker import golden

# Objects whose keys are data: of these only the first value's shape matters.
_TABLES = frozenset(
    {
        "attributes",
        "configTable",
        "consumerTable",
        "correctionOffsets",
        "data",
        "forbiddenTable",
        "groupTopicMap",
        "messageRequestModeMap",
        "offsetTable",
        "subscriptionGroupTable",
        "subscriptionTable",
        "table",
        "topicConfigTable",
    }
)


@dataclass(frozen=True)
class Exchange:
    """One request and its answer."""

    scenario: str
    request: Command
    response: Command

    def __str__(self) -> str:
        return f"{RequestCode(self.request.code).name}, {self.scenario}"


def frames(recording: str = "json") -> list[dict[str, Any]]:
    """All frames of a recording, in order."""
    return list(golden.frames(recording).values())


@cache
def exchanges(recording: str = "json") -> list[Exchange]:
    """What clients asked brokers and were answered, in order."""
    asked = {
        frame["n"]: frame
        for frame in frames(recording)
        if frame["kind"] == "request" and frame["link"].startswith("client-broker")
    }
    return [
        Exchange(
            str(frame["scenario"]),
            command(asked[frame["answers"]]),
            command(frame),
        )
        for frame in frames(recording)
        if frame["kind"] == "response"
        and frame.get("answers") in asked
        and asked[frame["answers"]]["dir"] == "c2s"
    ]


def exchange(code: int, scenario: str = "", number: int = 0, recording: str = "json") -> Exchange:
    """The nth exchange of a code, of a scenario if one is named."""
    matching = [
        each
        for each in exchanges(recording)
        if each.request.code == code and (not scenario or each.scenario == scenario)
    ]
    return matching[number]


def command(frame: Mapping[str, Any]) -> Command:
    return decode_frame(base64.b64decode(frame["frameB64"]))


def shape(value: Any, name: str = "") -> Any:
    """What an answer looks like, its data left out."""
    if isinstance(value, Mapping):
        if name in _TABLES:
            return {"*": shape(next(iter(value.values())))} if value else {}
        return {key: shape(inner, key) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "text"


def body_shape(response: Command) -> Any:
    """The shape of a JSON body; what is no JSON is only there or not."""
    if not response.body:
        return None
    try:
        return shape(json.loads(response.body))
    except json.JsonError:
        return "bytes"

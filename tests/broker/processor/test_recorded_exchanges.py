"""What a Java client asked of a Java broker, asked of ours: the answers have the same form.

The requests of a whole recorded session are sent in their order, each over the connection it
came on, byte for byte. Pulls that waited in the recording are left out, as time passes
differently here; so are requests about things this broker does not have yet.
"""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.message.flags import PullFlag
from rocketq.remoting import Command, Connection, Handlers, RemotingClient, RequestCode
from rocketq.remoting.wire.frame import decode_frame
from tests.broker.golden import frames
from tests.broker.harness import TestBroker, running_broker

_PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)

# Answered by clients that were there in the recording and are not here.
_RELAYED = {
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
}
_TIMERS = {
    RequestCode.GET_TIMER_CHECK_POINT,
    RequestCode.GET_TIMER_METRICS,
    RequestCode.RECALL_MESSAGE,
}

_DIFFERENT = {
    "json": {
        153: "a delayed message had arrived by then",
        232: "names a position in the log of the recording",
        473: "names a position in the log of the recording",
        693: "a retried message had arrived by then",
        796: "a message with a delivery time of its own",
    },
    "binary-client": {189: "names a position in the log of the recording"},
}


class RecordingClock:
    """Time as it was when the recording was made: requests name times of that day."""

    def __init__(self, recorded: dict[int, dict[str, Any]]) -> None:
        first_send = next(
            recorded[number]
            for number in sorted(recorded)
            if recorded[number]["exchange"] == "SEND_MESSAGE_V2"
        )
        self._ahead_ms = int(first_send["extFields"]["g"]) - SYSTEM_CLOCK.now_ms()

    def now_ms(self) -> int:
        return SYSTEM_CLOCK.now_ms() + self._ahead_ms

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()


def take_reply(request: Command, connection: Connection) -> Command:
    """A client that takes every reply it is handed."""
    return request.reply()


def is_asked(frame: dict[str, Any]) -> bool:
    """Whether a recorded frame is a request that makes sense here."""
    if frame["link"] != "client-broker" or frame["dir"] != "c2s" or frame["kind"] == "response":
        return False
    code = frame["code"]
    if code in _PULLS and int(frame["extFields"]["sysFlag"]) & PullFlag.SUSPEND:
        return False
    return code not in _RELAYED and code not in _TIMERS and code < 1000


@pytest.mark.parametrize("recording", ["json", "binary-client"])
async def test_the_answers_have_the_recorded_form(recording: str, tmp_path: Path) -> None:
    recorded = frames(recording)
    answers = {frame["answers"]: frame for frame in recorded.values() if "answers" in frame}
    async with running_broker(
        tmp_path,
        clock=RecordingClock(recorded),
        broker_cluster_name="WireCluster",
        broker_name="broker-w",
        default_topic_queue_nums=4,
        enable_property_filter=True,
    ) as broker:
        clients: dict[Any, RemotingClient] = {}
        routes: Handlers = {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: take_reply}
        compared = 0
        different = {}
        for number in sorted(number for number, frame in recorded.items() if is_asked(frame)):
            frame = recorded[number]
            client = clients.setdefault(frame["conn"], RemotingClient(handlers=routes))
            answer = answers.get(number)
            if answer is not None or frame["kind"] == "oneway":
                difference = await difference_in_answer(broker, client, frame, answer)
                compared += 1
                if difference is not None:
                    different[number] = difference
        await asyncio.gather(*(client.close() for client in clients.values()))

    expected = _DIFFERENT.get(recording, {})
    surprising = {n: text for n, text in different.items() if n not in expected}
    assert not surprising, "\n".join(f"{n}: {text}" for n, text in surprising.items())
    assert compared > 20


async def difference_in_answer(
    broker: TestBroker,
    client: RemotingClient,
    frame: dict[str, Any],
    recorded: dict[str, Any] | None,
) -> str | None:
    """Ask, and say how the answer differs from the recorded one."""
    request = decode_frame(base64.b64decode(frame["frameB64"]))
    if recorded is None:
        await client.call_oneway(broker.address, request)
        return None
    answer = await client.call(broker.address, request)
    ours = answer.code, sorted(answer.ext_fields), len(answer.body) > 0
    theirs = (
        recorded["code"],
        sorted(recorded["extFields"] or {}),
        bool(recorded.get("bodyLength") or recorded.get("body")),
    )
    if ours == theirs:
        return None
    return (
        f"{frame['scenario']}, {frame['exchange']}: {theirs} {recorded['remark']}, "
        f"got {ours} {answer.remark}"
    )

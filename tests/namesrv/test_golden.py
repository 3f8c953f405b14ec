"""Recorded conversations with Java's NameServer, held again with ours.

Every request that a real broker, client or mqadmin sent is sent again, byte for byte and in
the same order, and what comes back must say what Java's NameServer said.
"""

import asyncio
import base64
import gzip
import json as standard_json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketq.common import json
from rocketq.common.config import settings
from rocketq.common.metrics.settings import MetricsSettings
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.remoting.access.settings import AccessSettings
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.namesrv import PutKvConfig
from rocketq.remoting.link.settings import EntranceSettings
from rocketq.remoting.tls import TlsSettings
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.frame import decode_frame

WIRE = Path(__file__).parent.parent / "golden" / "wire"
LINKS = {"broker-namesrv", "client-namesrv", "namesrv"}
# What Java's NameServer takes from its system, or does not have.
LIMITS = {
    "maxBrokersPerConnection",
    "maxKvConfigBytes",
    "maxRegisteredBrokers",
    "maxRegisteredTopics",
    "maxRouteEntries",
}
OWN_KEYS = LIMITS.union(
    *map(settings, (MetricsSettings, AccessSettings, TlsSettings, EntranceSettings))
)


class Exchange:
    """A recorded request and the recorded answer to it."""

    def __init__(self, request: dict[str, Any], response: dict[str, Any]) -> None:
        self.request = request
        self.response = response

    @property
    def frame(self) -> bytes:
        return base64.b64decode(self.request["frameB64"])

    @property
    def connection(self) -> tuple[str, int]:
        return self.request["link"], self.request["conn"]


def exchanges(name: str) -> list[Exchange]:
    with gzip.open(WIRE / f"{name}.jsonl.gz", "rt") as lines:
        rows = [standard_json.loads(line) for line in lines]
    requests = {row["n"]: row for row in rows if row["kind"] == "request"}
    answered = [row for row in rows if row["kind"] == "response" and row["link"] in LINKS]
    found = [Exchange(requests[r["answers"]], r) for r in answered if r["answers"] in requests]
    return sorted(found, key=lambda exchange: int(exchange.request["n"]))


class Peer:
    """The other end of one recorded connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, frame: bytes) -> Command:
        self.writer.write(frame)
        head = await self._reader.readexactly(4)
        rest = await self._reader.readexactly(struct.unpack(">i", head)[0])
        return decode_frame(head + rest)


class Peers(dict[tuple[str, int], Peer]):
    """One connection of ours for each recorded one."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    async def set_ordered_topics(self, recorded: list[Exchange]) -> None:
        """Some recorded NameServers had ordered topics from an earlier run."""
        first = next(e for e in recorded if e.request["code"] == RequestCode.REGISTER_BROKER)
        table = json.loads(first.response.get("body", "{}")).get("table", {})
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self._port))
        self["setting up", 0] = peer
        for topic, queues in table.items():
            put = PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key=topic, value=queues)
            await peer.ask(b"".join(Command.request(put).encode()))

    async def ask(self, exchange: Exchange) -> Command:
        if exchange.connection not in self:
            streams = await asyncio.open_connection("127.0.0.1", self._port)
            self[exchange.connection] = Peer(*streams)
        return await self[exchange.connection].ask(exchange.frame)


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    config = NamesrvConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=str(tmp_path / "kvConfig.json"),
        config_store_path=str(tmp_path / "namesrv.properties"),
    )
    server = NameServer(config)
    await server.start()
    peers = Peers(server.port)
    yield peers
    for peer in peers.values():
        peer.writer.close()
        await peer.writer.wait_closed()
    await server.stop()


def comparable(body: object, code: int) -> object:
    """A body as what it means: lists of names have no order, options are compared by key."""
    text = bytes(body) if isinstance(body, bytes | memoryview) else str(body or "").encode()
    if not text:
        return None
    if code == RequestCode.GET_NAMESRV_CONFIG:
        keys = {line.split("=")[0] for line in text.decode().splitlines()}
        return keys - OWN_KEYS
    meaning = json.loads(text)
    if "topicList" in meaning:
        meaning["topicList"] = sorted(meaning["topicList"])
    return meaning


@pytest.mark.parametrize("name", ["json", "binary-all", "binary-client", "slave"])
async def test_a_recorded_session_is_answered_as_java_answered_it(peers: Peers, name: str) -> None:
    recorded_session = exchanges(name)
    await peers.set_ordered_topics(recorded_session)
    for exchange in recorded_session:
        request, recorded = exchange.request, exchange.response
        answer = await peers.ask(exchange)
        where = f"{request['scenario']}: {request['exchange']} (frame {request['n']})"

        assert answer.is_response, where
        assert answer.opaque == request["opaque"], where
        assert answer.code == recorded["code"], (where, answer.remark)
        if recorded["code"] != 0:
            assert answer.remark == recorded["remark"], where
        assert answer.ext_fields == (recorded["extFields"] or {}), where
        code = request["code"]
        assert comparable(answer.body, code) == comparable(recorded.get("body"), code), where
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC and recorded["code"] == 0:
            assert bytes(answer.body).decode() == recorded["body"], where
    assert len(recorded_session) > 50


async def test_an_older_broker_and_its_tools_are_answered(peers: Peers) -> None:
    """Of 4.9.8 only some frames of each kind were kept, so states differ; kinds do not."""
    seen = set()
    for exchange in exchanges("v4.9.8"):
        request, recorded = exchange.request, exchange.response
        answer = await peers.ask(exchange)
        if answer.code != recorded["code"]:
            assert request["code"] == RequestCode.GET_ROUTEINFO_BY_TOPIC
            continue
        seen.add((request["code"], answer.code))
        if recorded["code"] == 0 and request["code"] != RequestCode.REGISTER_BROKER:
            ours = comparable(answer.body, request["code"])
            java = comparable(recorded.get("body"), request["code"])
            assert isinstance(ours, dict) == isinstance(java, dict)
            if isinstance(ours, dict) and isinstance(java, dict):
                assert ours.keys() == java.keys()
    assert {code for code, _ in seen} >= {103, 104, 105, 106, 205, 206, 216}

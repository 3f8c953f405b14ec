"""The way in: how many may come, and whose word counts about who they are."""

import asyncio
import ipaddress
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.common.config import ConfigError
from rocketq.remoting import (
    Command,
    Connection,
    RemotingServer,
    RequestRejected,
    ResponseCode,
    ServerConfig,
)
from rocketq.remoting.link.proxy_protocol import BadPreamble, may_begin, read_preamble
from rocketq.remoting.link.settings import EntranceSettings
from rocketq.remoting.tls import ClientTls, ServerTls, TlsSettings
from tests.remoting.peer import Peer
from tests.waiting import eventually

V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V1 = b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 10911\r\n"


def v2(source: str, port: int = 56_324, command: int = 0x21, extra: bytes = b"") -> bytes:
    address = ipaddress.ip_address(source)
    family = 0x11 if address.version == 4 else 0x21
    rest = address.packed + address.packed + struct.pack(">HH", port, 10_911) + extra
    return V2_SIGNATURE + bytes((command, family)) + struct.pack(">H", len(rest)) + rest


def who(request: Command, connection: Connection) -> Command:
    return request.reply(ext={"peer": connection.peer_address})


@asynccontextmanager
async def served(
    *hooks: Any, tls: TlsSettings | None = None, **entrance: Any
) -> AsyncIterator[RemotingServer]:
    server = RemotingServer(
        {1: who},
        config=ServerConfig(entrance=EntranceSettings(**entrance)),
        tls=ServerTls(tls) if tls is not None else None,
        hooks=hooks,
    )
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop()


async def connected(server: RemotingServer) -> Peer:
    return Peer(*await asyncio.open_connection("127.0.0.1", server.port))


async def peer_seen(server: RemotingServer, preamble: bytes = b"") -> str:
    peer = await connected(server)
    await peer.say(preamble, Command(1))
    seen = (await peer.hear()).ext_fields["peer"]
    await peer.close()
    return seen


# Numbers


async def test_there_are_so_many_connections_in_all() -> None:
    async with served(max_connections=16) as server:
        inside = [await connected(server) for _ in range(16)]
        await eventually(lambda: server.connection_count == 16)
        outside = await connected(server)
        assert await outside.is_hung_up_on()
        await inside[0].close()
        await eventually(lambda: server.connection_count == 15)
        inside[0] = await connected(server)
        await inside[0].say(Command(1))
        assert (await inside[0].hear()).code == 0
        for peer in (*inside, outside):
            await peer.close()


@pytest.mark.parametrize("tls", [None, TlsSettings()])
async def test_there_are_so_many_connections_of_one_address(tls: TlsSettings | None) -> None:
    async with served(max_connections_per_address=3, tls=tls) as server:
        inside = [await connected(server) for _ in range(3)]
        for peer in inside:
            await peer.say(Command(1))
            await peer.hear()
        outside = await connected(server)
        assert await outside.is_hung_up_on()
        for peer in (*inside, outside):
            await peer.close()
        await eventually(lambda: server.connection_count == 0)
        assert await peer_seen(server)


async def test_those_behind_a_proxy_count_for_themselves() -> None:
    async with served(
        max_connections_per_address=1, proxy_protocol_addresses="127.0.0.1"
    ) as server:
        peers = []
        for number in range(3):
            peer = await connected(server)
            await peer.say(v2(f"192.0.2.{number}"), Command(1))
            await peer.hear()
            peers.append(peer)
        again = await connected(server)
        await again.say(v2("192.0.2.1"), Command(1))
        assert await again.is_hung_up_on()
        for peer in (*peers, again):
            await peer.close()


class Lock:
    """Lets nobody in who does not say the word."""

    def before_request(self, peer: str, request: Command) -> None:
        if request.ext_fields.get("word") != "sesame":
            raise RequestRejected(ResponseCode.NO_PERMISSION, "no")

    def after_response(self, peer: str, request: Command, response: Command) -> None: ...


async def test_frames_are_small_until_somebody_has_shown_who_it_is() -> None:
    large = Command(1, ext_fields={"word": "sesame"}, body=bytes(100_000))
    async with served(Lock(), max_frame_length_before_login=4096) as server:
        stranger = await connected(server)
        await stranger.say(large)
        assert await stranger.is_hung_up_on()
        refused = await connected(server)
        await refused.say(Command(1))
        assert (await refused.hear()).code == ResponseCode.NO_PERMISSION
        await refused.say(large)
        assert await refused.is_hung_up_on()
        friend = await connected(server)
        await friend.say(Command(1, ext_fields={"word": "sesame"}))
        assert (await friend.hear()).code == 0
        await friend.say(large)
        assert (await friend.hear()).code == 0
        for peer in (stranger, refused, friend):
            await peer.close()


# Proxies


@pytest.mark.parametrize(
    ("preamble", "seen"),
    [
        (V1, "192.0.2.7:56324"),
        (b"PROXY TCP6 2001:db8::7 ::1 56324 10911\r\n", "[2001:db8::7]:56324"),
        (v2("192.0.2.7"), "192.0.2.7:56324"),
        (v2("192.0.2.7", extra=b"\x04\x00\x02ab"), "192.0.2.7:56324"),
        (v2("2001:db8::7"), "[2001:db8::7]:56324"),
        (b"", "127.0.0.1"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (V2_SIGNATURE + b"\x20\x00\x00\x00", "127.0.0.1"),
    ],
)
@pytest.mark.parametrize("tls", [None, TlsSettings()])
async def test_a_trusted_proxy_says_whose_connection_it_is(
    preamble: bytes, seen: str, tls: TlsSettings | None
) -> None:
    async with served(tls=tls, proxy_protocol_addresses="10.0.0.0/8, 127.0.0.1") as server:
        assert (await peer_seen(server, preamble)).startswith(seen)


async def test_a_preamble_may_come_in_pieces() -> None:
    async with served(proxy_protocol_addresses="127.0.0.0/8") as server:
        for preamble in (V1, v2("192.0.2.7")):
            peer = await connected(server)
            for byte in preamble + b"".join(Command(1).encode()):
                await peer.say(bytes((byte,)))
            assert (await peer.hear()).ext_fields["peer"] == "192.0.2.7:56324"
            await peer.close()


async def test_an_encrypted_connection_comes_through_a_proxy() -> None:
    async with served(tls=TlsSettings(), proxy_protocol_addresses="127.0.0.1") as server:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", server.port)
        transport.write(v2("192.0.2.7"))
        encrypted = await loop.start_tls(transport, protocol, ClientTls().context())
        assert encrypted is not None
        encrypted.write(b"".join(Command(1).encode()))
        async with asyncio.timeout(10):
            assert b"192.0.2.7:56324" in await reader.read(65_536)
        encrypted.close()


@pytest.mark.parametrize("preamble", [V1, v2("192.0.2.7")])
async def test_nobody_else_is_believed(preamble: bytes) -> None:
    async with served(proxy_protocol_addresses="192.0.2.99") as server:
        peer = await connected(server)
        await peer.say(preamble, Command(1))
        assert await peer.is_hung_up_on()
        await peer.close()


@pytest.mark.parametrize(
    "wrong",
    [
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        b"PROXY TCP4 ::1 ::1 1 1\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 99999 1\r\n",
        b"PROXY UDP4 1.2.3.4 1.2.3.4 1 1\r\n",
        b"PROXY " + b"x" * 200,
        V2_SIGNATURE + b"\x31\x11\x00\x0c" + bytes(12),
        V2_SIGNATURE + b"\x21\x11\x00\x04" + bytes(4),
        V2_SIGNATURE + b"\x21\x11\xff\xff" + bytes(4),
    ],
)
async def test_a_wrong_preamble_is_hung_up_on(wrong: bytes) -> None:
    async with served(proxy_protocol_addresses="127.0.0.1") as server:
        peer = await connected(server)
        await peer.say(wrong)
        assert await peer.is_hung_up_on()
        await peer.close()


@given(st.binary(max_size=300), st.sampled_from([b"", b"PROXY ", V1[:20], V2_SIGNATURE]))
def test_any_bytes_are_read_or_refused(data: bytes, start: bytes) -> None:
    data = start + data
    if not may_begin(data):
        return
    try:
        found = read_preamble(data)
    except BadPreamble:
        return
    assert found is None or found.size <= len(data)


@given(st.ip_addresses(), st.integers(0, 65_535), st.binary(max_size=50))
def test_what_proxies_write_is_read(
    source: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, rest: bytes
) -> None:
    line = f"PROXY TCP{source.version} {source} {source} {port} 1\r\n".encode()
    for preamble in (line, v2(str(source), port)):
        found = read_preamble(preamble + rest)
        assert found is not None
        assert found.size == len(preamble)
        assert found.source == (str(source), port)


def test_addresses_that_are_none_stop_the_start() -> None:
    with pytest.raises(ConfigError, match="proxyProtocolAddresses"):
        RemotingServer(
            {}, config=ServerConfig(entrance=EntranceSettings(proxy_protocol_addresses="a"))
        )

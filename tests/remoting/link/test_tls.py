"""Encrypted connections on the port of plain ones, over real sockets."""

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketq.common.config import ConfigError
from rocketq.remoting import (
    Command,
    ConnectFailed,
    Connection,
    RemotingClient,
    RemotingClientConfig,
    RemotingServer,
    ServerConfig,
    next_opaque,
)
from rocketq.remoting.link.settings import EntranceSettings
from rocketq.remoting.tls import ClientTls, ServerTls, TlsMode, TlsSettings
from rocketq.remoting.tls.certificates import client_tls
from rocketq.remoting.tls.settings import ClientAuth, with_tls_file
from tests.certificates import Authority, Issued
from tests.remoting.peer import Peer
from tests.waiting import eventually

ANYBODY = ClientTls()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "stranger")


@pytest.fixture(scope="module")
def server_files(authority: Authority) -> Issued:
    return authority.issue("server")


def settings(files: Issued | None = None, **more: Any) -> TlsSettings:
    if files is not None:
        more["tls_test_mode_enable"] = False
        more["tls_server_cert_path"] = str(files.certificate)
        more["tls_server_key_path"] = str(files.key)
    return TlsSettings(**more)


def echo(request: Command, connection: Connection) -> Command:
    return request.reply(body=request.body, ext={"peer": connection.peer_address})


@asynccontextmanager
async def served(tls: TlsSettings | None, **entrance: Any) -> AsyncIterator[RemotingServer]:
    server = RemotingServer(
        {1: echo},
        config=ServerConfig(entrance=EntranceSettings(**entrance)),
        tls=ServerTls(tls) if tls is not None else None,
    )
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop(grace_s=3)


@asynccontextmanager
async def calling(server: RemotingServer, tls: ClientTls | None) -> AsyncIterator["Caller"]:
    # Short times: a server that hangs up is not called again.
    client = RemotingClient(RemotingClientConfig(connect_timeout_millis=5_000), tls=tls)
    try:
        yield Caller(client, f"127.0.0.1:{server.port}")
    finally:
        await client.close()


class Caller:
    def __init__(self, client: RemotingClient, address: str) -> None:
        self.client = client
        self.address = address

    async def say(self, body: bytes = b"hello") -> Command:
        return await self.client.call(
            self.address, Command(1, opaque=next_opaque(), body=body), timeout_s=20
        )


async def said(server: RemotingServer, tls: ClientTls | None, body: bytes = b"hello") -> bytes:
    async with calling(server, tls) as caller:
        return bytes((await caller.say(body)).body)


# The three modes


async def test_plain_and_encrypted_clients_share_a_port() -> None:
    async with served(settings()) as server:
        assert await said(server, None) == b"hello"
        assert await said(server, ANYBODY) == b"hello"


async def test_enforcing_refuses_what_is_plain() -> None:
    async with served(settings(tls_server_mode=TlsMode.enforcing)) as server:
        assert await said(server, ANYBODY) == b"hello"
        peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        await peer.say(Command(1))
        assert await peer.is_hung_up_on()
        await peer.close()


@pytest.mark.parametrize("tls", [settings(tls_server_mode=TlsMode.disabled), None])
async def test_disabled_refuses_what_is_encrypted(tls: TlsSettings | None) -> None:
    async with served(tls) as server:
        assert await said(server, None) == b"hello"
        async with calling(server, ANYBODY) as caller:
            with pytest.raises(ConnectFailed):
                await caller.say()


@pytest.mark.parametrize("size", [0, 1, 70_000, 8_000_000])
async def test_frames_of_every_size_get_through(size: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    async with served(settings()) as server:
        assert await said(server, ANYBODY, body[:size]) == body[:size]


async def test_many_calls_at_once_on_one_connection() -> None:
    async with served(settings()) as server, calling(server, ANYBODY) as caller:
        bodies = [b"%d" % number * 100 for number in range(500)]
        replies = await asyncio.gather(*(caller.say(body) for body in bodies))
        assert [bytes(reply.body) for reply in replies] == bodies
        assert server.connection_count == 1


async def test_a_peer_that_reads_late_gets_everything() -> None:
    """More than sockets hold: writing has to stop and go on."""
    async with served(settings()) as server:
        context = ANYBODY.context()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        peer = Peer(reader, writer)
        asked = [Command(1, opaque=opaque, body=bytes(2_000_000)) for opaque in range(8)]
        saying = asyncio.ensure_future(peer.say(*asked))
        await eventually(lambda: server.connection_count == 1)
        (connection,) = server.connections
        await eventually(lambda: connection.is_write_paused)
        heard = [await peer.hear() for _ in range(8)]
        await saying
        assert sorted(reply.opaque for reply in heard) == list(range(8))
        assert all(len(reply.body) == 2_000_000 for reply in heard)
        await peer.close()


async def test_the_first_bytes_may_come_one_by_one() -> None:
    async with served(settings()) as server:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        machine = ANYBODY.context().wrap_bio(incoming, outgoing)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while True:
            try:
                machine.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    writer.write(bytes((byte,)))
                    await writer.drain()
                incoming.write(await reader.read(65_536))
        machine.write(b"".join(Command(1, opaque=5, body=b"slow").encode()))
        for byte in outgoing.read():
            writer.write(bytes((byte,)))
            await writer.drain()
        heard = b""
        while b"slow" not in heard:
            incoming.write(await reader.read(65_536))
            try:
                heard += machine.read(65_536)
            except ssl.SSLWantReadError:
                pass
        writer.close()


async def test_a_server_that_stops_says_goodbye_to_its_encrypted_clients() -> None:
    async with served(settings()) as server:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=ANYBODY.context()
        )
        peer = Peer(reader, writer)
        await peer.say(Command(1, opaque=1))
        assert (await peer.hear()).opaque == 1
        stopping = asyncio.ensure_future(server.stop(grace_s=5))
        assert await reader.read() == b""  # and no error: it was not cut short
        await peer.close()
        await stopping


async def test_a_client_that_says_goodbye_is_gone() -> None:
    async with served(settings()) as server:
        _reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=ANYBODY.context()
        )
        await eventually(lambda: server.connection_count == 1)
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: server.connection_count == 0)
        assert await said(server, ANYBODY) == b"hello"


async def test_a_damaged_record_ends_its_own_connection_only() -> None:
    async with served(settings()) as server, calling(server, ANYBODY) as caller:
        await caller.say()
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.setblocking(False)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        machine = ANYBODY.context().wrap_bio(incoming, outgoing)
        reader, writer = await asyncio.open_connection(sock=sock)
        done = False
        while not done:
            try:
                machine.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            writer.write(outgoing.read())
            if not done:
                incoming.write(await reader.read(65_536))
        machine.write(b"".join(Command(1).encode()))
        record = bytearray(outgoing.read())
        record[-3] ^= 1
        writer.write(record)
        while await reader.read(65_536):
            pass
        writer.close()
        assert bytes((await caller.say(b"still here")).body) == b"still here"


# Certificates


async def test_a_server_shows_its_certificate_and_clients_check_it(
    authority: Authority, stranger: Authority, server_files: Issued
) -> None:
    async with served(settings(server_files)) as server:
        assert await said(server, ClientTls(trust=str(authority.certificate))) == b"hello"
        checked = ClientTls(trust=str(authority.certificate), check_hostname=True)
        assert await said(server, checked) == b"hello"
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await said(server, ClientTls(trust=str(stranger.certificate)))


async def test_a_certificate_for_somebody_else_is_refused_where_names_are_checked(
    authority: Authority,
) -> None:
    other = authority.issue("other", names="DNS:elsewhere.example")
    async with served(settings(other)) as server:
        assert await said(server, ClientTls(trust=str(authority.certificate))) == b"hello"
        with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1"):
            await said(server, ClientTls(trust=str(authority.certificate), check_hostname=True))


async def test_the_certificate_for_tests_proves_nothing(authority: Authority) -> None:
    async with served(settings()) as server:
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await said(server, ClientTls(trust=str(authority.certificate)))


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
async def test_clients_may_have_to_show_a_certificate(
    authority: Authority, stranger: Authority, server_files: Issued, protocol: str
) -> None:
    wanted = settings(
        server_files,
        tls_server_need_client_auth=ClientAuth.require,
        tls_server_auth_client=True,
        tls_server_trust_cert_path=str(authority.certificate),
    )
    known, unknown = authority.issue(f"client-{protocol}"), stranger.issue(f"client-{protocol}")
    async with served(wanted) as server:
        for files in (None, unknown):
            shown = ClientTls(
                certificate=str(files.certificate) if files else "",
                key=str(files.key) if files else "",
                protocols=protocol,
            )
            with pytest.raises(Exception, match=r"alert|lost|closed|reset|eof|EOF"):
                await said(server, shown)
        shown = ClientTls(
            certificate=str(known.certificate), key=str(known.key), protocols=protocol
        )
        assert await said(server, shown) == b"hello"
        assert server.connection_count == 0 or await eventually(
            lambda: server.connection_count == 0
        )


async def test_a_key_may_be_locked(authority: Authority) -> None:
    locked = authority.issue("locked", password="open sesame")
    right = settings(locked, tls_server_key_password="open sesame")
    assert "open sesame" not in repr(right)
    async with served(right) as server:
        assert await said(server, ANYBODY) == b"hello"
    for password in ("", "wrong"):
        with pytest.raises(ConfigError, match="locked") as refused:
            ServerTls(settings(locked, tls_server_key_password=password))
        assert "wrong" not in str(refused.value)


@pytest.mark.parametrize("old", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_nothing_below_1_2(old: ssl.TLSVersion) -> None:
    async with served(settings()) as server:
        context = ANYBODY.context()
        with pytest.warns(DeprecationWarning, match="deprecated"):
            context.minimum_version = context.maximum_version = old
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", server.port, ssl=context)


async def test_changed_files_count_for_new_connections(
    authority: Authority, tmp_path: Path
) -> None:
    before, after = authority.issue("before"), authority.issue("after")
    place = Issued(tmp_path / "server.crt", tmp_path / "server.key")
    shutil.copy(before.certificate, place.certificate)
    shutil.copy(before.key, place.key)
    tls = ServerTls(settings(place))
    server = RemotingServer({1: echo}, tls=tls)
    await server.start("127.0.0.1", 0)
    trusting = ClientTls(trust=str(authority.certificate))
    try:
        async with calling(server, trusting) as caller:
            await caller.say()
            assert await shown_name(server, trusting) == "before"
            shutil.copy(after.certificate, place.certificate)
            await tls.look()  # the key does not fit yet
            assert await shown_name(server, trusting) == "before"
            shutil.copy(after.key, place.key)
            await tls.look()
            assert await shown_name(server, trusting) == "after"
            place.key.unlink()
            await tls.look()
            assert await shown_name(server, trusting) == "after"
            assert bytes((await caller.say(b"old friend")).body) == b"old friend"
    finally:
        await server.stop(grace_s=3)


async def shown_name(server: RemotingServer, tls: ClientTls) -> str:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls.context())
    shown = writer.get_extra_info("peercert")
    writer.close()
    await writer.wait_closed()
    (name,) = [value for part in shown["subject"] for key, value in part if key == "commonName"]
    return str(name)


async def test_a_running_server_looks_at_its_files_by_itself(
    authority: Authority, tmp_path: Path
) -> None:
    before, after = authority.issue("early"), authority.issue("late")
    place = Issued(tmp_path / "server.crt", tmp_path / "server.key")
    shutil.copy(before.certificate, place.certificate)
    shutil.copy(before.key, place.key)
    tls = ServerTls(settings(place))
    first = tls.context()
    stop = asyncio.Event()
    looking = asyncio.ensure_future(tls.run(stop))
    shutil.copy(after.certificate, place.certificate)
    shutil.copy(after.key, place.key)
    await eventually(lambda: tls.context() is not first)
    stop.set()
    await looking


# Strangers


async def test_a_handshake_has_to_end_in_time() -> None:
    async with served(settings(), tls_handshake_timeout_millis=100) as server:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        await peer.say(b"\x16\x03\x01\x02\x00")
        assert await peer.is_hung_up_on()
        await peer.close()
        assert server.connection_count == 0


async def test_there_are_so_many_handshakes_at_a_time() -> None:
    async with served(settings(), max_tls_handshakes=3) as server:
        waiting = []
        for _ in range(3):
            peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
            await peer.say(b"\x16\x03\x01\x02\x00")
            waiting.append(peer)
        await eventually(lambda: server.handshake_count == 3)
        async with calling(server, ANYBODY) as caller:
            with pytest.raises(ConnectFailed):
                await caller.say()
        assert await said(server, None) == b"hello"  # plain clients are not concerned
        await waiting[0].close()
        await eventually(lambda: server.handshake_count == 2)
        assert await said(server, ANYBODY) == b"hello"
        for peer in waiting[1:]:
            await peer.close()


async def test_who_says_nothing_is_hung_up_on() -> None:
    server = RemotingServer(
        {1: echo},
        config=ServerConfig(server_channel_max_idle_time_seconds=1),
        tls=ServerTls(settings()),
    )
    await server.start("127.0.0.1", 0)
    peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
    assert await peer.is_hung_up_on()
    await peer.close()
    await server.stop()


async def test_a_server_stops_in_the_middle_of_handshakes() -> None:
    async with served(settings()) as server:
        peers = [Peer(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(4)]
        await peers[0].say(b"\x16\x03\x01\x02\x00")
        await peers[1].say(b"\x16")
        await eventually(lambda: server.handshake_count == 2)
        await server.stop()
        for peer in peers:
            assert await peer.is_hung_up_on()
            await peer.close()


async def test_a_long_handshake_is_cut_off() -> None:
    async with served(settings()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        record = b"\x16\x03\x01\x40\x00" + b"\x01\x0f\xff\xff" + bytes(16_380)
        try:
            for _ in range(64):
                writer.write(record)
                await writer.drain()
        except ConnectionError:
            pass
        peer = Peer(reader, writer)
        assert await peer.is_hung_up_on()
        await peer.close()


# Settings


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"tls_test_mode_enable": False}, "tls.server.certPath and tls.server.keyPath"),
        ({"tls_server_cert_path": "/a"}, "tls.test.mode.enable=false"),
        ({"tls_server_auth_client": True}, "tls.test.mode.enable=false"),
        ({"tls_server_need_client_auth": ClientAuth.require}, "tls.test.mode.enable=false"),
        ({"tls_config_file": "/not/there"}, "no such file"),
        (
            {
                "tls_test_mode_enable": False,
                "tls_server_cert_path": "/not/there.crt",
                "tls_server_key_path": "/not/there.key",
            },
            "/not/there.crt",
        ),
    ],
)
def test_what_cannot_be_meant_stops_the_start(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        ServerTls(TlsSettings(**wrong))


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"tls_server_need_client_auth": ClientAuth.require}, "any certificate would do"),
        ({"tls_server_auth_client": True}, "tls.server.trustCertPath"),
        (
            {"tls_server_auth_client": True, "tls_server_trust_cert_path": "/a"},
            "need.client.auth=require or optional",
        ),
        ({"tls_protocols": "SSLv3"}, "TLSv1.2, TLSv1.3"),
        ({"tls_ciphers": "NONE-SUCH"}, "none of them is known"),
    ],
)
def test_what_checks_nothing_stops_the_start(
    server_files: Issued, more: dict[str, Any], what: str
) -> None:
    with pytest.raises(ConfigError, match=what):
        ServerTls(settings(server_files, **more))


def test_a_file_of_their_own_counts_before_other_settings(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(
        "tls.test.mode.enable=false\ntls.server.certPath=/here\ntls.server.mode=disabled\n"
        "tls.enable=true\ntls.server.need.client.auth=optional\n"
    )
    found = with_tls_file(TlsSettings(tls_config_file=str(file), tls_server_cert_path="/there"))
    assert (found.tls_test_mode_enable, found.tls_server_cert_path) == (False, "/here")
    assert found.tls_server_need_client_auth is ClientAuth.optional
    assert (found.tls_server_mode, found.tls_enable) == (TlsMode.permissive, False)


@pytest.mark.parametrize(
    ("more", "is_encrypted"),
    [
        ({}, False),
        ({"tls_enable": True}, True),
        ({"use_tls": True}, True),
        ({"tls_server_mode": TlsMode.enforcing}, True),
    ],
)
def test_own_connections_are_encrypted_where_that_is_asked_for(
    more: dict[str, Any], is_encrypted: bool
) -> None:
    assert (client_tls(TlsSettings(**more)) is not None) is is_encrypted

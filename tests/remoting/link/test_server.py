"""A server over real sockets, spoken to byte by byte."""

import asyncio
import logging
import socket

import pytest

from rocketq.remoting import (
    Command,
    Connection,
    RemotingServer,
    RequestRejected,
    ResponseCode,
    RunHandler,
    SerializeType,
    ServerConfig,
)
from tests.remoting.peer import serving
from tests.waiting import eventually


def echo(request: Command, connection: Connection) -> Command:
    return request.reply(body=request.body, ext=request.ext_fields)


async def test_a_request_is_answered_in_its_own_form() -> None:
    async with serving({1: echo}) as (_, connect):
        peer = await connect()
        for form in SerializeType:
            await peer.say(
                Command(1, opaque=-7, ext_fields={"k": "ü"}, body=b"abc", serialize_type=form)
            )
            reply = await peer.hear()
            assert (reply.code, reply.opaque, reply.is_response) == (0, -7, True)
            assert (reply.ext_fields, reply.body) == ({"k": "ü"}, b"abc")
            assert reply.serialize_type == form


async def test_an_unknown_code_is_answered_as_java_does() -> None:
    async with serving({}) as (_, connect):
        peer = await connect()
        await peer.say(Command(9999, opaque=1))
        reply = await peer.hear()
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert reply.remark == " request type 9999 not supported"


async def test_exceptions_become_response_codes(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(request: Command, connection: Connection) -> Command:
        raise RequestRejected(ResponseCode.NO_PERMISSION, "not you")

    async def fail(request: Command, connection: Connection) -> Command:
        raise KeyError("x")

    async with serving({1: refuse, 2: fail}) as (_, connect):
        peer = await connect()
        await peer.say(Command(1, opaque=1), Command(2, opaque=2))
        with caplog.at_level(logging.ERROR):
            replies = {reply.opaque: reply for reply in [await peer.hear(), await peer.hear()]}
    assert (replies[1].code, replies[1].remark) == (ResponseCode.NO_PERMISSION, "not you")
    assert (replies[2].code, replies[2].remark) == (ResponseCode.SYSTEM_ERROR, "KeyError: 'x'")
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_oneway_requests_are_handled_and_not_answered() -> None:
    seen: list[int] = []

    def handle(request: Command, connection: Connection) -> Command:
        seen.append(request.opaque)
        return request.reply()

    async def handle_later(request: Command, connection: Connection) -> Command:
        seen.append(request.opaque)
        return request.reply()

    async with serving({1: handle, 2: handle_later}) as (_, connect):
        peer = await connect()
        await peer.say(
            Command(1, opaque=1, flag=2),
            Command(2, opaque=2, flag=2),
            Command(99, opaque=3, flag=2),
            Command(1, opaque=4),
        )
        reply = await peer.hear()
        assert reply.opaque == 4
        await eventually(lambda: seen == [1, 4, 2])


async def test_a_request_may_be_held_and_answered_later() -> None:
    held: list[tuple[Command, Connection]] = []

    def hold(request: Command, connection: Connection) -> None:
        held.append((request, connection))

    async with serving({1: hold, 2: echo}) as (_, connect):
        peer = await connect()
        await peer.say(Command(1, opaque=1), Command(2, opaque=2))
        assert (await peer.hear()).opaque == 2
        ((request, connection),) = held
        connection.send(request.reply(remark="at last"))
        reply = await peer.hear()
        assert (reply.opaque, reply.remark) == (1, "at last")


async def test_a_run_of_requests_is_handled_together_and_answered_in_one_write() -> None:
    runs: list[list[int]] = []

    def handle_run(requests: list[Command], connection: Connection) -> list[Command]:
        runs.append([request.opaque for request in requests])
        return [request.reply() for request in reversed(requests) if request.opaque != 3]

    async with serving({1: RunHandler(handle_run), 2: echo}) as (server, connect):
        peer = await connect()
        await eventually(lambda: server.connections)
        # While the loop is not at it, everything gathers in the socket.
        frames = [Command(1, opaque=opaque) for opaque in (1, 2, 3)]
        frames += [Command(2, opaque=4), Command(1, opaque=5), Command(0, opaque=6, flag=1)]
        frames += [Command(1, opaque=7)]
        peer.writer.write(b"".join(b"".join(frame.encode()) for frame in frames))
        replies = [(await peer.hear()).opaque for _ in range(5)]
    assert runs == [[1, 2, 3], [5], [7]]
    assert replies == [2, 1, 4, 5, 7]


async def test_a_run_that_fails_refuses_each_of_its_requests() -> None:
    def handle_run(requests: list[Command], connection: Connection) -> list[Command]:
        raise RequestRejected(ResponseCode.SYSTEM_BUSY, "busy")

    async with serving({1: RunHandler(handle_run)}) as (_, connect):
        peer = await connect()
        await peer.say(Command(1, opaque=1), Command(1, opaque=2, flag=2), Command(1, opaque=3))
        replies = [await peer.hear(), await peer.hear()]
        assert [(reply.opaque, reply.code) for reply in replies] == [(1, 2), (3, 2)]


class Hook:
    """Notes what it sees; refuses what is marked."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_request(self, peer: str, request: Command) -> None:
        self.seen.append(f"before {request.opaque}")
        if "refuse" in request.ext_fields:
            raise RequestRejected(ResponseCode.NO_PERMISSION, "hook")

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        self.seen.append(f"after {request.opaque} {response.code}")
        response.ext_fields["hooked"] = peer


async def test_hooks_see_every_request_and_reply() -> None:
    hook = Hook()

    def handle_run(requests: list[Command], connection: Connection) -> list[Command]:
        return [request.reply() for request in requests]

    async def later(request: Command, connection: Connection) -> Command:
        return request.reply()

    async with serving({1: echo, 2: RunHandler(handle_run), 3: later}, None, hook) as (_, connect):
        peer = await connect()
        await peer.say(
            Command(1, opaque=1),
            Command(1, opaque=2, ext_fields={"refuse": "1"}),
            Command(2, opaque=3),
            Command(2, opaque=4, ext_fields={"refuse": "1"}),
            Command(2, opaque=5),
            Command(3, opaque=6),
        )
        replies = [await peer.hear() for _ in range(6)]
    assert {reply.opaque: reply.code for reply in replies} == {1: 0, 2: 16, 3: 0, 4: 16, 5: 0, 6: 0}
    assert all(reply.ext_fields["hooked"].startswith("127.0.0.1:") for reply in replies)
    assert [seen for seen in hook.seen if seen.startswith("before")] == [
        f"before {opaque}" for opaque in range(1, 7)
    ]
    assert len(hook.seen) == 12


async def test_reading_stops_while_the_peer_does_not_read_and_goes_on_afterwards() -> None:
    handled = 0

    def handle(request: Command, connection: Connection) -> Command:
        nonlocal handled
        handled += 1
        return request.reply(body=bytes(100_000))

    config = ServerConfig(write_buffer_high_water_mark=500_000)
    async with serving({1: handle}, config) as (server, connect):
        peer = await connect()
        total = 400
        # The reader's own buffer is small, so that replies pile up at the server.
        peer.reader._limit = 1000  # type: ignore[attr-defined]
        saying = asyncio.ensure_future(
            peer.say(*(Command(1, opaque=opaque, body=bytes(20_000)) for opaque in range(total)))
        )
        (connection,) = await connections_of(server)
        await eventually(lambda: connection.is_write_paused)
        stopped_at = handled
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert handled <= stopped_at + 30 < total
        opaques = [(await peer.hear()).opaque for _ in range(total)]
        await saying
    assert opaques == list(range(total))


async def connections_of(server: RemotingServer) -> frozenset[Connection]:
    await eventually(lambda: server.connections)
    return server.connections


async def test_a_connection_has_only_so_many_handlers_at_work() -> None:
    release = asyncio.Event()
    running = most = 0

    async def slow(request: Command, connection: Connection) -> Command:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return request.reply()

    config = ServerConfig(handlers_per_connection=3)
    async with serving({1: slow, 2: echo}, config) as (server, connect):
        peer, other = await connect(), await connect()
        await peer.say(*(Command(1, opaque=opaque) for opaque in range(10)))
        await eventually(lambda: running == 3)
        # Others are not held up.
        await other.say(Command(2, opaque=1))
        assert (await other.hear()).opaque == 1
        await peer.say(Command(2, opaque=10))
        release.set()
        opaques = [(await peer.hear()).opaque for _ in range(11)]
    assert most == 3
    assert sorted(opaques) == list(range(11))
    assert server.accepted_count == 2


async def test_handlers_that_wait_for_the_peer_do_not_keep_its_answers_out() -> None:
    async def ask_back(request: Command, connection: Connection) -> Command:
        answer = await connection.call(Command.request(2), 10)
        return request.reply(remark=answer.remark)

    config = ServerConfig(handlers_per_connection=2)
    async with serving({1: ask_back}, config) as (_, connect):
        peer = await connect()
        await peer.say(*(Command(1, opaque=-opaque) for opaque in range(1, 7)))
        answered = 0
        while answered < 6:
            heard = await peer.hear()
            if heard.is_response:
                assert heard.remark == "from the peer"
                answered += 1
            else:
                await peer.say(heard.reply(remark="from the peer"))


async def test_stopping_answers_what_was_accepted() -> None:
    release = asyncio.Event()
    accepted = 0

    async def slow(request: Command, connection: Connection) -> Command:
        nonlocal accepted
        accepted += 1
        await release.wait()
        return request.reply(body=bytes(1_000_000))

    config = ServerConfig(handlers_per_connection=2)
    async with serving({1: slow}, config) as (server, connect):
        peer = await connect()
        await peer.say(*(Command(1, opaque=opaque) for opaque in range(5)))
        await eventually(lambda: accepted == 2)
        stopping = asyncio.ensure_future(server.stop(grace_s=10))
        await asyncio.sleep(0)
        await peer.say(Command(1, opaque=99))
        release.set()
        replies = [await peer.hear() for _ in range(5)]
        await stopping
        assert sorted(reply.opaque for reply in replies) == [0, 1, 2, 3, 4]
        assert await peer.is_hung_up_on()


async def test_stopping_cuts_off_whoever_takes_too_long() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def endless(request: Command, connection: Connection) -> Command:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return request.reply()

    async with serving({1: endless}) as (server, connect):
        peer = await connect()
        await peer.say(Command(1))
        await started.wait()
        await server.stop(grace_s=0.01)
        assert await peer.is_hung_up_on()
        await asyncio.wait_for(cancelled.wait(), 10)
        assert server.connection_count == 0


async def test_idle_connections_are_closed_and_busy_ones_kept() -> None:
    closed: list[Connection] = []
    release = asyncio.Event()

    async def slow(request: Command, connection: Connection) -> Command:
        await release.wait()
        return request.reply()

    server = RemotingServer(
        {1: slow},
        config=ServerConfig(server_channel_max_idle_time_seconds=1),
        on_close=closed.append,
    )
    await server.start("127.0.0.1", 0)
    idle = await asyncio.open_connection("127.0.0.1", server.port)
    busy = await asyncio.open_connection("127.0.0.1", server.port)
    busy[1].write(b"".join(Command(1, opaque=1).encode()))
    assert await idle[0].read() == b""
    assert len(closed) == 1
    assert server.connection_count == 1
    release.set()
    assert await busy[0].read(4)
    for _, writer in (idle, busy):
        writer.close()
        await writer.wait_closed()
    await server.stop()


async def test_connections_are_counted_and_announced() -> None:
    connected: list[Connection] = []
    closed: list[Connection] = []
    server = RemotingServer({}, on_connect=connected.append, on_close=closed.append)
    await server.start("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await eventually(lambda: connected)
    (connection,) = connected
    assert server.connections == {connection}
    assert connection.peer == writer.get_extra_info("sockname")
    assert connection.peer_address == f"127.0.0.1:{connection.peer[1]}"
    assert connection.local == ("127.0.0.1", server.port)
    called: list[Connection] = []
    connection.on_close(called.append)
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: closed)
    assert called == [connection]
    connection.on_close(called.append)
    assert called == [connection, connection]
    assert connection.is_closing
    connection.send(Command(1))  # swallowed
    await server.stop()
    await server.stop()


async def test_a_taken_port_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = RemotingServer({})
        with pytest.raises(OSError, match=r"(?i)address already in use"):
            await server.start("127.0.0.1", taken.getsockname()[1])
        await server.stop()

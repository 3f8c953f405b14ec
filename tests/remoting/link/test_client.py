"""A client over real sockets."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import pytest_asyncio

from rocketq.remoting import (
    Command,
    ConnectFailed,
    Connection,
    ConnectionLost,
    RemotingClient,
    RemotingClientConfig,
    RemotingError,
    RemotingServer,
    RequestRejected,
    RequestTimeout,
    ResponseCode,
    ServerConfig,
    TooManyRequests,
    check,
    split_address,
)
from rocketq.remoting.link.connection import join_address
from tests.remoting.peer import serving
from tests.waiting import eventually


def echo(request: Command, connection: Connection) -> Command:
    return request.reply(body=request.body, remark=str(request.opaque))


def swallow(request: Command, connection: Connection) -> None:
    """Never answer."""


def address_of(server: RemotingServer) -> str:
    return f"127.0.0.1:{server.port}"


@pytest_asyncio.fixture
async def client() -> AsyncIterator[RemotingClient]:
    client = RemotingClient()
    yield client
    await client.close()


async def test_calls_share_one_connection_and_are_answered_in_any_order(
    client: RemotingClient,
) -> None:
    gates = {opaque: asyncio.Event() for opaque in range(3)}

    async def wait(request: Command, connection: Connection) -> Command:
        await gates[int(request.ext_fields["n"])].wait()
        return request.reply(ext=request.ext_fields)

    async with serving({1: wait}) as (server, _):
        calls = [
            asyncio.ensure_future(
                client.call(address_of(server), Command.request(1, ext={"n": str(n)}))
            )
            for n in range(3)
        ]
        for n in (2, 0, 1):
            gates[n].set()
            reply = await calls[n]
            assert reply.ext_fields == {"n": str(n)}
        assert server.accepted_count == 1
        assert client.connection_count == 1


async def test_futures_and_calls_may_be_mixed_in_thousands(client: RemotingClient) -> None:
    async with serving({1: echo}) as (server, _):
        address = address_of(server)
        await client.call(address, Command.request(1))
        requests = [Command.request(1, b"x" * 100) for _ in range(2000)]
        replies = await asyncio.gather(*[client.send(address, request) for request in requests])
        assert [reply.opaque for reply in replies] == [request.opaque for request in requests]
        assert all(reply.remark == str(reply.opaque) for reply in replies)


async def test_a_future_may_come_before_the_connection(client: RemotingClient) -> None:
    async with serving({1: echo}) as (server, _):
        futures = [client.send(address_of(server), Command.request(1)) for _ in range(3)]
        assert len(await asyncio.gather(*futures)) == 3
        assert server.accepted_count == 1


async def test_a_call_that_is_not_answered_times_out_and_leaves_nothing_behind(
    client: RemotingClient,
) -> None:
    async with serving({1: swallow, 2: echo}) as (server, _):
        address = address_of(server)
        await client.connect(address)
        started = time.monotonic()
        with pytest.raises(RequestTimeout) as caught:
            await client.call(address, Command.request(1), timeout_s=0.05)
        assert time.monotonic() - started >= 0.05
        assert caught.value.retriable
        connection = client.connection_to(address)
        assert connection is not None
        assert connection.pending_calls == 0
        # The connection is as good as before.
        await client.call(address, Command.request(2))


async def test_a_connection_that_is_silent_for_the_time_of_a_call_gets_no_further_ones(
    client: RemotingClient,
) -> None:
    """Its other end may be gone without a word, and nobody would tell for a quarter of an hour."""
    held: list[tuple[Command, Connection]] = []

    def hold(request: Command, connection: Connection) -> None:
        held.append((request, connection))

    async with serving({1: swallow, 2: echo, 3: hold}) as (server, _):
        address = address_of(server)
        silent = await client.connect(address)
        patient = asyncio.ensure_future(client.call(address, Command.request(3), timeout_s=30))
        with pytest.raises(RequestTimeout):
            await client.call(address, Command.request(1), timeout_s=1)
        assert client.connection_to(address) is None
        await client.call(address, Command.request(2))
        assert server.accepted_count == 2
        # Whoever still waits may get his answer; then it is closed.
        ((request, connection),) = held
        connection.send(request.reply(body=b"late"))
        assert (await patient).body == b"late"
        await asyncio.wait_for(silent.closed(), 30)
        assert client.connection_count == 1


async def test_a_connection_on_which_others_are_answered_stays(client: RemotingClient) -> None:
    async with serving({1: swallow, 2: echo}) as (server, _):
        address = address_of(server)
        connection = await client.connect(address)
        unanswered = asyncio.ensure_future(client.call(address, Command.request(1), timeout_s=1))
        await asyncio.sleep(0)
        await client.call(address, Command.request(2))
        with pytest.raises(RequestTimeout):
            await unanswered
        assert client.connection_to(address) is connection


async def test_a_client_can_be_told_to_keep_silent_connections() -> None:
    client = RemotingClient(RemotingClientConfig(client_close_socket_if_timeout=False))
    async with serving({1: swallow}) as (server, _):
        connection = await client.connect(address_of(server))
        with pytest.raises(RequestTimeout):
            await client.call(address_of(server), Command.request(1), timeout_s=1)
        assert client.connection_to(address_of(server)) is connection
    await client.close()


async def test_late_answers_are_dropped(client: RemotingClient) -> None:
    held: list[tuple[Command, Connection]] = []

    def hold(request: Command, connection: Connection) -> None:
        held.append((request, connection))

    async with serving({1: hold, 2: echo}) as (server, _):
        address = address_of(server)
        await client.connect(address)
        with pytest.raises(RequestTimeout):
            await client.call(address, Command.request(1), timeout_s=0.01)
        await eventually(lambda: held)
        ((request, connection),) = held
        connection.send(request.reply())
        await client.call(address, Command.request(2))


async def test_a_cancelled_call_leaves_nothing_behind(client: RemotingClient) -> None:
    async with serving({1: swallow}) as (server, _):
        address = address_of(server)
        connection = await client.connect(address)
        call = asyncio.ensure_future(client.call(address, Command.request(1), timeout_s=60))
        await eventually(lambda: connection.pending_calls == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert connection.pending_calls == 0


async def test_pending_calls_fail_at_once_when_the_connection_drops(
    client: RemotingClient,
) -> None:
    def hang_up(request: Command, connection: Connection) -> None:
        connection.abort()

    async with serving({1: swallow, 2: hang_up, 3: echo}) as (server, _):
        address = address_of(server)
        await client.connect(address)
        pending = [client.send(address, Command.request(1), 60) for _ in range(5)]
        pending.append(client.send(address, Command.request(2), 60))
        results = await asyncio.wait_for(asyncio.gather(*pending, return_exceptions=True), 10)
        assert [type(result) for result in results] == [ConnectionLost] * 6
        # The next call connects anew.
        await client.call(address, Command.request(3))
        assert server.accepted_count == 2


async def test_nobody_there_is_said_at_once_and_again_while_backing_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    client = RemotingClient(RemotingClientConfig(reconnect_delay_millis=60_000))
    errors = []
    for _ in range(2):
        with pytest.raises(ConnectFailed) as caught:
            await client.call(address, Command.request(1))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert errors[0].startswith(f"cannot connect to {address}")
    with pytest.raises(ConnectFailed):
        await client.call_oneway(address, Command.request(1))
    with pytest.raises(ConnectFailed):
        await client.send(address, Command.request(1))
    await client.close()


async def test_after_the_back_off_the_address_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    address = f"127.0.0.1:{port}"
    client = RemotingClient(
        RemotingClientConfig(reconnect_delay_millis=1, reconnect_delay_max_millis=2)
    )
    with pytest.raises(ConnectFailed):
        await client.call(address, Command.request(1))
    server = RemotingServer({1: echo})
    await server.start("127.0.0.1", port)
    async with asyncio.timeout(10):
        while True:
            try:
                await client.call(address, Command.request(1))
            except ConnectFailed:
                await asyncio.sleep(0.001)
            else:
                break
    await client.close()
    await server.stop()


@pytest.mark.parametrize("address", ["nonsense", "host:", "host:port", ":"])
async def test_an_address_that_is_none_is_a_failure_to_connect(
    client: RemotingClient, address: str
) -> None:
    with pytest.raises(ConnectFailed):
        await client.call(address, Command.request(1))


def test_addresses_are_split() -> None:
    assert split_address("10.0.0.1:10911") == ("10.0.0.1", 10911)
    assert split_address("[::1]:9876") == ("::1", 9876)
    for address in ("10.0.0.1:10911", "[::1]:9876"):
        assert join_address(*split_address(address)) == address


async def test_oneway_requests_arrive(client: RemotingClient) -> None:
    seen: list[Command] = []

    def note(request: Command, connection: Connection) -> Command:
        seen.append(request)
        return request.reply()

    async with serving({1: note, 2: echo}) as (server, _):
        address = address_of(server)
        await client.call_oneway(address, Command.request(1, b"one"))
        await client.call_oneway(address, Command.request(1, b"two"))
        await client.call(address, Command.request(2))
        assert [bytes(request.body) for request in seen] == [b"one", b"two"]
        assert all(request.is_oneway for request in seen)


async def test_only_so_many_calls_may_be_under_way() -> None:
    client = RemotingClient(RemotingClientConfig(client_async_semaphore_value=3))
    async with serving({1: swallow, 2: echo}) as (server, _):
        address = address_of(server)
        await client.connect(address)
        futures = [client.send(address, Command.request(1), 0.02) for _ in range(3)]
        with pytest.raises(TooManyRequests):
            await client.call(address, Command.request(2))
        with pytest.raises(TooManyRequests):
            client.send(address, Command.request(2))
        await asyncio.gather(*futures, return_exceptions=True)
        await client.call(address, Command.request(2))
    await client.close()


async def test_the_peer_may_ask_too() -> None:
    def answer(request: Command, connection: Connection) -> Command:
        return request.reply(remark=f"client got {request.code}")

    client = RemotingClient(handlers={40: answer})

    async def ask_back(request: Command, connection: Connection) -> Command:
        first = await connection.call(Command.request(40))
        second = await connection.call(Command.request(41))
        return request.reply(remark=f"{first.remark}; {second.code}")

    async with serving({1: ask_back}) as (server, _):
        reply = await client.call(address_of(server), Command.request(1))
        assert reply.remark == "client got 40; 3"
    await client.close()


async def test_the_same_number_in_both_directions_is_not_confused() -> None:
    def answer(request: Command, connection: Connection) -> Command:
        return request.reply(remark="from the client")

    client = RemotingClient(handlers={2: answer})

    async def ask_back(request: Command, connection: Connection) -> Command:
        question = Command.request(2)
        question.opaque = request.opaque
        reply = await connection.call(question)
        return request.reply(remark=f"{reply.remark}, and the server")

    async with serving({1: ask_back}) as (server, _):
        reply = await client.call(address_of(server), Command.request(1))
        assert reply.remark == "from the client, and the server"
    await client.close()


class Signing:
    """Signs requests, and looks at responses."""

    def __init__(self) -> None:
        self.responses: list[int] = []

    def before_request(self, peer: str, request: Command) -> None:
        request.ext_fields["Signature"] = f"for {peer}"

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        self.responses.append(response.code)
        if response.code == ResponseCode.NO_PERMISSION:
            raise RequestRejected(response.code, "signature refused")


async def test_hooks_sign_requests_and_see_responses() -> None:
    hook = Signing()
    client = RemotingClient(hooks=[hook])
    signatures: list[str] = []

    def note(request: Command, connection: Connection) -> Command:
        signatures.append(request.ext_fields["Signature"])
        return request.reply(code=(request.ext_fields.get("code") == "16" and 16) or 0)

    async with serving({1: note}) as (server, _):
        address = address_of(server)
        await client.call(address, Command.request(1))
        await client.call_oneway(address, Command.request(1))
        with pytest.raises(RequestRejected):
            await client.call(address, Command.request(1, ext={"code": "16"}))
        assert signatures == [f"for {address}"] * 3
        assert hook.responses == [0, 16]
    await client.close()


async def test_one_request_may_go_to_many_addresses(client: RemotingClient) -> None:
    async with serving({1: echo}) as (one, _), serving({1: echo}) as (other, _):
        request = Command.request(1)
        replies = await asyncio.gather(
            *(client.call(address_of(server), request) for server in (one, other))
        )
        assert [reply.opaque for reply in replies] == [request.opaque] * 2


async def test_one_request_is_not_sent_twice_at_a_time(client: RemotingClient) -> None:
    async with serving({1: swallow}) as (server, _):
        address = address_of(server)
        await client.connect(address)
        request = Command.request(1)
        future = client.send(address, request, 0.01)
        with pytest.raises(RemotingError):
            client.send(address, request)
        with pytest.raises(RequestTimeout):
            await future


async def test_a_client_keeps_reading_while_its_own_requests_pile_up() -> None:
    """Both ends full of unread bytes must not wait for each other."""
    client = RemotingClient(RemotingClientConfig(write_buffer_high_water_mark=10_000))

    def answer(request: Command, connection: Connection) -> Command:
        return request.reply(body=bytes(50_000))

    async with serving({1: answer}) as (server, _):
        address = address_of(server)
        await client.connect(address)
        futures = [client.send(address, Command.request(1, bytes(50_000)), 60) for _ in range(400)]
        connection = client.connection_to(address)
        assert connection is not None
        await eventually(lambda: connection.is_write_paused)
        # A call waits until there is room.
        await client.call(address, Command.request(1), 60)
        await client.call_oneway(address, Command.request(1), 60)
        assert len(await asyncio.gather(*futures)) == 400
    await client.close()


async def test_a_server_that_goes_away_is_called_once_more_on_a_new_connection(
    client: RemotingClient,
) -> None:
    going = True
    held: list[tuple[Command, Connection]] = []

    def answer(request: Command, connection: Connection) -> Command:
        return request.reply(code=ResponseCode.GO_AWAY if going else ResponseCode.SUCCESS)

    def hold(request: Command, connection: Connection) -> None:
        nonlocal going
        going = False
        held.append((request, connection))

    async with serving({1: answer, 2: hold}) as (server, _):
        address = address_of(server)
        assert (await client.call(address, Command.request(1))).code == ResponseCode.GO_AWAY
        assert server.accepted_count == 2
        # A call under way on the old connection is still answered there.
        pending = client.send(address, Command.request(2))
        await eventually(lambda: held)
        going = True
        asking = client.send(address, Command.request(1))
        assert (await asking).code == ResponseCode.GO_AWAY
        going = False
        assert (await client.call(address, Command.request(1))).code == ResponseCode.SUCCESS
        assert server.accepted_count == 4
        ((request, connection),) = held
        connection.send(request.reply(remark="still here"))
        assert (await pending).remark == "still here"
        await eventually(lambda: server.connection_count == 1)


async def test_a_frame_that_is_too_long_is_not_sent() -> None:
    client = RemotingClient(RemotingClientConfig(frame_max_length=10_000))

    def answer(request: Command, connection: Connection) -> Command:
        return request.reply(body=[bytes(6_000)] * int(request.ext_fields["parts"]))

    config = ServerConfig(frame_max_length=10_000)
    async with serving({1: answer}, config) as (server, _):
        address = address_of(server)
        with pytest.raises(RemotingError, match="more than a frame may have"):
            await client.call(address, Command.request(1, bytes(10_000)))
        for parts, code in (("1", 0), ("2", 1), ("1", 0)):
            reply = await client.call(address, Command.request(1, ext={"parts": parts}))
            assert reply.code == code
        connection = client.connection_to(address)
        assert connection is not None
        assert connection.pending_calls == 0
        assert server.accepted_count == 1
    await client.close()


async def test_closing_fails_what_is_pending(client: RemotingClient) -> None:
    async with serving({1: swallow}) as (server, _):
        address = address_of(server)
        await client.connect(address)
        future = client.send(address, Command.request(1), 60)
        await client.close()
        with pytest.raises(ConnectionLost):
            await future
        with pytest.raises(ConnectFailed):
            await client.call(address, Command.request(1))


@contextmanager
def deaf_listener() -> Iterator[str]:
    """An address that never answers and never refuses: its queue of connections is full."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1))
        host, port = listener.getsockname()
        for _ in range(8):
            knocking = sockets.enter_context(socket.socket())
            knocking.setblocking(False)
            knocking.connect_ex((host, port))
        yield f"{host}:{port}"


async def test_closing_ends_attempts_to_connect(client: RemotingClient) -> None:
    with deaf_listener() as address:
        call = asyncio.ensure_future(client.call(address, Command.request(1), timeout_s=60))
        await asyncio.sleep(0.01)
        await client.close()
        with pytest.raises(ConnectFailed):
            await call


async def test_a_call_may_time_out_while_connecting(client: RemotingClient) -> None:
    with deaf_listener() as address:
        with pytest.raises(RequestTimeout):
            await client.call(address, Command.request(1), timeout_s=0.01)
        with pytest.raises(RequestTimeout):
            await client.call_oneway(address, Command.request(1), timeout_s=0.01)


async def test_a_connection_can_be_given_up(client: RemotingClient) -> None:
    async with serving({1: echo}) as (server, _):
        address = address_of(server)
        await client.call(address, Command.request(1))
        client.disconnect(address)
        await client.call(address, Command.request(1))
        assert server.accepted_count == 2


def test_a_failure_is_raised_on_demand() -> None:
    request = Command.request(1)
    success = request.reply()
    assert check(success) is success
    with pytest.raises(RequestRejected) as caught:
        check(request.reply(code=ResponseCode.TOPIC_NOT_EXIST, remark="which?"))
    assert (caught.value.code, caught.value.remark) == (17, "which?")
    assert str(caught.value) == "TOPIC_NOT_EXIST: which?"
    with pytest.raises(RequestRejected, match="code 12345"):
        check(request.reply(code=12345))

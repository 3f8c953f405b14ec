"""Garbage over real sockets: the connection suffers, one line is logged, nobody else notices."""

import asyncio
import logging
import random

import pytest

from rocketq.remoting import Command, Connection, RequestCode, RunHandler, SerializeType
from rocketq.remoting.bodies.heartbeat import HeartbeatData
from rocketq.remoting.headers import PullMessage, SendMessageV2
from rocketq.remoting.hot.pull import read_pull
from rocketq.remoting.hot.send import SendReplies, read_send
from rocketq.remoting.link.server import Handlers
from rocketq.remoting.wire.frame import decode_frame
from tests.remoting.golden import recorded
from tests.remoting.peer import Peer, serving
from tests.remoting.wire.test_frame import bad_frames
from tests.waiting import eventually


def routes() -> Handlers:
    """Handlers that look at everything a request has."""
    replies = SendReplies()

    def send(requests: list[Command], connection: Connection) -> list[Command]:
        for request in requests:
            if read_send(request) is None:
                request.header(SendMessageV2)
        return [replies.reply(request, 0, bytes(8), 1, 2, 3, None) for request in requests]

    def pull(request: Command, connection: Connection) -> Command:
        if read_pull(request) is None:
            request.header(PullMessage)
        return request.reply()

    async def beat(request: Command, connection: Connection) -> Command:
        HeartbeatData.decode(request.body)
        return request.reply()

    return {
        RequestCode.SEND_MESSAGE_V2: RunHandler(send),
        RequestCode.PULL_MESSAGE: pull,
        RequestCode.HEART_BEAT: beat,
    }


def seeds() -> list[bytes]:
    """Recorded requests that the handlers above understand."""
    wanted = set(routes())
    return [
        each.frame
        for capture in ("json", "binary-all")
        for each in recorded(capture)
        if each.kind != "response" and each.header["code"] in wanted
    ]


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """A frame with a few bytes changed, cut or added; half the time with its length put right."""
    damaged = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(damaged))
        match chance.randrange(4):
            case 0:
                damaged[at] = chance.randrange(256)
            case 1:
                del damaged[at : at + chance.randint(1, 8)]
            case 2:
                damaged[at:at] = chance.randbytes(chance.randint(1, 8))
            case _:
                damaged[at] ^= 1 << chance.randrange(8)
        if len(damaged) < 9:
            return bytes(damaged)
    if chance.random() < 0.5:
        damaged[:4] = (len(damaged) - 4).to_bytes(4, "big")
    return bytes(damaged)


async def is_alive(peer: Peer) -> bool:
    await peer.say(Command(RequestCode.PULL_MESSAGE, opaque=77))
    return (await peer.hear()).opaque == 77


@pytest.mark.parametrize("bad", bad_frames().values(), ids=bad_frames().keys())
async def test_a_bad_frame_closes_its_connection_with_one_line_in_the_log(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(routes()) as (server, connect):
        bystander, villain = await connect(), await connect()
        with caplog.at_level(logging.INFO, logger="rocketq"):
            await villain.say(Command(RequestCode.PULL_MESSAGE, opaque=1), bad)
            assert (await villain.hear()).opaque == 1
            assert await villain.is_hung_up_on()
        assert len([r for r in caplog.records if "closing the connection" in r.message]) == 1
        assert len(caplog.records) == 1
        assert await is_alive(bystander)
        assert server.connection_count == 1


@pytest.mark.parametrize("seed", range(4))
async def test_random_bytes_hurt_only_their_own_connection(seed: int) -> None:
    chance = random.Random(seed)
    async with serving(routes()) as (server, connect):
        bystander = await connect()
        for _ in range(25):
            villain = await connect()
            try:
                await villain.say(chance.randbytes(chance.randint(1, 400)))
            except ConnectionError:
                pass
            await villain.close()
        assert await is_alive(bystander)
        await eventually(lambda: server.connection_count == 1)


@pytest.mark.parametrize("seed", range(4))
async def test_damaged_requests_are_answered_or_end_their_connection(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    frames = seeds()
    with caplog.at_level(logging.ERROR):
        async with serving(routes()) as (server, connect):
            bystander = await connect()
            for _ in range(60):
                villain = await connect()
                batch = [mutated(chance.choice(frames), chance) for _ in range(3)]
                try:
                    await villain.say(*batch)
                except ConnectionError:
                    pass
                await villain.close()
            assert await is_alive(bystander)
            await eventually(lambda: server.connection_count == 1)
    # Whatever came, no handler failed in a way that nobody had foreseen.
    assert caplog.records == []


async def test_a_request_of_wrong_types_is_answered_and_its_connection_lives_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(routes()) as (_, connect):
        peer = await connect()
        for form in SerializeType:
            await peer.say(
                Command(
                    310, opaque=1, ext_fields={"e": "x", "g": "", "k": "7"}, serialize_type=form
                ),
                Command(11, opaque=2, ext_fields={"queueId": "[]"}, serialize_type=form),
            )
            assert [(await peer.hear()).code for _ in range(2)] == [0, 0]
        with caplog.at_level(logging.INFO, logger="rocketq"):
            await peer.say(Command(34, opaque=3, body=b"no heartbeat"))
            reply = await peer.hear()
        assert (reply.code, reply.opaque) == (1, 3)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert caplog.records[0].exc_info is None
        assert await is_alive(peer)


async def test_a_client_survives_a_server_that_talks_nonsense() -> None:
    from rocketq.remoting import ConnectionLost, RemotingClient

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = RemotingClient()
    for _ in range(3):
        with pytest.raises(ConnectionLost):
            await client.call(address, Command.request(1))
    await client.close()
    server.close()
    await server.wait_closed()


def test_mutations_of_recorded_frames_decode_or_are_refused_but_never_crash() -> None:
    from rocketq.remoting import BadFrame

    chance = random.Random(1)
    understood = 0
    for frame in seeds() * 5:
        try:
            command = decode_frame(mutated(frame, chance))
        except BadFrame:
            continue
        understood += 1
        assert repr(command)
        assert command.encode()
        read_send(command)
        read_pull(command)
    assert understood

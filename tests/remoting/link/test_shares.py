"""Who asks for a lot waits for those who ask for little."""

import asyncio
import time

import pytest

from rocketq.remoting import Command, Connection, RunHandler
from tests.remoting.peer import Peer, serving
from tests.waiting import eventually

SLOW = 0.003


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@pytest.mark.parametrize("in_runs", [False, True], ids=["one by one", "in runs"])
async def test_a_flood_of_one_client_is_cut_for_another(in_runs: bool) -> None:
    seen: list[int] = []

    def slow(request: Command, connection: Connection) -> Command:
        seen.append(request.opaque)
        busy(SLOW)
        return request.reply()

    def slow_run(requests: list[Command], connection: Connection) -> list[Command]:
        return [slow(request, connection) for request in requests]

    def quick(request: Command, connection: Connection) -> Command:
        seen.append(-1)
        return request.reply()

    handler = RunHandler(slow_run) if in_runs else slow
    count = 600 if in_runs else 100
    async with serving({1: handler, 2: quick}) as (_, connect):
        flood, other = await connect(), await connect()
        await flood.say(*(Command(1, opaque=number) for number in range(count)))
        await other.say(Command(2, opaque=1))
        await other.hear()
        assert seen.index(-1) <= (300 if in_runs else 20)
        # Nobody is forgotten, and the order stays.
        for number in range(count):
            assert (await flood.hear()).opaque == number


async def test_of_many_that_ask_for_much_one_goes_on_at_a_time() -> None:
    """Each request is slow, and nobody sends the next one before the answer."""
    turns: list[float] = []

    def slow(request: Command, connection: Connection) -> Command:
        busy(SLOW)
        return request.reply()

    async with serving({1: slow}) as (_, connect):
        peers = [await connect() for _ in range(20)]
        is_over = False

        async def ask(peer: Peer) -> None:
            while not is_over:
                await peer.say(Command(1, opaque=1))
                await peer.hear()

        async def beat() -> None:
            while not is_over:
                began = time.perf_counter()
                await asyncio.sleep(0)
                turns.append(time.perf_counter() - began)

        asking = [asyncio.create_task(ask(peer)) for peer in peers]
        beating = asyncio.create_task(beat())
        await eventually(lambda: len(turns) >= 100, "many turns")
        is_over = True
        await asyncio.gather(beating, *asking)
    # Without shares every turn serves all twenty; if they were forgotten at once, several.
    ordinary = sorted(turns)[len(turns) // 2]
    assert ordinary < 2.5 * SLOW


async def test_bodies_that_handlers_hold_are_bounded() -> None:
    """A connection whose handlers have taken 32 MB of bodies gets no more of them at work."""
    free = asyncio.Event()
    sizes: list[int] = []

    async def hold(request: Command, connection: Connection) -> Command:
        sizes.append(len(request.body))
        await free.wait()
        return request.reply()

    async with serving({1: hold}) as (_, connect):
        peer, other = await connect(), await connect()
        body = bytes(4 << 20)
        saying = asyncio.create_task(
            peer.say(*(Command(1, opaque=number, body=body) for number in range(20)))
        )
        await eventually(lambda: len(sizes) == 8, "eight bodies at work")
        # Whatever else the first one has sent is not read before an honest client is answered.
        await other.say(Command(1, opaque=1))
        await eventually(lambda: len(sizes) == 9, "the other's request")
        assert sum(sizes) == 32 << 20
        free.set()
        await saying
        for number in range(20):
            assert (await peer.hear()).opaque == number

"""A loop that is kept awake while one request follows another."""

import asyncio
import itertools
import time
from collections.abc import Callable

import pytest

from rocketq.remoting.codes import RequestCode
from rocketq.remoting.link.alertness import Alertness, alertness_of, keep_awake
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.server import RemotingServer
from rocketq.remoting.wire.command import Command


class Turns:
    """A loop whose turns are made one by one."""

    def __init__(self) -> None:
        self.next: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.next.append(callback)

    def turn(self) -> None:
        callbacks, self.next = self.next, []
        for callback in callbacks:
            callback()

    @property
    def is_awake(self) -> bool:
        return bool(self.next)


def exchange(alertness: Alertness, count: int, *, frames: int = 1) -> None:
    for _ in range(count):
        alertness.stir(frames)
        alertness.written()


def sleep_in(turns: Turns) -> None:
    """Nothing comes until it sleeps."""
    deadline = time.monotonic() + 30
    while turns.is_awake:
        turns.turn()
        assert time.monotonic() < deadline


def made(longest_us: int = 1000) -> tuple[Turns, Alertness]:
    turns = Turns()
    return turns, Alertness(turns, longest_us)  # type: ignore[arg-type]


def test_single_requests_keep_it_awake_and_silence_lets_it_sleep() -> None:
    turns, alertness = made()
    exchange(alertness, 10)
    assert not turns.is_awake
    exchange(alertness, 10)
    assert turns.is_awake
    sleep_in(turns)


def test_it_looks_ever_more_rarely_where_nothing_comes_in_time() -> None:
    turns, alertness = made(1)
    looks = []
    for number in range(5000):
        exchange(alertness, 1)
        if turns.is_awake:
            looks.append(number)
            sleep_in(turns)
    rests = [after - before for before, after in itertools.pairwise(looks)]
    assert rests == sorted(rests)
    assert rests[0] == 16
    assert rests[-1] >= 1024


def test_looking_that_pays_goes_on() -> None:
    turns, alertness = made(10_000_000)
    exchange(alertness, 20)
    for _ in range(100):
        turns.turn()
        assert turns.is_awake
        exchange(alertness, 1)


def test_whoever_sends_many_at_a_time_is_not_waited_for() -> None:
    turns, alertness = made(10_000_000)
    exchange(alertness, 100, frames=32)
    assert not turns.is_awake
    exchange(alertness, 20)
    assert turns.is_awake
    alertness.stir(32)
    turns.turn()
    assert not turns.is_awake


@pytest.mark.parametrize("longest_us", [0, 200])
async def test_connections_of_a_loop_share_its_alertness(longest_us: int) -> None:
    loop = asyncio.get_running_loop()
    keep_awake(loop, longest_us)
    assert (alertness_of(loop) is not None) == bool(longest_us)

    def answer(request: Command, connection: Connection) -> Command:
        return request.reply()

    server = RemotingServer({RequestCode.HEART_BEAT: answer})
    await server.start("127.0.0.1", 0)
    client = RemotingClient()
    try:
        for _ in range(100):
            response = await client.call(
                f"127.0.0.1:{server.port}", Command(RequestCode.HEART_BEAT)
            )
            assert response.code == 0
    finally:
        await client.close()
        await server.stop()
        keep_awake(loop, 0)

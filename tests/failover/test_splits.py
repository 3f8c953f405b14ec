"""A master is cut off: from its controller, from its slaves, from both, one way or both.

Whatever is cut, what was acknowledged or read stays, and no two masters acknowledge in the same
epoch or in two at the same time.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketq.remoting import Command, RemotingClient, RequestCode, ResponseCode
from tests.broker.harness import send_request
from tests.failover.detours import ControllerDetour, LogDetour
from tests.failover.history import TOPIC, History
from tests.failover.processes import runtime
from tests.failover.sets import BrokerSet, broker_set, stubborn_history, verdict
from tests.waiting import eventually


def _lose_controller(way: ControllerDetour, log: LogDetour) -> None:
    way.lose_everything()


def _lose_answers(way: ControllerDetour, log: LogDetour) -> None:
    way.loses_answers = True


def _lose_questions(way: ControllerDetour, log: LogDetour) -> None:
    way.loses_questions = True


def _lose_slaves(way: ControllerDetour, log: LogDetour) -> None:
    log.lose_everything()


def _lose_reports(way: ControllerDetour, log: LogDetour) -> None:
    log.loses_reports = True


def _lose_all(way: ControllerDetour, log: LogDetour) -> None:
    way.lose_everything()
    log.lose_everything()


CUTS = [_lose_controller, _lose_answers, _lose_questions, _lose_slaves, _lose_reports, _lose_all]


def _heal(way: ControllerDetour, log: LogDetour) -> None:
    way.lose_everything(is_lost=False)
    log.lose_everything(is_lost=False)


Cut = Callable[[ControllerDetour, LogDetour], None]


async def _split(brokers: BrokerSet, history: History, cut: Cut, last_s: float) -> None:
    address = await brokers.complete()
    way, log = brokers.to_controller[address], brokers.to_log[address]
    cut_at = asyncio.get_running_loop().time()
    cut(way, log)
    await asyncio.sleep(last_s)
    print(f"{cut.__name__}: {history.longest_pause(cut_at):.3f} s without a master", flush=True)
    _heal(way, log)
    await brokers.complete()
    await history.next_acknowledged(30)


@pytest.mark.parametrize("cut", [_lose_controller, _lose_answers, _lose_all])
async def test_a_master_that_is_cut_off_acknowledges_nothing_more(tmp_path: Path, cut: Cut) -> None:
    async with (
        broker_set(tmp_path, with_detours=True) as brokers,
        stubborn_history(brokers) as history,
    ):
        await history.next_acknowledged(60)
        before, _, _ = await brokers.newest_reign()
        await _split(brokers, history, cut, 6.0)
        after, _, _ = await brokers.newest_reign()
        assert after > before, "another took over"
        await verdict(brokers, history)


async def test_a_cut_connection_is_the_end_of_the_lease(tmp_path: Path) -> None:
    """The controller takes the end of a connection for that of the master, which is alive."""
    async with (
        broker_set(tmp_path, with_detours=True) as brokers,
        History(brokers.namesrv, senders=4) as history,
    ):
        await history.next_acknowledged(60)
        for _ in range(3):
            address = await brokers.complete()
            epoch, _, _ = await brokers.newest_reign()
            await brokers.to_controller[address].cut()

            async def is_another(epoch: int = epoch) -> bool:
                return (await brokers.newest_reign())[0] > epoch

            await eventually(is_another, "another election")
            await history.next_acknowledged(30)
        await verdict(brokers, history)


async def test_without_waiting_for_all_the_lease_alone_ends_acknowledgements(
    tmp_path: Path,
) -> None:
    """inSyncReplicas=1: the master waits for nobody, so only its lease can stop it."""
    async with (
        broker_set(tmp_path, with_detours=True, allAckInSyncStateSet="false") as brokers,
        RemotingClientOf() as client,
    ):
        address = await brokers.complete()
        epoch, _, _ = await brokers.newest_reign()

        async def is_taken() -> bool:
            reply = await client.call(address, send_request(TOPIC, b"one", 0), 5.0)
            return reply.code == ResponseCode.SUCCESS

        await eventually(is_taken, "the master to take messages")
        brokers.to_controller[address].lose_everything()

        async def is_fenced() -> bool:
            return (await runtime(client, address))["isFenced"] == "true"

        await eventually(is_fenced, "the end of the lease")
        reply = await client.call(address, send_request(TOPIC, b"two", 0), 5.0)
        assert reply.code != ResponseCode.SUCCESS

        async def is_another() -> bool:
            return (await brokers.newest_reign())[0] > epoch

        await eventually(is_another, "another master")
        _heal(brokers.to_controller[address], brokers.to_log[address])
        assert await brokers.complete() != address
        request = Command.request(RequestCode.GET_BROKER_HA_STATUS)
        assert (await client.call(address, request, 5.0)).code == ResponseCode.SUCCESS


class RemotingClientOf:
    """A client, for the length of a block."""

    async def __aenter__(self) -> RemotingClient:
        self._client = RemotingClient()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_lost_in_many_splits(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with (
        broker_set(tmp_path, seed=seed, with_detours=True) as brokers,
        stubborn_history(brokers) as history,
    ):
        await history.next_acknowledged(60)
        for _ in range(12):
            cut = chance.choice(CUTS)
            last_s = chance.choice([1.0, 2.0, 4.0, 8.0, 16.0])
            print(cut.__name__, last_s, flush=True)
            await _split(brokers, history, cut, last_s)
        await verdict(brokers, history)

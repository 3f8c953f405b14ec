"""The judge of the other tests: it has to find what it looks for."""

import pytest

from rocketq.remoting.bodies.controller import EpochEntry
from tests.failover.history import Acknowledgement, History

REIGNS = [
    EpochEntry(epoch=1, start_offset=0, end_offset=100),
    EpochEntry(epoch=2, start_offset=100, end_offset=2**63 - 1),
]
A, B = 10911, 10921


def _judge(*given: tuple[float, float, int, int]) -> None:
    history = History("127.0.0.1:1")
    history.acknowledgements = [Acknowledgement(*each) for each in given]
    history.check_reigns(REIGNS)


async def test_masters_that_follow_each_other_are_in_order() -> None:
    _judge((1, 2, A, 0), (3, 4, A, 50), (3.5, 6, B, 100), (7, 8, B, 150))


async def test_two_masters_of_one_epoch_are_found() -> None:
    with pytest.raises(AssertionError, match="acknowledged in epoch 2"):
        _judge((1, 2, A, 0), (3, 4, B, 100), (5, 6, A, 150))


async def test_an_old_master_that_goes_on_is_found() -> None:
    with pytest.raises(AssertionError, match=r"epoch 1 goes on 0\.500 s"):
        _judge((1, 2, A, 0), (3, 4, B, 100), (4.5, 6, A, 50))


async def test_numbers_given_twice_and_messages_lost_are_found() -> None:
    history = History("127.0.0.1:1")
    history._note(history.acknowledged, (0, 7), b"one", "given")
    history._note(history.acknowledged, (0, 7), b"one", "given")
    assert not history.wrong
    history._note(history.acknowledged, (0, 7), b"two", "given")
    assert history.wrong

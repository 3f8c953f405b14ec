"""The process queue: what is cached, what may be committed, when to pull again."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.client.consumer.process_queue import NOTHING_TO_COMMIT, FlowLimits, ProcessQueue
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.message.record.writer import new_record

QUEUE = MessageQueue("orders", "broker-a", 0)
ROOMY = FlowLimits(count=1000, size=1 << 20, span=2000)


def messages(*offsets: int, body: bytes = b"x") -> list[MessageExt]:
    return [MessageExt(new_record(b"orders", body, queue_offset=offset)) for offset in offsets]


def process_queue(limits: FlowLimits = ROOMY) -> ProcessQueue:
    return ProcessQueue(QUEUE, limits, now_ms=0)


def offsets(cached: Sequence[MessageExt]) -> list[int]:
    return [message.queue_offset for message in cached]


def test_nothing_can_be_committed_before_anything_arrived() -> None:
    assert process_queue().commit_offset == NOTHING_TO_COMMIT


def test_a_piece_is_cut_from_the_front() -> None:
    queue = process_queue()
    queue.put(messages(5, 6, 7))

    piece = queue.take(2)

    assert piece is not None
    assert offsets(piece.messages) == [5, 6]
    assert offsets(list(queue.waiting)) == [7]


def test_pieces_reach_over_the_borders_of_pulls() -> None:
    queue = process_queue()
    queue.put(messages(1, 2))
    queue.put(messages(3, 4))

    piece = queue.take(10)

    assert piece is not None
    assert offsets(piece.messages) == [1, 2, 3, 4]


def test_a_slow_piece_holds_the_offset_back() -> None:
    queue = process_queue()
    queue.put(messages(1, 2, 3))
    slow, quick, last = queue.take(1), queue.take(1), queue.take(1)
    assert slow is not None
    assert quick is not None
    assert last is not None

    assert queue.finish(quick) == 1
    assert queue.finish(last) == 1
    assert queue.finish(slow) == 4


def test_what_is_left_of_a_piece_keeps_its_place() -> None:
    queue = process_queue()
    queue.put(messages(1, 2, 3, 4))
    piece, later = queue.take(3), queue.take(1)
    assert piece is not None
    assert later is not None
    queue.finish(later)

    queue.keep(piece, piece.messages[1:2])

    assert queue.commit_offset == 2
    assert queue.count == 1
    assert queue.finish(piece) == 5
    assert (queue.count, queue.size) == (0, 0)


def test_a_piece_given_back_is_taken_again_first() -> None:
    queue = process_queue()
    queue.put(messages(1, 2, 3))
    piece = queue.take(2)
    assert piece is not None

    queue.give_back(piece)

    again = queue.take(10)
    assert again is not None
    assert offsets(again.messages) == [1, 2, 3]


def test_a_rollback_gives_back_everything_since_the_last_commit() -> None:
    queue = process_queue()
    queue.put(messages(1, 2, 3, 4))
    queue.take(1)
    assert queue.commit_taken() == 2
    queue.take(1)
    queue.take(1)

    queue.give_back_taken()

    assert offsets(list(queue.waiting)) == [2, 3, 4]
    assert queue.commit_taken() == NOTHING_TO_COMMIT


@pytest.mark.parametrize(
    ("limits", "fits", "does_not"),
    [
        (FlowLimits(count=2, size=1 << 20), [1, 2], [1, 2, 3]),
        (FlowLimits(count=99, size=250), [1, 2], [1, 2, 3]),
        (FlowLimits(count=99, size=1 << 20, span=5), [1, 6], [1, 7]),
    ],
    ids=["count", "size", "span"],
)
def test_pulling_pauses_above_a_limit(
    limits: FlowLimits, fits: list[int], does_not: list[int]
) -> None:
    queue = process_queue(limits)
    queue.put(messages(*fits))
    assert queue.has_room

    queue = process_queue(limits)
    queue.put(messages(*does_not))
    assert not queue.has_room


async def test_a_finished_piece_wakes_the_pull_that_waits_for_room() -> None:
    queue = process_queue(FlowLimits(count=1, size=1 << 20))
    queue.put(messages(1, 2))
    piece = queue.take(1)
    assert piece is not None
    waiting = asyncio.create_task(queue.room())
    await asyncio.sleep(0)
    assert not waiting.done()

    queue.finish(piece)

    async with asyncio.timeout(5):
        await waiting


async def test_a_retired_queue_keeps_no_pull_waiting() -> None:
    queue = process_queue(FlowLimits(count=1, size=1 << 20))
    queue.put(messages(1, 2))
    waiting = asyncio.create_task(queue.room())
    await asyncio.sleep(0)

    queue.retire()

    async with asyncio.timeout(5):
        await waiting


async def test_quiet_waits_for_the_listener() -> None:
    queue = process_queue()
    queue.at_listener = 2
    waiting = asyncio.create_task(queue.quiet(timeout_s=5))
    queue.came_back()
    await asyncio.sleep(0)
    assert not waiting.done()

    queue.came_back()

    assert await waiting


async def test_quiet_gives_up_in_time() -> None:
    queue = process_queue()
    queue.at_listener = 1
    assert not await queue.quiet(timeout_s=0.001)


def test_a_lock_is_relied_on_for_half_a_minute() -> None:
    queue = process_queue()
    assert not queue.is_lock_valid(now_ms=0)
    queue.locked = True
    assert queue.is_lock_valid(now_ms=29_999)
    assert not queue.is_lock_valid(now_ms=30_000)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=30),
    st.lists(st.integers(1, 7), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_the_committed_offset_is_the_first_unfinished_one(
    gaps: list[int], takes: list[int], chance: Random
) -> None:
    """Take pieces of any size, finish them in any order, compare with a sorted set."""
    queue = process_queue(FlowLimits(count=10_000, size=1 << 30))
    arrived = []
    offset = 0
    for gap in gaps:
        offset += gap
        arrived.append(offset)
    queue.put(messages(*arrived))
    unfinished = set(arrived)
    out = []
    for limit in takes:
        piece = queue.take(limit)
        if piece is not None:
            out.append(piece)
        if out and chance.random() < 0.6:
            done = out.pop(chance.randrange(len(out)))
            unfinished.difference_update(offsets(done.messages))
            committed = queue.finish(done)
            assert committed == min(unfinished, default=arrived[-1] + 1)
            assert queue.count == len(unfinished)
            assert queue.span == (arrived[-1] - min(unfinished) if unfinished else 0)
    assert queue.size == sum(len(m.record) for m in messages(*unfinished))

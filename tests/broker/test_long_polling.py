"""Pulls that wait: woken by what they want, by their deadline, and by nothing else."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial

import pytest

from rocketq.broker.long_polling import HeldPull, LongPolling
from rocketq.common.clock import SYSTEM_CLOCK, ManualClock
from rocketq.filter import MessageFilter, filter_for
from rocketq.message.hashing import tags_code
from rocketq.message.properties.codec import encode_properties


class FakePeer:
    is_closing = False


class Waiting:
    """A long polling with a clock moved by hand, and what it has resumed."""

    def __init__(self, limit: int = 100, peer_limit: int = 100) -> None:
        self.clock = ManualClock()
        self.polling = LongPolling(self.clock, limit=limit, peer_limit=peer_limit)
        self.stored: list[dict[str, str]] = []
        self.looks = 0
        self.resumed: list[tuple[str, int]] = []

    def hold(
        self,
        name: str,
        *,
        offset: int = 0,
        queue_id: int = 0,
        timeout_ms: int = 15_000,
        filter: MessageFilter | None = None,
        peer: FakePeer | None = None,
    ) -> bool:
        return self.polling.hold(
            HeldPull(
                topic="topic",
                queue_id=queue_id,
                offset=offset,
                filter=filter,
                peer=peer or FakePeer(),
                resume=lambda offset: self.resumed.append((name, offset)),
                look=lambda offset: self.look(filter, offset),
            ),
            timeout_ms,
        )

    def arrive(
        self, offset: int, *, queue_id: int = 0, tag: str | None = None, **more: str
    ) -> None:
        self.stored += [{}] * (offset - len(self.stored)) + [more]
        properties = encode_properties({**({"TAGS": tag} if tag else {}), **more})
        self.polling.on_arrival("topic", queue_id, offset + 1, tags_code(tag), 0, properties)

    def look(self, filter: MessageFilter | None, offset: int) -> int | None:
        """What the store would say about the messages from an offset on."""
        assert filter is not None
        self.looks += 1
        passes = (filter.matches_properties(each) for each in self.stored[offset:])
        return None if any(passes) else len(self.stored)


async def turn() -> None:
    await asyncio.sleep(0)


def never(offset: int) -> int | None:
    raise AssertionError("nobody has to look")


@pytest.fixture
async def waiting() -> Waiting:
    return Waiting()


async def test_a_message_wakes_the_pulls_of_its_queue(waiting: Waiting) -> None:
    waiting.hold("one", queue_id=0)
    waiting.hold("two", queue_id=0)
    waiting.hold("other", queue_id=1)

    waiting.arrive(0)
    await turn()

    assert waiting.resumed == [("one", 0), ("two", 0)]
    assert waiting.polling.held_count == 1


async def test_a_burst_wakes_a_pull_once(waiting: Waiting) -> None:
    waiting.hold("one")

    for offset in range(100):
        waiting.arrive(offset)
    await turn()

    assert waiting.resumed == [("one", 0)]


async def test_a_message_a_pull_has_already_seen_does_not_wake_it(waiting: Waiting) -> None:
    waiting.hold("ahead", offset=5)

    waiting.arrive(3)
    await turn()
    assert waiting.resumed == []
    waiting.arrive(5)
    await turn()

    assert waiting.resumed == [("ahead", 5)]


async def test_a_message_that_does_not_pass_the_filter_lets_the_pull_wait(
    waiting: Waiting,
) -> None:
    waiting.hold("tagged", filter=filter_for("TAG", "TagA || TagB"))

    waiting.arrive(0, tag="TagC")
    waiting.arrive(1)
    await turn()
    assert waiting.resumed == []
    waiting.arrive(2, tag="TagB")
    await turn()

    # It continues after what it would not have been given anyway.
    assert waiting.resumed == [("tagged", 2)]


async def test_a_gap_in_what_was_seen_is_not_skipped(waiting: Waiting) -> None:
    waiting.hold("tagged", filter=filter_for("TAG", "TagA"))

    waiting.arrive(1, tag="TagC")  # the message before it came some other way
    waiting.arrive(2, tag="TagA")
    await turn()

    assert waiting.resumed == [("tagged", 0)]


async def test_a_sql_filter_looks_at_the_properties(waiting: Waiting) -> None:
    waiting.hold("sql", filter=filter_for("SQL92", "price > 5"))

    waiting.arrive(0, price="3")
    await turn()
    assert waiting.resumed == []
    waiting.arrive(1, price="6")
    await turn()

    assert waiting.resumed == [("sql", 1)]


async def test_a_pull_whose_time_is_over_is_resumed(waiting: Waiting) -> None:
    waiting.hold("short", timeout_ms=1_000)
    waiting.hold("long", timeout_ms=15_000)

    waiting.clock.advance(1_100)
    waiting.polling.expire()

    assert waiting.resumed == [("short", 0)]
    assert waiting.polling.held_count == 1


async def test_deadlines_need_no_help(waiting: Waiting) -> None:
    """With a real clock the timer does it."""
    polling = LongPolling(SYSTEM_CLOCK, limit=10, peer_limit=10)
    done = asyncio.Event()

    def resume(offset: int) -> None:
        done.set()

    polling.hold(
        HeldPull(
            topic="t",
            queue_id=0,
            offset=0,
            filter=None,
            peer=FakePeer(),
            resume=resume,
            look=never,
        ),
        10,
    )
    async with asyncio.timeout(5):
        await done.wait()

    assert polling.held_count == 0


async def test_a_woken_pull_leaves_nothing_behind(waiting: Waiting) -> None:
    for round_ in range(1_000):
        waiting.hold("one", offset=round_)
        waiting.arrive(round_)
        await turn()

    assert len(waiting.resumed) == 1_000
    assert waiting.polling.held_count == 0
    waiting.clock.advance(60_000)
    waiting.polling.expire()
    assert len(waiting.resumed) == 1_000


async def test_a_peer_that_is_gone_is_not_answered(waiting: Waiting) -> None:
    peer = FakePeer()
    waiting.hold("gone", peer=peer)

    peer.is_closing = True
    waiting.arrive(0)
    await turn()

    assert waiting.resumed == []
    assert waiting.polling.held_count == 0


async def test_no_more_wait_than_the_limit_allows() -> None:
    waiting = Waiting(limit=2)

    assert waiting.hold("one")
    assert waiting.hold("two")
    assert not waiting.hold("three")


async def test_a_connection_may_only_have_so_many_waiting() -> None:
    waiting = Waiting(peer_limit=2)
    greedy = FakePeer()

    assert waiting.hold("one", peer=greedy)
    assert waiting.hold("two", peer=greedy)
    assert not waiting.hold("three", peer=greedy)
    assert waiting.hold("somebody else's")

    waiting.arrive(0)
    await turn()
    assert waiting.hold("three", peer=greedy, offset=1)
    assert waiting.polling.held_by(greedy) == 1


async def test_a_queue_can_be_woken_whatever_its_pulls_wait_for(waiting: Waiting) -> None:
    waiting.hold("all")
    waiting.hold("tagged", filter=filter_for("TAG", "TagA || TagB"))
    waiting.hold("sql", filter=filter_for("SQL92", "price > 5"))
    waiting.hold("other", queue_id=1)

    waiting.polling.wake_queue("topic", 0)
    await turn()

    assert sorted(waiting.resumed) == [("all", 0), ("sql", 0), ("tagged", 0)]
    assert waiting.polling.held_count == 1


async def test_the_pulls_of_a_connection_go_with_it(waiting: Waiting) -> None:
    peer = FakePeer()
    for number in range(50):
        waiting.hold("gone", queue_id=number, peer=peer)
    waiting.hold("there")

    peer.is_closing = True
    waiting.polling.drop_peer(peer)
    await turn()

    assert waiting.polling.held_count == 1
    assert waiting.polling.held_by(peer) == 0
    waiting.arrive(0)
    await turn()
    assert waiting.resumed == [("there", 0)]


@pytest.mark.parametrize("expression", ["nobody uses this", "A || B || C", "*"])
async def test_what_is_held_costs_an_arrival_nothing(expression: str) -> None:
    """Counted in steps of the interpreter, which do not depend on the machine."""
    steps: list[int] = []
    for held in (10, 10_000):
        waiting = Waiting(limit=20_000, peer_limit=20_000)
        peer = FakePeer()
        for _ in range(held):
            waiting.hold("held", filter=filter_for("TAG", expression), peer=peer)
        waiting.stored = [{}]
        steps.append(_calls(partial(waiting.arrive, 0, tag="TagZ")))
    assert steps[1] <= steps[0]


async def test_a_crowd_is_run_in_several_turns(waiting: Waiting) -> None:
    waiting = Waiting(limit=1_000, peer_limit=1_000)
    for _ in range(300):
        waiting.hold("one of many", timeout_ms=1_000)

    waiting.arrive(0)
    await turn()
    assert 0 < len(waiting.resumed) < 100
    for _ in range(10):
        await turn()
    assert len(waiting.resumed) == 300

    for _ in range(300):
        waiting.hold("late", offset=1, timeout_ms=1_000)
    waiting.clock.advance(1_200)
    waiting.polling.expire()
    assert 300 < len(waiting.resumed) < 400
    for _ in range(10):
        await turn()
    assert len(waiting.resumed) == 600


async def test_those_who_look_do_so_one_after_the_other(waiting: Waiting) -> None:
    for number in range(20):
        waiting.hold(f"sql {number}", filter=filter_for("SQL92", f"price = {number}"))

    waiting.arrive(0, price="19")
    await turn()
    assert waiting.looks == 1
    waiting.arrive(1, price="3")
    for _ in range(60):
        await turn()

    assert sorted(waiting.resumed) == [("sql 19", 0), ("sql 3", 0)]
    assert waiting.polling.held_count == 18


async def test_a_pull_of_many_tags_looks_at_each_message(waiting: Waiting) -> None:
    many = " || ".join(f"Tag{number}" for number in range(100))
    waiting.hold("many", filter=filter_for("TAG", many))

    waiting.arrive(0, tag="TagZ", TAGS="TagZ")
    await turn()
    assert waiting.resumed == []
    waiting.arrive(1, TAGS="Tag77")
    await turn()
    assert waiting.resumed == [("many", 1)]


def _calls(work: Callable[[], None]) -> int:
    """How many functions a piece of work calls."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


async def test_one_failing_pull_does_not_hurt_the_others(
    waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(offset: int) -> None:
        raise RuntimeError("broken")

    waiting.polling.hold(
        HeldPull(
            topic="topic",
            queue_id=0,
            offset=0,
            filter=None,
            peer=FakePeer(),
            resume=fail,
            look=never,
        ),
        1_000,
    )
    waiting.hold("fine")

    waiting.arrive(0)
    await turn()

    assert waiting.resumed == [("fine", 0)]
    assert "broken" in caplog.text

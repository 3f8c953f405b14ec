"""Pulls that wait: woken by what they want, by their deadline, and by nothing else."""

import asyncio

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

    def __init__(self, limit: int = 100) -> None:
        self.clock = ManualClock()
        self.polling = LongPolling(self.clock, limit=limit)
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
            ),
            timeout_ms,
        )

    def arrive(
        self, offset: int, *, queue_id: int = 0, tag: str | None = None, **more: str
    ) -> None:
        properties = encode_properties({**({"TAGS": tag} if tag else {}), **more})
        self.polling.on_arrival("topic", queue_id, offset + 1, tags_code(tag), 0, properties)


async def turn() -> None:
    await asyncio.sleep(0)


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

    # It goes on behind what it would not have been given anyway.
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
    polling = LongPolling(SYSTEM_CLOCK, limit=10)
    done = asyncio.Event()

    def resume(offset: int) -> None:
        done.set()

    polling.hold(
        HeldPull(topic="t", queue_id=0, offset=0, filter=None, peer=FakePeer(), resume=resume),
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
    assert waiting.polling.held_by_queue() == {}
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


async def test_everybody_can_be_woken_at_once(waiting: Waiting) -> None:
    waiting.hold("one", queue_id=0)
    waiting.hold("two", queue_id=1)

    waiting.polling.wake_all()
    await turn()

    assert waiting.resumed == [("one", 0), ("two", 0)]


async def test_one_failing_pull_does_not_hurt_the_others(
    waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(offset: int) -> None:
        raise RuntimeError("broken")

    waiting.polling.hold(
        HeldPull(topic="topic", queue_id=0, offset=0, filter=None, peer=FakePeer(), resume=fail),
        1_000,
    )
    waiting.hold("fine")

    waiting.arrive(0)
    await turn()

    assert waiting.resumed == [("fine", 0)]
    assert "broken" in caplog.text

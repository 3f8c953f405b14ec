"""First messages of many queues at once: a few files in each turn, and all in order."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from rocketq.remoting import Command, RemotingClient
from rocketq.remoting.headers import CreateTopic, SendMessage
from rocketq.store.queues.consume_queue import ConsumeQueue
from tests.broker.harness import TestBroker, running_broker, send_request

QUEUES = 60


class Turns:
    """Counts the turns of the loop, and the files that each of them has made room in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: Counter[int] = Counter()
        self._number = 0
        self._handle: asyncio.Handle | None = None
        make_room = ConsumeQueue.make_room

        def noted(queue: ConsumeQueue) -> bool:
            self.made[self._number] += 1
            return make_room(queue)

        monkeypatch.setattr(ConsumeQueue, "make_room", noted)

    def __enter__(self) -> "Turns":
        self._next()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._handle is not None
        self._handle.cancel()

    def _next(self) -> None:
        self._number += 1
        self._handle = asyncio.get_running_loop().call_soon(self._next)


def old_request(topic: str, body: bytes, queue_id: int) -> Command:
    """A send with long names, which takes the long way."""
    header = SendMessage(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="UNIQ_KEY\x01A\x02",
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )
    return Command.request(header, body)


async def send_all(broker: TestBroker, requests: list[Command]) -> None:
    replies = await asyncio.gather(*(broker.call(request, 30.0) for request in requests))
    assert {reply.code for reply in replies} == {0}


async def bodies(broker: TestBroker, topic: str, queue_id: int) -> list[bytes]:
    return [bytes(message.body) for message in await broker.messages(topic, queue_id)]


@pytest.mark.parametrize("is_old", [False, True])
async def test_a_turn_makes_only_a_few_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_old: bool
) -> None:
    make = old_request if is_old else send_request
    async with running_broker(tmp_path) as broker:
        header = CreateTopic(
            topic="wide",
            default_topic="TBW102",
            read_queue_nums=QUEUES,
            write_queue_nums=QUEUES,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        assert (await broker.call(Command.request(header))).code == 0
        with Turns(monkeypatch) as turns:
            await send_all(
                broker,
                [make("wide", b"%d" % each, queue_id=each % QUEUES) for each in range(4 * QUEUES)],
            )
        assert turns.made.total() == QUEUES
        assert max(turns.made.values()) <= 8
        for queue_id in range(QUEUES):
            sent = [b"%d" % each for each in range(queue_id, 4 * QUEUES, QUEUES)]
            assert await bodies(broker, "wide", queue_id) == sent


async def test_messages_that_make_topics_stay_in_order(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("first")  # connected
        requests = [
            send_request(f"new-{topic}", b"%d" % each) for each in range(3) for topic in range(30)
        ]
        # Neighbouring reads, some of whose topics are not there yet when the next one comes.
        sent = []
        for first in range(0, len(requests), 10):
            sent.append(asyncio.create_task(send_all(broker, requests[first : first + 10])))
            await asyncio.sleep(0)
        await asyncio.gather(*sent)
        for topic in range(30):
            assert await bodies(broker, f"new-{topic}", 0) == [b"0", b"1", b"2"]


async def test_connections_that_wait_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        other = RemotingClient()
        try:
            with Turns(monkeypatch) as turns:
                await asyncio.gather(
                    send_all(broker, [send_request(f"one-{each}") for each in range(40)]),
                    send_all(
                        TestBroker(broker.broker, other),
                        [send_request(f"two-{each}") for each in range(40)],
                    ),
                )
        finally:
            await other.close()
        assert turns.made.total() == 80
        assert max(turns.made.values()) <= 8

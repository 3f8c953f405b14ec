"""Queues that are being made again from the log: what a broker says, and that it goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.message.names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_HALF_TOPIC
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, Connection, Handlers, RequestCode, ResponseCode
from rocketq.remoting.bodies import stats as bodies
from rocketq.remoting.headers import (
    GetConsumeStats,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    GetTopicStatsInfo,
    QueryConsumeQueue,
    QueryConsumerOffset,
    QueryConsumeTimeSpan,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketq.remoting.headers.pop import PeekMessage, PopMessage
from rocketq.store.errors import QueueUnavailable
from rocketq.store.queues.consume_queue import ConsumeQueue
from rocketq.store.queues.consume_queues import ConsumeQueues
from rocketq.store.upkeep.mending import Mending
from tests.broker.harness import TestBroker, running_broker
from tests.waiting import eventually

TOPIC = "orders"
LONGEST_DELAY_MS = 1_500
OPTIONS: dict[str, Any] = {
    "timer_precision_ms": 100,
    "revive_interval": 50,
    "transaction_check_interval": 1_000,
    "transaction_time_out": 500,
}


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """No queue is made again before this is set."""
    gate = asyncio.Event()
    mend_next = Mending._mend_next

    async def wait_first(self: Mending, stop: asyncio.Event) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in (stop, gate)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for future in waiting:
            future.cancel()
        if not stop.is_set():
            await mend_next(self, stop)

    monkeypatch.setattr(Mending, "_mend_next", wait_first)
    return gate


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ConsumeQueues]:
    """The queues of the broker that was started."""
    opened: list[ConsumeQueues] = []
    load = ConsumeQueues.load

    def noted(self: ConsumeQueues) -> None:
        opened.append(self)
        load(self)

    monkeypatch.setattr(ConsumeQueues, "load", noted)
    return opened


async def is_whole(broker: TestBroker, topic: str = TOPIC, queue_id: int = 0) -> bool:
    reply = await broker.call(Command.request(GetMaxOffset(topic=topic, queue_id=queue_id)))
    assert reply.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY), reply
    return reply.code == ResponseCode.SUCCESS


@asynccontextmanager
async def half_ruined(
    root: Path, opened: list[ConsumeQueues], **more: Any
) -> AsyncIterator[TestBroker]:
    """A broker whose first queue of TOPIC waits to be made again."""
    async with running_broker(root, **OPTIONS, **more) as broker:
        await broker.heartbeat(topic=TOPIC)
        for queue_id in range(4):
            await broker.send(TOPIC, b"in %d" % queue_id, queue_id=queue_id)
        damaged = opened[0].find(TOPIC, 0)
        assert damaged is not None
        assert opened[0].suspect(damaged, 0)
        assert not await is_whole(broker)
        assert await is_whole(broker, queue_id=1)
        yield broker


def pop_request(queue_id: int = -1, **more: Any) -> Command:
    options: dict[str, Any] = {
        "consumer_group": "group",
        "topic": TOPIC,
        "queue_id": queue_id,
        "max_msg_nums": 32,
        "invisible_time": 60_000,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
    }
    return Command.request(PopMessage(**(options | more)))


def bodies_of(reply: Command) -> list[bytes]:
    if reply.code != ResponseCode.SUCCESS:
        return []
    return sorted(bytes(message.body) for message in decode_records(reply.body))


async def test_whoever_asks_about_many_queues_hears_about_the_others(
    tmp_path: Path, gate: asyncio.Event, opened: list[ConsumeQueues]
) -> None:
    async with half_ruined(tmp_path, opened) as broker:
        for queue_id in range(4):
            header = UpdateConsumerOffset(
                consumer_group="group", topic=TOPIC, queue_id=queue_id, commit_offset=1
            )
            assert (await broker.call(Command.request(header))).code == 0
        reply = await broker.call(Command.request(GetTopicStatsInfo(topic=TOPIC)))
        assert reply.code == 0, reply
        table = bodies.TopicStatsTable.decode(reply.body).offset_table
        assert 0 not in {queue.queue_id for queue in table}
        assert {1, 2, 3} <= {queue.queue_id for queue in table}
        reply = await broker.call(
            Command.request(GetConsumeStats(consumer_group="group", topic=TOPIC))
        )
        assert reply.code == 0, reply
        positions = bodies.ConsumeStats.decode(reply.body).offset_table
        assert 0 not in {queue.queue_id for queue in positions}
        assert {1, 2, 3} <= {queue.queue_id for queue in positions}
        reply = await broker.call(Command.request(QueryConsumeTimeSpan(topic=TOPIC, group="group")))
        assert reply.code == 0, reply
        spans = bodies.ConsumeTimeSpans.decode(reply.body).consume_time_span_set
        assert 0 not in {span.message_queue.queue_id for span in spans if span.message_queue}
        for code in (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_ALL_DELAY_OFFSET):
            reply = await broker.call(Command.request(code))
            assert reply.code == 0, reply


@pytest.mark.parametrize(
    "question",
    [
        lambda queue_id: GetMaxOffset(topic=TOPIC, queue_id=queue_id),
        lambda queue_id: GetMinOffset(topic=TOPIC, queue_id=queue_id),
        lambda queue_id: SearchOffset(topic=TOPIC, queue_id=queue_id, timestamp=0),
        lambda queue_id: GetEarliestMsgStoretime(topic=TOPIC, queue_id=queue_id),
        lambda queue_id: QueryConsumerOffset(
            consumer_group="group", topic=TOPIC, queue_id=queue_id
        ),
        lambda queue_id: ResetOffset(
            topic=TOPIC, group="group", timestamp=0, is_force=True, queue_id=queue_id
        ),
        lambda queue_id: QueryConsumeQueue(topic=TOPIC, queue_id=queue_id, index=0, count=1),
    ],
)
async def test_whoever_asks_about_the_queue_itself_is_told_to_ask_again(
    tmp_path: Path,
    gate: asyncio.Event,
    opened: list[ConsumeQueues],
    question: Callable[[int], Any],
) -> None:
    async with half_ruined(tmp_path, opened, use_server_side_reset_offset=True) as broker:
        reply = await broker.call(Command.request(question(0)))
        assert reply.code == ResponseCode.SYSTEM_BUSY, reply
        assert (await broker.call(Command.request(question(1)))).code == 0
        gate.set()
        await eventually(lambda: is_whole(broker))
        assert (await broker.call(Command.request(question(0)))).code == 0


async def test_a_pending_reset_reaches_the_consumer_all_the_same(
    tmp_path: Path, gate: asyncio.Event, opened: list[ConsumeQueues]
) -> None:
    async with running_broker(tmp_path, use_server_side_reset_offset=True) as broker:
        await broker.heartbeat(topic=TOPIC)
        for _ in range(3):
            await broker.send(TOPIC)
        reset = ResetOffset(
            topic=TOPIC, group="group", timestamp=-1, is_force=True, queue_id=0, offset=2
        )
        assert (await broker.call(Command.request(reset))).code == 0
        damaged = opened[0].find(TOPIC, 0)
        assert damaged is not None
        assert opened[0].suspect(damaged, 0)
        reply = await broker.pull(TOPIC, 0)
        assert reply.code == ResponseCode.PULL_OFFSET_MOVED, reply
        assert reply.ext_fields["nextBeginOffset"] == "2"


async def test_a_pop_gets_what_the_other_queues_have(
    tmp_path: Path, gate: asyncio.Event, opened: list[ConsumeQueues]
) -> None:
    async with half_ruined(tmp_path, opened) as broker:
        peek = PeekMessage(consumer_group="group", topic=TOPIC, queue_id=-1, max_msg_nums=32)
        assert bodies_of(await broker.call(Command.request(peek))) == [b"in 1", b"in 2", b"in 3"]
        assert bodies_of(await broker.call(pop_request())) == [b"in 1", b"in 2", b"in 3"]
        gate.set()
        await eventually(lambda: is_whole(broker))
        assert bodies_of(await broker.call(pop_request())) == [b"in 0"]


async def test_services_go_on_when_their_queues_are_whole_again(
    tmp_path: Path,
    gate: asyncio.Event,
    opened: list[ConsumeQueues],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_about: list[bytes] = []

    def check(request: Command, connection: Connection) -> None:
        asked_about.extend(bytes(one.body) for one in decode_records(request.body))

    routes: Handlers = {RequestCode.CHECK_TRANSACTION_STATE: check}
    async with running_broker(tmp_path, routes=routes, **OPTIONS) as broker:
        await broker.heartbeat(topic=TOPIC, producer_group="producers")
        await broker.send(TOPIC, b"popped")
        assert bodies_of(await broker.call(pop_request(invisible_time=LONGEST_DELAY_MS))) == [
            b"popped"
        ]
        delayed = {"UNIQ_KEY": "D", "DELAY": "1"}
        await broker.send("delays", b"delayed", properties=delayed)
        half = {"UNIQ_KEY": "H", "TRAN_MSG": "true", "PGROUP": "producers"}
        now_ms = SYSTEM_CLOCK.now_ms()
        await broker.send(TOPIC, b"half", properties=half, sys_flag=4, born_timestamp=now_ms)
        queues = opened[0]
        system = (TIMER_TOPIC, SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC)
        found = [queue for queue in queues.all() if queue.topic in (TOPIC, *system)]
        for queue in found:
            assert queues.suspect(queue, 0)
        assert {queue.topic for queue in found} == {TOPIC, *system}
        reply = await broker.call(Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        assert reply.code == 0, reply
        find = queues.find
        refused: set[str] = set()

        def watched(topic: str, queue_id: int) -> ConsumeQueue | None:
            try:
                return find(topic, queue_id)
            except QueueUnavailable:
                refused.add(topic)
                raise

        # All of it is due, each service has looked, and none can read its queue.
        await eventually(lambda: SYSTEM_CLOCK.now_ms() > now_ms + LONGEST_DELAY_MS)
        monkeypatch.setattr(queues, "find", watched)
        await eventually(lambda: refused.issuperset(system), f"{system} to be looked at")
        assert asked_about == []
        assert bodies_of(await broker.call(pop_request())) == []
        gate.set()

        async def is_delivered() -> bool:
            return [bytes(one.body) for one in await broker.messages("delays")] == [b"delayed"]

        await eventually(is_delivered, within_s=5.0)

        async def is_back() -> bool:
            return bodies_of(await broker.call(pop_request())) == [b"popped"]

        await eventually(is_back)
        await eventually(lambda: asked_about)
        assert asked_about == [b"half"]

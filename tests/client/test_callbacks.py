"""Functions of the application that raise more than an `Exception` stop nothing but themselves."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.callbacks import comes_from_outside, tell
from rocketq.client.consumer.allocation import Average
from rocketq.client.consumer.pull.consumer import PullConsumer
from rocketq.client.consumer.pull.schedule import PullSchedule, PullTurn
from rocketq.client.hooks import ConsumeContext, SendContext
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.transaction import TransactionProducer, TransactionState
from rocketq.message.message import Message, MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.testing import LocalBroker
from tests.client.consuming import (
    QUICK,
    QUICK_REBALANCE,
    Broker,
    Received,
    bodies,
    consuming,
    send_all,
)
from tests.waiting import eventually


class Thrown(BaseException):
    """Neither an Exception nor anything asyncio knows."""


@pytest.mark.parametrize("error", [Thrown, SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("orderly", [True, False])
async def test_a_listener_may_raise_anything(
    broker: Broker, producer: Producer, *, orderly: bool, error: type[BaseException]
) -> None:
    topic, received = await broker.new_topic(queues=1), Received()
    await send_all(producer, topic, bodies(3))

    async def on_message(message: MessageExt) -> None:
        received(message)
        if message.body == b"message 1" and received.times(b"message 1") == 1:
            raise error

    async with consuming(
        broker, topic, on_message, orderly=orderly, suspend_ms=10, concurrency=1, **QUICK
    ):
        await received.wait_for(bodies(3))
        await eventually(lambda: received.times(b"message 1") == 2, "the message to come again")


async def test_a_listener_whose_task_is_cancelled_gets_its_message_again(
    broker: Broker, producer: Producer
) -> None:
    topic, received = await broker.new_topic(queues=1), Received()
    await send_all(producer, topic, bodies(3))

    async def on_message(message: MessageExt) -> None:
        received(message)
        if message.body == b"message 1" and received.times(b"message 1") == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)

    async with consuming(
        broker, topic, on_message, orderly=True, suspend_ms=10, concurrency=1, **QUICK
    ):
        await received.wait_for(bodies(3))
        await eventually(lambda: received.times(b"message 1") == 2, "the message to come again")


class ThrowingHook:
    """Of consumers and of producers."""

    def before(self, context: ConsumeContext | SendContext) -> None:
        raise Thrown

    def after(self, context: ConsumeContext | SendContext) -> None:
        raise SystemExit


class ThrowingOnce:
    """A strategy that fails in its first round."""

    name = "AVG"

    def __init__(self) -> None:
        self.rounds = 0

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        self.rounds += 1
        if self.rounds == 1:
            raise Thrown
        return Average().allocate(client_id, queues, members)


async def test_hooks_filters_strategies_and_assignment_listeners_may_raise_anything(
    broker: Broker,
) -> None:
    topic, received = await broker.new_topic(queues=2), Received()
    filtered = 0

    def throwing_once(messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        nonlocal filtered
        filtered += 1
        if filtered == 1:
            raise Thrown
        return messages

    def assigned(*_: object) -> None:
        raise Thrown

    async with (
        Producer("p", namesrv=broker.namesrv, send_hooks=[ThrowingHook()]) as producer,
        consuming(
            broker,
            topic,
            received,
            hooks=[ThrowingHook()],
            filters=[throwing_once],
            allocation=ThrowingOnce(),
            on_assignment=assigned,
            **QUICK,
        ),
    ):
        await send_all(producer, topic, bodies(10))
        await received.wait_for(bodies(10))
    assert filtered > 1


async def test_a_pull_callback_may_raise_anything(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketq.client.consumer.pull.schedule._ERROR_DELAY_S", 0.01)
    topic, turns = await broker.new_topic(queues=1), 0
    schedule = PullSchedule(
        PullConsumer(broker.new_group(), namesrv=broker.namesrv, **QUICK_REBALANCE), delay_ms=1
    )

    @schedule.callback(topic)
    def pull(queue: MessageQueue, turn: PullTurn) -> None:
        nonlocal turns
        turns += 1
        raise Thrown if turns == 1 else SystemExit

    async with schedule:
        await eventually(lambda: turns >= 3, "further turns")


async def test_a_transaction_check_may_raise_anything() -> None:
    with LocalBroker({"transactionCheckInterval": "100", "transactionTimeOut": "50"}) as broker:
        asked = 0

        async def check(message: MessageExt) -> TransactionState:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise Thrown
            if asked == 2:
                raise SystemExit
            return TransactionState.COMMIT

        async def local(message: Message, argument: object) -> None:
            return None

        topic = broker.create_topic()
        async with TransactionProducer(
            "p", namesrv=broker.namesrv, execute=local, check=check
        ) as producer:
            await producer.send_in_transaction(Message(topic, b"x"))
            await eventually(lambda: asked >= 3, "the third question")


def test_nothing_ends_the_loop_of_the_blocking_clients() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def answer() -> int:
        return 42

    with pytest.raises(SystemExit):
        loop_thread().run(leave())
    assert loop_thread().run(answer()) == 42


def test_only_what_comes_from_outside_goes_on() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def fails() -> None:
        raise Thrown

    tell("this function failed", fails)
    with pytest.raises(KeyboardInterrupt):
        tell("this function failed", interrupted)
    assert comes_from_outside(GeneratorExit())
    assert not comes_from_outside(SystemExit())


def test_functions_that_cannot_be_called_are_refused_where_they_are_given() -> None:
    def nothing() -> None:
        raise AssertionError

    wrong: Any = nothing
    with pytest.raises(TypeError, match=r"a transaction check is called with \(message\)"):
        TransactionProducer("p", check=wrong)
    with pytest.raises(TypeError, match=r"called with \(message, argument\)"):
        TransactionProducer("p").on_execute(wrong)
    with pytest.raises(TypeError, match=r"called with \(queue, turn\)"):
        PullSchedule(PullConsumer("c")).register("orders", wrong)

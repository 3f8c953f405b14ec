"""Listeners: how a function is called, and what its answer means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from rocketq.client.consumer.push.listener import (
    ConsumeLater,
    ConsumeStatus,
    Delivery,
    Listener,
    apply_error,
    status_of,
)
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.message.record.writer import new_record

if TYPE_CHECKING:
    from collections.abc import Sequence as Unresolvable

QUEUE = MessageQueue("orders", "broker-a", 0)
MESSAGES = [MessageExt(new_record(b"orders", b"one")), MessageExt(new_record(b"orders", b"two"))]


def called_with(function: Any, batch_size: int | None = None) -> object:
    """What a listener that returns its argument is called with."""
    listener = Listener.of(function, batch_size)
    argument = MESSAGES if listener.takes_list else MESSAGES[0]
    if listener.takes_delivery:
        return listener.function(argument, Delivery(QUEUE))
    return listener.function(argument)


def test_a_function_of_one_parameter_gets_one_message() -> None:
    def on_message(message: MessageExt) -> object:
        return message

    assert called_with(on_message) is MESSAGES[0]


def test_a_function_without_annotations_gets_one_message() -> None:
    assert called_with(lambda message: message) is MESSAGES[0]


def test_a_list_annotation_asks_for_many() -> None:
    def on_messages(messages: list[MessageExt]) -> object:
        return messages

    assert called_with(on_messages) is MESSAGES


def test_a_sequence_annotation_asks_for_many() -> None:
    def on_messages(messages: Sequence[MessageExt]) -> object:
        return messages

    assert called_with(on_messages) is MESSAGES


def test_an_annotation_that_cannot_be_resolved_is_read_as_text() -> None:
    def on_messages(messages: Unresolvable[MessageExt], delivery: Missing) -> object:  # type: ignore[name-defined]  # noqa: F821
        return messages

    assert Listener.of(on_messages).takes_list is False

    def on_list(messages: list[Missing]) -> object:  # type: ignore[name-defined]  # noqa: F821
        return messages

    assert Listener.of(on_list).takes_list is True


def test_a_batch_size_above_one_asks_for_many() -> None:
    assert called_with(lambda messages: messages, batch_size=2) is MESSAGES


def test_a_second_parameter_gets_the_delivery() -> None:
    def on_message(message: MessageExt, delivery: Delivery) -> object:
        return delivery.queue

    assert called_with(on_message) == QUEUE


def test_a_second_parameter_with_a_default_is_left_alone() -> None:
    def on_message(message: MessageExt, attempts: int = 3) -> object:
        return attempts

    assert called_with(on_message) == 3


def test_methods_and_callable_objects_are_listeners_too() -> None:
    class Handler:
        async def __call__(self, message: MessageExt) -> None:
            raise AssertionError

        def method(self, messages: list[MessageExt]) -> object:
            return messages

    assert Listener.of(Handler()).is_async
    assert called_with(Handler().method) is MESSAGES


def test_a_function_that_cannot_take_a_message_is_refused() -> None:
    with pytest.raises(TypeError, match="must take the message"):
        Listener.of(lambda a, b, c: None)
    with pytest.raises(TypeError, match="must take the message"):
        Listener.of(lambda: None)
    with pytest.raises(TypeError, match="must take the message"):
        Listener.of(lambda message, *, needed: None)
    with pytest.raises(TypeError, match="must be a function"):
        Listener.of("not a function")  # type: ignore[arg-type]


def test_a_second_parameter_that_is_no_delivery_is_refused() -> None:
    class Handler:
        def on_message(self, message: MessageExt) -> None:
            raise AssertionError

    def on_message(topic: str, body: bytes) -> None:
        raise AssertionError

    for wrong in (Handler.on_message, on_message, lambda key, value: None):
        with pytest.raises(TypeError, match="called `delivery` or annotated so"):
            Listener.of(wrong)
    assert called_with(lambda message, context: context.queue) == QUEUE
    assert called_with(lambda message, _: message) is MESSAGES[0]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (None, ConsumeStatus.SUCCESS),
        (True, ConsumeStatus.SUCCESS),
        (False, ConsumeStatus.LATER),
        (ConsumeStatus.ROLLBACK, ConsumeStatus.ROLLBACK),
    ],
)
def test_what_a_return_value_means(answer: object, status: ConsumeStatus) -> None:
    assert status_of(answer) is status


def test_a_return_value_nobody_understands_is_an_error() -> None:
    with pytest.raises(TypeError, match="a listener returned 'ok'"):
        status_of("ok")


def test_consume_later_carries_the_delay_along() -> None:
    delivery = Delivery(QUEUE)
    apply_error(ConsumeLater(delay_level=5, suspend_ms=30), delivery)
    assert (delivery.delay_level, delivery.suspend_ms) == (5, 30)
    apply_error(ValueError(), delivery)
    assert delivery.delay_level == 5

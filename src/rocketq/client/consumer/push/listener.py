"""The user's function: how it is called, and what its answer means.

    def on_message(message):                         one message at a time
    def on_messages(messages: list[MessageExt]):     as many as are there, up to batch_size
    async def on_message(message):                   on the event loop instead of a thread
    def on_message(message, delivery):               with the settings of this one delivery

Returning nothing, `True` or `ConsumeStatus.SUCCESS` means the messages are consumed. `False`,
`ConsumeStatus.LATER` or any exception means they are to come again later; `ConsumeLater` is the
exception for saying so on purpose, with the delay.
"""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from rocketq.client.callbacks import can_take
from rocketq.client.errors import ClientError
from rocketq.message.queue import MessageQueue

# RocketMQ calls it the context.
_DELIVERY_NAMES: Final = frozenset({"", "delivery", "context"})


class ConsumeStatus(Enum):
    """A listener's answer; the values are RocketMQ's words."""

    SUCCESS = "CONSUME_SUCCESS"
    LATER = "RECONSUME_LATER"
    """Again after a delay; in an orderly consumer after a pause of the whole queue."""
    COMMIT = "COMMIT"
    """Orderly without auto_commit: everything delivered so far is consumed."""
    ROLLBACK = "ROLLBACK"
    """Orderly without auto_commit: everything since the last commit is to come again."""


class ConsumeLater(ClientError):
    """Raised by a listener that wants its messages again later.

    Unlike other exceptions it is not logged as a failure. `delay_level` chooses the delay
    (1 = 1 s, 2 = 5 s, 3 = 10 s, ...; 0 = growing with each attempt; -1 = to the dead-letter
    topic at once); `suspend_ms` is the pause of an orderly consumer's queue.
    """

    def __init__(
        self,
        reason: str = "asked for later",
        *,
        delay_level: int = 0,
        suspend_ms: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.delay_level = delay_level
        self.suspend_ms = suspend_ms


@dataclass(slots=True)
class Delivery:
    """What a listener can know and set about one call. Ask for it with a second parameter."""

    queue: MessageQueue
    delay_level: int = 0
    """Concurrent: when failed messages come again; 0 lets the broker decide, -1 gives them up."""
    ack_index: int | None = None
    """Concurrent: on success, only messages up to this index are consumed; None means all."""
    auto_commit: bool = True
    """Orderly: whether success commits; otherwise return COMMIT or ROLLBACK."""
    suspend_ms: int | None = None
    """Orderly: how long the queue pauses when the messages are to come again."""


ListenerFunction = Callable[..., Any]
"""`(message)`, `(message, delivery)`, `(messages)` or `(messages, delivery)`; sync or async."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A user's function and how it wants to be called."""

    function: ListenerFunction
    is_async: bool
    takes_list: bool
    takes_delivery: bool

    @classmethod
    def of(cls, function: ListenerFunction, batch_size: int | None = None) -> "Listener":
        """Read the function's signature; `batch_size` above 1 means it takes a list."""
        if not callable(function):
            raise TypeError(f"a listener must be a function, not {function!r}")
        takes_delivery = not can_take(function, 1)
        if takes_delivery and not (can_take(function, 2) and _second_is_delivery(function)):
            raise TypeError(
                f"listener {function!r} must take the message (or a list of messages), and may "
                "take the delivery as a second parameter, called `delivery` or annotated so"
            )
        first = _parameter(function, 0)
        annotated = first is not None and _is_list(function, first)
        return cls(
            function,
            is_async=_is_async(function),
            takes_list=annotated or (batch_size or 1) > 1,
            takes_delivery=takes_delivery,
        )


def status_of(answer: object) -> ConsumeStatus:
    """What a listener's return value means."""
    if answer is None or answer is True:
        return ConsumeStatus.SUCCESS
    if isinstance(answer, ConsumeStatus):
        return answer
    if answer is False:
        return ConsumeStatus.LATER
    raise TypeError(
        f"a listener returned {answer!r}: return nothing or True when the message is consumed, "
        "False or a ConsumeStatus otherwise, or raise"
    )


def apply_error(error: BaseException, delivery: Delivery) -> None:
    """Take over what a `ConsumeLater` says about the delay."""
    if isinstance(error, ConsumeLater):
        delivery.delay_level = error.delay_level
        if error.suspend_ms is not None:
            delivery.suspend_ms = error.suspend_ms


def _is_async(function: ListenerFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with an async __call__
    )


def _parameter(function: ListenerFunction, position: int) -> inspect.Parameter | None:
    """A positional parameter, where the function tells."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return None
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return positional[position] if position < len(positional) else None


def _second_is_delivery(function: ListenerFunction) -> bool:
    """Whether a second parameter is meant for the delivery, and is no mistake."""
    second = _parameter(function, 1)
    if second is None or second.name.strip("_") in _DELIVERY_NAMES:
        return True
    if isinstance(second.annotation, str):
        return second.annotation.rpartition(".")[2] == Delivery.__name__
    return second.annotation is Delivery


def _is_list(function: ListenerFunction, parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        # Postponed annotations: evaluated where that can be done, else read as text.
        try:
            annotation = typing.get_type_hints(function).get(parameter.name, annotation)
        except Exception:
            name = annotation.partition("[")[0].rpartition(".")[2]
            return name in {"list", "List", "Sequence"}
    origin = typing.get_origin(annotation) or annotation
    return inspect.isclass(origin) and issubclass(list, origin) and origin is not object

"""What an application may watch of its own sends and consumption.

Hooks are called on the event loop and must not block. An exception in one is logged and
changes nothing for the message, except in a `SendFilter`, whose whole purpose is to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from rocketq.client.callbacks import tell
from rocketq.client.producer.result import SendResult
from rocketq.message.message import Message, MessageExt
from rocketq.message.queue import MessageQueue


@dataclass(slots=True)
class SendContext:
    """One message on its way; `after` sees either a result or an error."""

    group: str
    message: Message
    queue: MessageQueue
    address: str
    msg_id: str = ""
    body_size: int = 0
    """As sent, perhaps compressed."""
    message_type: int = 0
    """0 normal, 1 half, 2 commit, 3 delay, 4 order: as in traces."""
    namespace: str = ""
    result: SendResult | None = None
    error: BaseException | None = None
    began_ms: int = 0
    elapsed_ms: float = 0.0
    state: dict[str, object] = field(default_factory=dict)
    """The hook's own, from `before` to `after`."""


@dataclass(slots=True)
class ConsumeContext:
    """A batch of messages at a listener."""

    group: str
    queue: MessageQueue
    messages: Sequence[MessageExt]
    success: bool = False
    status: str = ""
    """SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL or FAILED."""
    namespace: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    state: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class EndTransactionContext:
    """A decision about a half message, as it is told to the broker."""

    group: str
    message: Message
    address: str
    msg_id: str
    transaction_id: str
    state: str
    """COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""
    from_check: bool
    namespace: str = ""


SendFilter: TypeAlias = Callable[[SendContext], None]
"""May refuse a send, by raising."""

EndTransactionHook: TypeAlias = Callable[[EndTransactionContext], None]
"""Watches transactions being settled."""


class SendHook(Protocol):
    """Watches sends."""

    def before(self, context: SendContext) -> None: ...

    def after(self, context: SendContext) -> None: ...


class ConsumeHook(Protocol):
    """Watches listeners."""

    def before(self, context: ConsumeContext) -> None: ...

    def after(self, context: ConsumeContext) -> None: ...


def run_before(hooks: Sequence[SendHook], context: SendContext) -> None:
    """Call every hook's `before`; none can stop the message."""
    for hook in hooks:
        tell("a send hook failed before the send", hook.before, context)


def run_after(hooks: Sequence[SendHook], context: SendContext) -> None:
    """Call every hook's `after`."""
    for hook in hooks:
        tell("a send hook failed after the send", hook.after, context)

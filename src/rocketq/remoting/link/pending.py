"""Requests of ours that wait for their answers."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from rocketq.remoting.errors import RequestTimeout
from rocketq.remoting.link.deadlines import Bucket
from rocketq.remoting.wire.command import Command


class Waiting(Protocol):
    """Whoever wants the answer to a request of ours.

    Of `complete`, `fail` and `expire` one comes, once.
    """

    def complete(self, response: Command) -> None: ...

    def fail(self, error: Exception) -> None: ...

    def expire(self) -> None:
        """The time is up; called by the deadlines it was entered in."""
        ...

    def leave(self) -> None:
        """Stop the clock; called before `complete` and `fail`."""
        ...


class PendingCall:
    """A call whose answer goes to a future."""

    __slots__ = (
        "_bucket",
        "_expired",
        "_look_at",
        "_peer_address",
        "_reads",
        "future",
        "request",
    )

    def __init__(
        self,
        request: Command,
        future: asyncio.Future[Command],
        bucket: Bucket,
        *,
        peer_address: str,
        reads: int,
        expired: Callable[[int, int], None],
        look_at: Callable[[Command, Command], None] | None,
    ) -> None:
        """`look_at` sees request and response, and may raise what the caller gets instead.

        `expired` is told its number and `reads`.
        """
        self.request = request
        self.future = future
        self._bucket = bucket
        self._peer_address = peer_address
        self._reads = reads
        self._expired = expired
        self._look_at = look_at
        bucket[id(self)] = self

    def leave(self) -> None:
        self._bucket.pop(id(self), None)

    def complete(self, response: Command) -> None:
        if self.future.done():
            return
        try:
            if self._look_at is not None:
                self._look_at(self.request, response)
        except Exception as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(response)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def expire(self) -> None:
        self._expired(self.request.opaque, self._reads)
        self.fail(
            RequestTimeout(
                f"no answer from {self._peer_address} to request {self.request.code} in time"
            )
        )

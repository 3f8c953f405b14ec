"""Senders that wait until enough slaves have what they sent.

Everybody who begins to wait in one turn of the loop waits for the same thing: that slaves have
what was in the log when the turn was over. They are one group, with one future. A report of a
slave ends, in the turn in which it comes, all groups that it completes; nobody looks at
intervals.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from rocketq.store.results import PutStatus


class ReplicaWaits:
    """Owned by `Replicas`; runs on the event loop alone."""

    def __init__(self) -> None:
        self.timeout_s = 3.0
        # By the number of copies that each needs, oldest first.
        self._groups: dict[int, deque[_Group]] = {}
        self._gathering: _Group | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def wait(self, position: int, needed: int) -> asyncio.Future[PutStatus]:
        """A future, shared with the others of this turn, for when slaves are at a position."""
        loop = asyncio.get_running_loop()
        group = self._gathering
        if group is None or group.needed != needed:
            group = _Group(loop, needed, loop.time() + self.timeout_s)
            self._groups.setdefault(needed, deque()).append(group)
            if self._gathering is None:
                loop.call_soon(self._gathered)
            self._gathering = group
            if self._timer is None:
                self._timer = loop.call_at(group.deadline, self._expire)
        group.position = max(group.position, position)
        return group

    def _gathered(self) -> None:
        self._gathering = None

    def reached(self, safe_position: Callable[[int], int]) -> None:
        """End the groups whose position has come; told by the number of copies needed."""
        for needed in list(self._groups):
            groups = self._groups[needed]
            safe = safe_position(needed)
            while groups and groups[0].position <= safe:
                self._end(groups.popleft(), PutStatus.PUT_OK)
            if not groups:
                del self._groups[needed]

    def end_all(self, status: PutStatus) -> None:
        """Nobody will report any more."""
        groups, self._groups = self._groups, {}
        for waiting in groups.values():
            for group in waiting:
                self._end(group, status)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, group: "_Group", status: PutStatus) -> None:
        if group is self._gathering:
            self._gathering = None
        if not group.done():
            group.set_result(status)

    def _expire(self) -> None:
        """Answer those who have waited long enough; look again when the next one has."""
        loop = asyncio.get_running_loop()
        self._timer = None
        now = loop.time()
        for needed in list(self._groups):
            groups = self._groups[needed]
            while groups and groups[0].deadline <= now:
                self._end(groups.popleft(), PutStatus.FLUSH_SLAVE_TIMEOUT)
            if not groups:
                del self._groups[needed]
        if self._groups:
            earliest = min(groups[0].deadline for groups in self._groups.values())
            self._timer = loop.call_at(earliest, self._expire)


class _Group(asyncio.Future[PutStatus]):
    """Those who wait for the same reports. One who stops waiting must not stop the others."""

    def __init__(self, loop: asyncio.AbstractEventLoop, needed: int, deadline: float) -> None:
        super().__init__(loop=loop)
        self.needed = needed
        self.deadline = deadline
        self.position = 0

    def cancel(self, msg: object = None) -> bool:
        return False


def both(
    flushed: asyncio.Future[PutStatus],
    copied: asyncio.Future[PutStatus],
    is_over: Callable[[], bool],
) -> asyncio.Future[PutStatus]:
    """When both have ended; of two failures that of the copies is told, as in RocketMQ.

    Who is master no more by then, `is_over`, acknowledges nothing.
    """
    both: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()

    def look(_: asyncio.Future[PutStatus]) -> None:
        if flushed.done() and copied.done() and not both.done():
            status = copied.result() or flushed.result()
            if status is PutStatus.PUT_OK and is_over():
                status = PutStatus.SERVICE_NOT_AVAILABLE
            both.set_result(status)

    flushed.add_done_callback(look)
    copied.add_done_callback(look)
    return both

"""The half messages nobody has decided yet, and when each is to be asked about.

A half message is known by its offset in the half queue. Asking its producer moves it: a
copy with a higher check counter is appended to the queue, and from then on the copy stands
for the transaction. The producer may still answer for the earlier offset, because its
answer and our question crossed on the way; so earlier offsets lead to the present one.

Everything here is arithmetic on offsets and times; nothing reads or writes a store.
"""

import heapq
from collections import OrderedDict, deque
from typing import Final

_DECISIONS_REMEMBERED: Final = 65_536
"""A decision that arrives twice is known as such for this many further ones."""
_SLACK: Final = 4_096
"""Decided offsets that may lie around before they are swept out."""


class Undecided:
    """The open transactions of one half queue. Times are milliseconds of one steady clock."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        # Offsets in the order of the queue; those no longer open are dropped at the front.
        self._order: deque[int] = deque()
        # (due, offset); an offset that is no longer open is dropped when its time comes.
        self._dues: list[tuple[int, int]] = []
        self._moved_to: dict[int, int] = {}
        self._moved_from: dict[int, list[int]] = {}
        self._closed: OrderedDict[int, None] = OrderedDict()
        self._end = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def open(self) -> frozenset[int]:
        return frozenset(self._open)

    def __contains__(self, offset: int) -> bool:
        """Whether this offset, or the one it moved to, is open."""
        return self.current(offset) in self._open

    @property
    def end(self) -> int:
        """The offset after the last one that was added."""
        return self._end

    @property
    def progress(self) -> int:
        """The first open offset: below it everything is decided."""
        order = self._order
        while order and order[0] not in self._open:
            order.popleft()
        return order[0] if order else self._end

    def skip_to(self, offset: int) -> None:
        """What lies before `offset` is decided, or was never there."""
        self._end = max(self._end, offset)

    def add(self, offset: int, due_ms: int) -> None:
        """A half message was stored."""
        assert offset >= self._end, (offset, self._end)
        self._open.add(offset)
        self._order.append(offset)
        self._end = offset + 1
        heapq.heappush(self._dues, (due_ms, offset))
        if len(self._order) > 2 * len(self._open) + _SLACK:
            # One transaction stays open while thousands after it come and go.
            self._order = deque(kept for kept in self._order if kept in self._open)
        if len(self._dues) > 2 * len(self._open) + _SLACK:
            self._dues = [due for due in self._dues if due[1] in self._open]
            heapq.heapify(self._dues)

    def move(self, offset: int, to: int, due_ms: int) -> None:
        """A copy of an open half message was appended and stands for it from now on."""
        assert offset in self._open, offset
        self._open.discard(offset)
        self.add(to, due_ms)
        earlier = [*self._moved_from.pop(offset, []), offset]
        self._moved_from[to] = earlier
        for past in earlier:
            self._moved_to[past] = to

    def postpone(self, offset: int, due_ms: int) -> None:
        """Ask about an open half message later."""
        heapq.heappush(self._dues, (due_ms, offset))

    def close(self, offset: int) -> int | None:
        """Decide a half message; returns the offset that stood for it, None if not open."""
        current = self.current(offset)
        if current not in self._open:
            return None
        self._open.discard(current)
        for past in self._moved_from.pop(current, []):
            del self._moved_to[past]
            self._remember(past)
        self._remember(current)
        return current

    def was_closed(self, offset: int) -> bool:
        """Whether this was decided lately: a second decision about it changes nothing."""
        return offset in self._closed

    def current(self, offset: int) -> int:
        return self._moved_to.get(offset, offset)

    @property
    def next_due_ms(self) -> int | None:
        """When the next question is due; None while nothing is open."""
        dues = self._dues
        while dues and dues[0][1] not in self._open:
            heapq.heappop(dues)
        return dues[0][0] if dues else None

    def take_due(self, now_ms: int, limit: int) -> list[int]:
        """Open offsets whose time has come. Each must be moved, postponed or closed."""
        taken: list[int] = []
        dues = self._dues
        while dues and len(taken) < limit and dues[0][0] <= now_ms:
            offset = heapq.heappop(dues)[1]
            if offset in self._open:
                taken.append(offset)
        return taken

    def _remember(self, offset: int) -> None:
        self._closed[offset] = None
        if len(self._closed) > _DECISIONS_REMEMBERED:
            self._closed.popitem(last=False)

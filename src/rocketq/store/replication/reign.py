"""A master by the grace of a controller: its epoch, who is in sync with it, and until when.

    members   the controller's word: one of these is the next master, so each has to have all
              that was acknowledged
    asked     what the controller was asked to make of them and has not answered yet; it may
              have done so, so both count
    joining   slaves on their way in: from the moment on that one is counted, nothing is
              acknowledged without it, and when it has all from before, the controller is asked

A set gets smaller only by the controller's word. So whoever is elected has everything, and who
was master before cannot acknowledge anything without the one that is master now: that one has
stopped to follow it. This does not hang on any clock.

The lease does, and is for the rest: masters that acknowledge before all in the set have a
message, and those that read their own end of it. It ends a while after the last answer of the
controller, sooner than the controller elects another, and at once with the connection to it.
"""

from collections.abc import Callable
from typing import Final

ALL: Final = -1
"""So many copies are needed that everybody in sync has one."""

NEVER_ENDS: Final = float("inf")


class Lease:
    """Until when a master may act as one. Looked at for every acknowledgement."""

    def __init__(self, monotonic: Callable[[], float], until: float = NEVER_ENDS) -> None:
        self._monotonic = monotonic
        self._until = until

    @property
    def is_held(self) -> bool:
        return self._until == NEVER_ENDS or self._monotonic() < self._until

    @property
    def remaining_s(self) -> float:
        return self._until - self._monotonic()

    def renew(self, until: float) -> None:
        self._until = max(self._until, until)

    def end(self) -> None:
        self._until = float("-inf")


class Reign:
    """Changed by those who talk to the controller; looked at by `Replicas`."""

    def __init__(
        self,
        broker_id: int,
        epoch: int,
        members: frozenset[int],
        members_epoch: int,
        lease: Lease,
    ) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.members = members | {broker_id}
        self.members_epoch = members_epoch
        self.asked: frozenset[int] | None = None
        self.joining: dict[int, int] = {}
        """By the id of a slave: what it has to have before the controller is asked."""
        self.lease = lease

    @property
    def everyone(self) -> frozenset[int]:
        """All without whom nothing is safe."""
        asked = self.asked if self.asked is not None else frozenset()
        return self.members | asked | self.joining.keys()

    @property
    def others(self) -> frozenset[int]:
        return self.everyone - {self.broker_id}

    @property
    def certain(self) -> frozenset[int]:
        """Those who are in sync whatever the controller made of the last question."""
        return self.members if self.asked is None else self.members & self.asked

    @property
    def size(self) -> int:
        """How many are in sync, the master among them."""
        return max(len(self.members), len(self.asked or ()))

    def take_members(self, members: frozenset[int], members_epoch: int) -> bool:
        """The controller's word, as far as it is news; whether it was."""
        if members_epoch < self.members_epoch:
            return False
        self.asked = None
        is_news = members != self.members or members_epoch != self.members_epoch
        self.members = members | {self.broker_id}
        self.members_epoch = members_epoch
        for broker_id in members & self.joining.keys():
            del self.joining[broker_id]
        return is_news

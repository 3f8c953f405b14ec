"""What a controller needs of the place where its state is kept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rocketq.common.errors import RocketqError
from rocketq.controller.broker_set import BrokerSet


class NotLeader(RocketqError):
    """Another controller decides, or none does at the moment."""


class CannotKeep(RocketqError):
    """The place where the state is kept does not answer, or takes nothing."""


class SomebodyWasFaster(RocketqError):
    """The state is no longer what was decided upon: look at it again, and decide anew."""


class Kept(NamedTuple):
    """A set's state, and the number of the change that made it so."""

    state: BrokerSet
    revision: int


@dataclass(frozen=True, slots=True)
class Member:
    """A controller."""

    name: str
    address: str


class Keeper(Protocol):
    """Keeps the state; used from one event loop."""

    @property
    def leads(self) -> bool:
        """Whether this controller is surely the one that decides, now."""
        ...

    @property
    def leader(self) -> Member | None:
        """The controller that decides, as far as is known."""
        ...

    @property
    def members(self) -> list[Member]:
        """All controllers that are there."""
        ...

    @property
    def sets(self) -> Mapping[str, Kept]:
        """The state of all sets. Of a leader it is the truth, of others a copy."""
        ...

    async def current(self, name: str) -> Kept | None:
        """The state of one set as it surely is. Raises NotLeader or CannotKeep."""
        ...

    async def keep(self, name: str, before: Kept | None, state: BrokerSet) -> None:
        """Replace a set's state, if it is what it was before and this controller leads.

        Raises SomebodyWasFaster, NotLeader or CannotKeep; after the last one the state may
        have been replaced, or be so later.
        """
        ...

    def on_lead(self, act: Callable[[float], None]) -> None:
        """Have something done when this controller begins to lead.

        It is told for how many seconds the leader before might still answer questions.
        """
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def stopped(self) -> None:
        """Wait for the end; raises what ended it."""
        ...

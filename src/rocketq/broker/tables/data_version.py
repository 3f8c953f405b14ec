"""How far a table has changed: three numbers kept with every table that others copy.

    state_version   the master's epoch where a controller elects masters, else 0
    timestamp       when the table changed last, ms
    counter         how often it changed

A NameServer or a slave compares them for equality to see whether its copy is current.
"""

from rocketq.common.clock import Clock
from rocketq.remoting.bodies.registration import DataVersion


class VersionCounter:
    """The version of one table. Advanced by the owner of that table alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._value = DataVersion(state_version=0, timestamp=clock.now_ms(), counter=0)

    @property
    def value(self) -> DataVersion:
        return self._value

    def advance(self, state_version: int | None = None) -> None:
        """Note one change, perhaps under a new master."""
        if state_version is None:
            state_version = self._value.state_version
        self._value = DataVersion(
            state_version=state_version,
            timestamp=self._clock.now_ms(),
            counter=self._value.counter + 1,
        )

    def load(self, stored: DataVersion) -> None:
        """Go on counting where a stored table left off."""
        self._value = stored

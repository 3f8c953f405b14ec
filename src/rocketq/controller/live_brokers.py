"""Who is alive, as one controller sees it: built of heartbeats, kept nowhere.

A broker is alive until its heartbeats have been missing for as long as it said itself, or
until its connection closes, which is what the system does at once for a process that died.

That somebody was not heard means nothing where nobody listened: while another controller
led, which may have told a master to go on, and while this process stood still. Then all
have their time once more (`nobody_dead_yet`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from rocketq.common.clock import Clock
from rocketq.controller.broker_set import BrokerSet
from rocketq.controller.decisions.decision import Sign

# For all sets together; a stranger's heartbeats may fill no more than that.
ENTRY_LIMIT: Final = 20_000
_SHORTEST_TIMEOUT_MS: Final = 100
_LONGEST_TIMEOUT_MS: Final = 10 * 60 * 1000


class BrokerKey(NamedTuple):
    """One broker."""

    cluster: str
    name: str
    broker_id: int


@dataclass(slots=True)
class _Entry:
    connection: object
    heard: float
    sign: Sign


class LiveBrokers:
    """The table. Heartbeats change it, the leader asks it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[BrokerKey, _Entry] = {}
        self._by_connection: dict[object, set[BrokerKey]] = {}
        # Since when this controller has listened without a break, and has led.
        self._listening_since = clock.monotonic()
        # When a master was elected: it may not have had the time for a heartbeat yet.
        self._elected: dict[str, float] = {}
        # Brokers that are known to be gone: as masters they are not waited for.
        self._gone: dict[BrokerKey, None] = {}

    # Signs of life

    def heard(self, key: BrokerKey, sign: Sign, connection: object) -> bool:
        """A heartbeat; whether it is a broker's first.

        The epoch and the offset of the log only ever move forward.
        """
        timeout_ms = min(max(sign.timeout_ms, _SHORTEST_TIMEOUT_MS), _LONGEST_TIMEOUT_MS)
        entry = self._entries.get(key)
        is_new = entry is None
        if entry is None:
            if len(self._entries) >= ENTRY_LIMIT:
                return False
            entry = self._entries[key] = _Entry(connection, 0.0, sign)
        known = entry.sign
        if (sign.epoch, sign.max_offset) < (known.epoch, known.max_offset):
            epoch, max_offset = known.epoch, known.max_offset
        else:
            epoch, max_offset = sign.epoch, sign.max_offset
        entry.sign = Sign(epoch, max_offset, sign.priority, timeout_ms)
        entry.heard = self._clock.monotonic()
        self._attach(key, entry, connection)
        self._gone.pop(key, None)
        return is_new

    def asked(self, name: str, connection: object) -> None:
        """A broker asks about its own set, over the connection of its heartbeats.

        A master goes on for a while by the answer, so that while counts from here.
        """
        for key in self._by_connection.get(connection, ()):
            if key.name == name:
                self._entries[key].heard = self._clock.monotonic()

    def elected(self, state: BrokerSet) -> None:
        """A master was elected, and has its time to be heard."""
        assert state.master_id is not None, state
        self._elected[state.name] = self._clock.monotonic()
        self._gone.pop(BrokerKey(state.cluster, state.name, state.master_id), None)

    def nobody_dead_yet(self, not_before_s: float = 0.0) -> None:
        """From now on this controller listens; what it missed before says nothing.

        Nor does silence for some seconds more, if others may be heard instead.
        """
        self._listening_since = self._clock.monotonic() + not_before_s
        self._gone.clear()

    # Deaths

    def connection_closed(self, connection: object) -> list[BrokerKey]:
        """The brokers that are gone with it."""
        keys = self._by_connection.pop(connection, set())
        for key in keys:
            del self._entries[key]
            self._note_gone(key)
        return list(keys)

    def remove_expired(self) -> list[tuple[BrokerKey, object]]:
        """Those that fell silent, each with its connection."""
        now = self._clock.monotonic()
        expired = [
            (key, entry.connection)
            for key, entry in self._entries.items()
            if not self._is_in_time(entry.heard, entry.sign.timeout_ms, now)
        ]
        for key, connection in expired:
            del self._entries[key]
            self._detach(key, connection)
            self._note_gone(key)
        return expired

    def _note_gone(self, key: BrokerKey) -> None:
        self._gone[key] = None
        if len(self._gone) > ENTRY_LIMIT:  # forgetting one only means waiting for it
            del self._gone[next(iter(self._gone))]

    # Questions

    def of_set(self, state: BrokerSet | None) -> Mapping[int, Sign]:
        """The living of one set, and its master while it has time to be heard."""
        if state is None:
            return {}
        living = {}
        now = self._clock.monotonic()
        for broker_id in state.replicas:
            key = BrokerKey(state.cluster, state.name, broker_id)
            entry = self._entries.get(key)
            if entry is not None and self._is_in_time(entry.heard, entry.sign.timeout_ms, now):
                living[broker_id] = entry.sign
            elif broker_id == state.master_id and key not in self._gone:
                since = self._elected.get(state.name, 0.0)
                if self._is_in_time(since, state.master_timeout_ms, now):
                    living[broker_id] = Sign(timeout_ms=state.master_timeout_ms)
        return living

    def __len__(self) -> int:
        return len(self._entries)

    def _is_in_time(self, heard: float, timeout_ms: int, now: float) -> bool:
        return now <= max(heard, self._listening_since) + timeout_ms / 1000

    def _attach(self, key: BrokerKey, entry: _Entry, connection: object) -> None:
        """The latest connection is the one that counts; a broker may have come back by it."""
        if entry.connection is not connection:
            self._detach(key, entry.connection)
            entry.connection = connection
        self._by_connection.setdefault(connection, set()).add(key)

    def _detach(self, key: BrokerKey, connection: object) -> None:
        keys = self._by_connection.get(connection)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._by_connection[connection]

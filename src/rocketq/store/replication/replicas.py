"""The slaves of a broker that is master: who is connected, who has what, who waits for it.

    log grows  ->  every slave that has all the rest is sent the new part, at the end of the turn
    report     ->  senders whose messages enough slaves have by now are answered, at once

Counting copies, the master is always one of them. With `needed` copies a sender is answered
when the log up to its message is in the reports of `needed - 1` slaves.

A slave is in sync while it is connected and less than `haMaxGapNotInSync` bytes behind. Two
settings of RocketMQ speak of slaves in sync; there they have an effect only in groups with a
controller or an acting master, here in every group
whose master is a SYNC_MASTER:

    minInSyncReplicas           with fewer copies in sync no message is taken at all
    enableAutoInSyncReplicas    no more copies are waited for than are in sync, but not fewer
                                than minInSyncReplicas

Where a controller has made this broker the master, there is a `Reign`, and in sync is who the
controller says is. With allAckInSyncStateSet everybody in sync is waited for, and nothing that
one of them lacks can be read: what was read or acknowledged is there whoever is master next.
Without it senders wait for inSyncReplicas copies of those in sync.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from rocketq.common.clock import Clock
from rocketq.common.metrics.family import Histogram
from rocketq.common.networks import is_inside, networks
from rocketq.store.config import BrokerRole, StoreConfig
from rocketq.store.replication.epoch_link import EpochSlaveLink
from rocketq.store.replication.epochs import OPEN_END, Epochs
from rocketq.store.replication.log_source import LogSource
from rocketq.store.replication.reign import ALL, Reign
from rocketq.store.replication.slave_link import SlaveLink
from rocketq.store.replication.waits import ReplicaWaits
from rocketq.store.results import PutStatus

logger = logging.getLogger(__name__)

_MOST_SLAVES: Final = 64
# One host alone does not keep the others from coming.
_MOST_SLAVES_OF_ONE_ADDRESS: Final = 16
_LOOK_EVERY_S: Final = 1.0

COPY_SECONDS: Final = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Upper bounds by which the times are counted that slaves take."""

WatchLog = Callable[[Callable[[], None] | None], None]


class SlaveState(NamedTuple):
    """One slave, for whoever asks how it is."""

    address: str
    acknowledged: int
    lag: int
    is_in_sync: bool
    bytes_per_second: int
    position: int


class Replicas:
    """Owned by the store; runs on the event loop alone."""

    def __init__(
        self,
        config: StoreConfig,
        source: LogSource,
        epochs: Epochs,
        clock: Clock,
        *,
        watch_log: WatchLog,
        on_enough: Callable[[], None],
        on_confirmed: Callable[[], None],
    ) -> None:
        """`on_enough` is called whenever `are_enough` changes, `on_confirmed` with `confirmed`."""
        self.confirmed = OPEN_END
        """What lies behind it may still be lost with this master, and is not shown."""
        self.on_members: Callable[[], None] | None = None
        """Called when those in sync may have to be others: one came, went, or caught up."""
        self._reign: Reign | None = None
        self._epochs = epochs
        self._clock = clock
        self._on_confirmed = on_confirmed
        self.are_enough = True
        """Whether messages may be taken: enough copies are in sync."""
        self._config = config
        self._source = source
        self._watch_log = watch_log
        self._on_enough = on_enough
        self._role = config.broker_role
        self._links: dict[SlaveLink, None] = {}
        self._waits = ReplicaWaits()
        self._server: asyncio.Server | None = None
        self._is_push_planned = False
        self._grown_at = 0.0
        self.delays = Histogram(COPY_SECONDS)
        """From when a record was written to when a slave that keeps pace said that it has it."""
        self._timer: asyncio.TimerHandle | None = None
        self.configure(config)

    # Life

    async def listen(self, host: str, port: int) -> None:
        """Let slaves come. Raises `OSError` where the port is taken."""
        assert self._server is None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_link, host, port)
        self._look()

    def _new_link(self) -> SlaveLink:
        if self._reign is not None:
            return EpochSlaveLink(self, self._source, self._config, self._epochs)
        return SlaveLink(self, self._source, self._config)

    @property
    def port(self) -> int:
        """Where slaves come to."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Send slaves away, and let nobody wait for them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for link in list(self._links):
            link.close("this broker is no master any more, or stops")
        self._watch_log(None)
        # A message of a reign that is over may be cut off: its sender has to send it again.
        is_over = self._reign is not None
        self._waits.end_all(
            PutStatus.SERVICE_NOT_AVAILABLE if is_over else PutStatus.FLUSH_SLAVE_TIMEOUT
        )
        if server is not None:
            await server.wait_closed()

    def configure(self, config: StoreConfig) -> None:
        """Take over settings; the role is not one of them."""
        self._config = config
        self._waits.timeout_s = config.slave_timeout / 1000
        self._allowed = networks("haAllowedAddresses", config.ha_allowed_addresses)
        for link in list(self._links):
            link.configure(config)
            if self._allowed and not is_inside(link.address.rpartition(":")[0], self._allowed):
                link.close("haAllowedAddresses does not name its address any more")
        self._confirm()
        self._judge()

    def take_role(self, role: BrokerRole, reign: Reign | None = None) -> None:
        self._role = role
        self._reign = reign
        self.confirmed = OPEN_END
        self.members_changed()

    # Those in sync by the word of a controller

    @property
    def reign(self) -> Reign | None:
        return self._reign

    @property
    def is_lease_over(self) -> bool:
        """Whether this master may acknowledge nothing: another may be master."""
        return self._reign is not None and not self._reign.lease.is_held

    def members_changed(self) -> None:
        """The reign has others in sync than before, or its lease again."""
        self._confirm()
        self._answer_waits()
        self._judge()

    @property
    def is_limiting(self) -> bool:
        """Whether messages wait for slaves before they can be read."""
        reign = self._reign
        return (
            reign is not None and self._config.all_ack_in_sync_state_set and len(reign.everyone) > 1
        )

    @property
    def confirmed_for_slaves(self) -> int:
        return min(self.confirmed, self._source.end)

    def _confirm(self) -> None:
        before = self.confirmed
        if not self.is_limiting:
            self.confirmed = OPEN_END
        else:
            # It never goes back: what could be read once stays.
            least = self._source.end if before == OPEN_END else before
            self.confirmed = max(least, self.safe_position(ALL))
        if self.confirmed != before:
            self._on_confirmed()
            for link in self._links:
                if isinstance(link, EpochSlaveLink):
                    link.tell_confirmed()

    def introduced(self, link: EpochSlaveLink) -> bool:
        """A slave has said who it is; False if it may not stay."""
        reign = self._reign
        if reign is None or link.broker_id == reign.broker_id or link.broker_id is None:
            link.close(f"it says that it is broker {link.broker_id}")
            return False
        for other in list(self._links):
            if other is not link and other.broker_id == link.broker_id:
                other.close("it has connected again")
        return True

    def epoch_links(self) -> list[EpochSlaveLink]:
        """The slaves that have said who they are and how much they have."""
        return [
            link
            for link in self._links
            if isinstance(link, EpochSlaveLink) and link.acknowledged >= 0
        ]

    def _acknowledged_by(self, broker_ids: Collection[int]) -> list[int]:
        """How much each of these has, the most first; those who are away have nothing."""
        by_id = {link.broker_id: link.acknowledged for link in self._links}
        return sorted((by_id.get(broker_id, -1) for broker_id in broker_ids), reverse=True)

    # Slaves

    def joined(self, link: SlaveLink) -> bool:
        """A slave has connected; False if it may not stay."""
        if self._server is None:
            return False
        host = link.address.rpartition(":")[0]
        if self._allowed and not is_inside(host, self._allowed):
            link.close("haAllowedAddresses does not name its address")
            return False
        of_host = sum(other.address.rpartition(":")[0] == host for other in self._links)
        if len(self._links) >= _MOST_SLAVES or of_host >= _MOST_SLAVES_OF_ONE_ADDRESS:
            link.close("there are too many")
            return False
        self._links[link] = None
        logger.info("slave %s has connected", link.address)
        return True

    def left(self, link: SlaveLink) -> None:
        if self._links.pop(link, self) is not self:
            logger.info(
                "slave %s is gone; it had the log up to %d", link.address, link.acknowledged
            )
            self._judge()
            if self.on_members is not None:
                self.on_members()

    def reported(self, link: SlaveLink) -> None:
        """A slave has said how much it has."""
        if self._reign is not None:
            self._confirm()
            if link.broker_id not in self._reign.members and self.on_members is not None:
                self.on_members()
        self._answer_waits()
        if not self.are_enough:
            self._judge()

    def _answer_waits(self) -> None:
        """Answer those whose messages have enough copies.

        Not when the lease is over: reports that came while this process stood still are read
        when another may be master already.
        """
        if not self.is_lease_over:
            self._waits.reached(self.safe_position)

    def refusal(self, position: int) -> str | None:
        """Why a slave whose log ends here cannot be sent ours; None if it can."""
        begin, end = self._source.begin, self._source.end
        if position < 0:
            return f"it says that its log ends at {position}"
        if position > end:
            return (
                f"its log goes on to {position}, this one ends at {end}: it has what this master "
                "has lost, or is another's slave. Delete its store directory to let it begin "
                "anew, or start it as master if what it has is wanted"
            )
        if 0 < position < begin:
            return (
                f"its log ends at {position}, this one begins at {begin}: what lies between is "
                "gone. Delete its store directory to let it begin anew"
            )
        return None

    def start_of_new_slave(self, *, from_last: bool) -> int:
        """What a slave gets first that has nothing: the last file, or all there is."""
        if from_last:
            return max(self._source.last_file, self._source.begin)
        return self._source.begin

    def states(self) -> list[SlaveState]:
        return [
            SlaveState(
                link.address,
                link.acknowledged,
                link.lag,
                self._is_in_sync(link),
                link.bytes_per_second,
                link.position,
            )
            for link in self._links
        ]

    # The log

    def watch(self) -> None:
        """Some slave has everything: it wants to be told of more."""
        if not self._is_push_planned:
            self._watch_log(self._grown)

    def _grown(self) -> None:
        """A record is being written."""
        if not self._is_push_planned:
            self._is_push_planned = True
            self._grown_at = self._clock.monotonic()  # a loop's own may know milliseconds only
            asyncio.get_running_loop().call_soon(self._push)

    def _push(self) -> None:
        self._is_push_planned = False
        for link in list(self._links):
            if link.is_caught_up:
                link.push(self._grown_at)

    def observe_delays(self, marks: deque[tuple[int, float]], position: int) -> None:
        """Count how long a slave took that has the log up to here now."""
        now = self._clock.monotonic()
        while marks and marks[0][0] <= position:
            self.delays.observe(now - marks.popleft()[1])

    # Senders

    @property
    def are_waited_for(self) -> bool:
        """Whether any sender waits for slaves at all."""
        if self._reign is not None:
            return True  # at least its lease has to be looked at
        config = self._config
        most = config.in_sync_replicas
        if config.enable_auto_in_sync_replicas:
            most = max(most, config.min_in_sync_replicas)
        return self._role is BrokerRole.SYNC_MASTER and most > 1

    def wait(self, position: int) -> asyncio.Future[PutStatus] | None:
        """A future for when enough copies reach a position; None if nobody waits for that."""
        needed = self.needed
        if self.is_lease_over:
            return _answered(PutStatus.SERVICE_NOT_AVAILABLE)
        if self._role is not BrokerRole.SYNC_MASTER or (needed <= 1 and needed != ALL):
            return None
        if self.safe_position(needed) >= position:
            return None
        if self._reign is not None:
            return self._waits.wait(position, needed)
        limit = self._config.ha_slave_fallbehind_max
        if limit > 0 and 1 + sum(self._is_within(link, limit) for link in self._links) < needed:
            return _answered(PutStatus.SLAVE_NOT_AVAILABLE)
        return self._waits.wait(position, needed)

    @property
    def needed(self) -> int:
        """How many copies a message must have now before it is acknowledged."""
        config = self._config
        if self._reign is not None and config.all_ack_in_sync_state_set:
            return ALL
        if not config.enable_auto_in_sync_replicas:
            return config.in_sync_replicas
        return max(min(config.in_sync_replicas, self.in_sync), config.min_in_sync_replicas)

    @property
    def in_sync(self) -> int:
        """How many copies are in sync, the master's among them."""
        if self._reign is not None:
            return self._reign.size
        return 1 + sum(map(self._is_in_sync, self._links))

    def _is_in_sync(self, link: SlaveLink) -> bool:
        if self._reign is not None:
            return link.broker_id in self._reign.members
        return self._is_within(link, self._config.ha_max_gap_not_in_sync)

    @staticmethod
    def _is_within(link: SlaveLink, limit: int) -> bool:
        return link.acknowledged >= 0 and link.lag < limit

    def safe_position(self, needed: int) -> int:
        """Up to where the log has so many copies."""
        reign = self._reign
        if needed == ALL and reign is not None:
            others = reign.others
            return self._acknowledged_by(others)[-1] if others else self._source.end
        if needed <= 1:
            return self._source.end
        if reign is not None:
            copies = self._acknowledged_by(reign.certain - {reign.broker_id})
            return copies[needed - 2] if len(copies) >= needed - 1 else -1
        reports = sorted((link.acknowledged for link in self._links), reverse=True)
        return reports[needed - 2] if len(reports) >= needed - 1 else -1

    # Whether there are enough

    def _look(self) -> None:
        """A slave that falls behind says nothing of it, so it has to be looked for."""
        self._judge()
        self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._look)

    def _judge(self) -> None:
        least = self._config.min_in_sync_replicas
        is_asked = self._role is BrokerRole.SYNC_MASTER and least > 1
        are_enough = not is_asked or self.in_sync >= least
        if are_enough != self.are_enough:
            self.are_enough = are_enough
            if are_enough:
                logger.info("%d copies are in sync: messages are taken again", self.in_sync)
            else:
                logger.error(
                    "%d copies are in sync, minInSyncReplicas=%d: no message is taken",
                    *(self.in_sync, least),
                )
            self._on_enough()


def _answered(status: PutStatus) -> asyncio.Future[PutStatus]:
    future: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
    future.set_result(status)
    return future

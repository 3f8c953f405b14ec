"""A broker whose role a controller decides: from its first question to every change of role.

    find the controller that leads -> get an id -> register -> take the role it says there is,
    or have a master elected -> and again and again: a sign of life, and who is master?

Until a role is known nothing is taken, nothing can be read, and no NameServer hears of the
broker. What the controller says counts if its epoch is newer than the one known here. A role
whose epoch is older than the newest in the log is refused: the controller has forgotten what it
decided before, and following it would cut off what was acknowledged since.

A master asks who is master as often as it gives a sign of life, right behind it and over the same
connection. An answer that it still is renews its lease (`masterLeaseTimeout`, counted from the
question); the controller elects another only after it has heard nothing for
`controllerHeartBeatTimeoutMills`, which is longer. When the lease is over, or the connection to
the controller that leads ends, the master stops to take and to acknowledge messages. It goes on
with the next answer that it is the master.

A master that starts again may find that it still is the one. Its log may have lost its end with
the power, while others in sync have all of it: so it stands back, silent, until the controller
has elected one of them. Only if nobody comes does it go on.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from rocketq.broker.config import LiveConfig
from rocketq.broker.replication.controllers import Controllers
from rocketq.broker.replication.identity import Identity, IdentityFiles
from rocketq.broker.replication.master_location import MasterLocation
from rocketq.broker.replication.role import MASTER_ID, Role, RoleHolder
from rocketq.broker.replication.sync_state import SyncStates
from rocketq.common.clock import Clock
from rocketq.common.errors import RocketqError
from rocketq.remoting import Command, RequestRejected, ResponseCode, check
from rocketq.remoting.bodies.controller import ElectMasterResponseBody, SyncStateSet
from rocketq.remoting.errors import RequestTimeout
from rocketq.remoting.headers import (
    ApplyBrokerId,
    BrokerHeartbeat,
    ElectMaster,
    ElectMasterResponse,
    GetNextBrokerId,
    GetNextBrokerIdResponse,
    GetReplicaInfo,
    GetReplicaInfoResponse,
    RegisterBrokerToController,
    RegisterBrokerToControllerResponse,
)
from rocketq.store import MessageStore
from rocketq.store.config import BrokerRole
from rocketq.store.durability.running_flags import Flag
from rocketq.store.replication.follower import LogFollower
from rocketq.store.replication.master_link import Replica
from rocketq.store.replication.reign import Lease, Reign

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.2
_LONGEST_RETRY_S: Final = 1.0
_SAY_AGAIN_S: Final = 30.0
_OTHERS_FIRST_S: Final = 15.0
"""Longer than any controller takes to notice that a master is silent, beside its timeout."""
_UNKNOWN: Final = "the controller has not said who is master"


class Decision(NamedTuple):
    """Who is master, by the controller's word."""

    master_id: int
    master_address: str
    epoch: int
    members: frozenset[int]
    members_epoch: int


class ControlledRole:
    """Owns the role of a broker in controller mode. Runs on the event loop alone."""

    def __init__(
        self,
        live: LiveConfig,
        store: MessageStore,
        roles: RoleHolder,
        location: MasterLocation,
        follower: LogFollower,
        controllers: Controllers,
        clock: Clock,
        address: str,
        *,
        on_role: Callable[[], None],
    ) -> None:
        """`on_role` is called when the first role is known."""
        self.epoch = 0
        """The epoch of the role this broker has; 0 before it has one."""
        self.reign: Reign | None = None
        """While it is master."""
        self.broker_id: int | None = None
        """The controller's id, as master too."""
        self._live = live
        self._store = store
        self._roles = roles
        self._location = location
        self._follower = follower
        self._controllers = controllers
        self._clock = clock
        self._address = address
        self._on_role = on_role
        config = live.broker
        self._files = IdentityFiles(live.store.root, config.broker_cluster_name, config.broker_name)
        self.sync_states = SyncStates(live, store, controllers, clock, self.look_now)
        self._is_registered = False
        self._is_news = asyncio.Event()
        self._lease_timer: asyncio.TimerHandle | None = None
        self._said = ("", 0.0)
        self._refused = 0
        self._silent_until: float | None = None
        controllers.on_leader_lost = self._leader_lost

    # Life

    async def run(self, stop: asyncio.Event) -> None:
        stopping: asyncio.Future[bool] = asyncio.ensure_future(stop.wait())
        retry_s = _RETRY_S
        try:
            while not stop.is_set():
                self._is_news.clear()
                turn = asyncio.ensure_future(self._turn())
                await asyncio.wait((turn, stopping), return_when=asyncio.FIRST_COMPLETED)
                if not turn.done():
                    turn.cancel()
                    await asyncio.gather(turn, return_exceptions=True)
                    return
                try:
                    turn.result()
                    pause_s = self._live.broker.broker_heartbeat_interval / 1000
                    retry_s = _RETRY_S
                except (RocketqError, OSError, ValueError) as error:
                    self._say(str(error))
                    pause_s = retry_s = min(retry_s * 1.5, _LONGEST_RETRY_S)
                await self._pause(pause_s, stopping)
        finally:
            stopping.cancel()
            with suppress(asyncio.CancelledError):
                await stopping
            if self._lease_timer is not None:
                self._lease_timer.cancel()
            await self._controllers.close()

    async def _pause(self, pause_s: float, stopping: asyncio.Future[bool]) -> None:
        news = asyncio.ensure_future(self._is_news.wait())
        await asyncio.wait((news, stopping), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()

    def look_now(self) -> None:
        """Ask who is master at once, and not only at the next interval."""
        self._is_news.set()

    async def _turn(self) -> None:
        if self.broker_id is None:
            self.broker_id = await self._obtain_id()
            is_learner = self._live.store.async_learner
            self._follower.introduce_as(Replica(self.broker_id, is_learner))
        if not self._is_registered and not await self._register() and not await self._was_master():
            await self._elect()
        await self._ask_who_is_master()

    def _say(self, text: str) -> None:
        """Say something once, and again when a while has passed."""
        now = asyncio.get_running_loop().time()
        before, when = self._said
        if text != before or now - when >= _SAY_AGAIN_S:
            logger.warning("%s", text)
            self._said = (text, now)

    # Its id

    async def _obtain_id(self) -> int:
        config = self._live.broker
        granted = self._files.granted()
        if granted is not None:
            return granted.broker_id
        asked = self._files.asked()
        if asked is None:
            reply = check(
                await self._controllers.call(
                    Command.request(
                        GetNextBrokerId(
                            cluster_name=config.broker_cluster_name,
                            broker_name=config.broker_name,
                        )
                    )
                )
            )
            next_id = reply.header(GetNextBrokerIdResponse).next_broker_id
            if next_id is None:
                raise RequestRejected(reply.code, "the controller names no broker id")
            asked = Identity(next_id, f"{self._address};{self._clock.now_ms()}")
            self._files.ask(asked)
        reply = await self._controllers.call(
            Command.request(
                ApplyBrokerId(
                    cluster_name=config.broker_cluster_name,
                    broker_name=config.broker_name,
                    applied_broker_id=asked.broker_id,
                    register_check_code=asked.check_code,
                )
            )
        )
        if reply.code != ResponseCode.SUCCESS:
            self._files.give_up()
            raise RequestRejected(
                reply.code, f"broker id {asked.broker_id} was not granted: {reply.remark}"
            )
        self._files.grant(asked)
        logger.info("this is broker %d of %s", asked.broker_id, config.broker_name)
        return asked.broker_id

    # Its role

    async def _register(self) -> bool:
        """Say where this broker is; whether there is a master that lives."""
        config = self._live.broker
        assert self.broker_id is not None
        reply = check(
            await self._controllers.call(
                Command.request(
                    RegisterBrokerToController(
                        cluster_name=config.broker_cluster_name,
                        broker_name=config.broker_name,
                        broker_id=self.broker_id,
                        broker_address=self._address,
                        invoke_time=self._clock.now_ms(),
                    )
                )
            )
        )
        self._is_registered = True
        header = reply.header(RegisterBrokerToControllerResponse)
        if header.master_broker_id is None or not header.master_address:
            return False
        members = SyncStateSet.decode(reply.body)
        self.decide(
            Decision(
                header.master_broker_id,
                header.master_address,
                header.master_epoch or 0,
                frozenset(members.sync_state_set),
                members.sync_state_set_epoch,
            )
        )
        return True

    async def _elect(self) -> None:
        """Nobody is master: offer oneself."""
        config = self._live.broker
        assert self.broker_id is not None
        await self._controllers.beat_leader(self._heartbeat())
        reply = await self._controllers.call(
            Command.request(
                ElectMaster(
                    cluster_name=config.broker_cluster_name,
                    broker_name=config.broker_name,
                    broker_id=self.broker_id,
                    invoke_time=self._clock.now_ms(),
                )
            )
        )
        if reply.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED:
            self._is_registered = False
        if reply.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            raise RequestRejected(reply.code, f"no master could be elected: {reply.remark}")
        header = reply.header(ElectMasterResponse)
        body = ElectMasterResponseBody.decode(reply.body)
        if header.master_broker_id is not None and header.master_address:
            self.decide(
                Decision(
                    header.master_broker_id,
                    header.master_address,
                    header.master_epoch or 0,
                    frozenset(body.sync_state_set),
                    header.sync_state_set_epoch or 0,
                )
            )

    async def _ask_who_is_master(self) -> None:
        """A sign of life to all controllers, and the question to the one that leads."""
        # From here on: the controller has not heard of us for longer than that.
        asked_at = asyncio.get_running_loop().time()
        sent_at = self._clock.monotonic()
        if not self._is_silent:
            heartbeat = self._heartbeat()
            self._controllers.beat(heartbeat)
            await self._controllers.beat_leader(heartbeat)
        try:
            epoch, decision = await self._recorded()
        except RequestTimeout:
            if self.reign is None or not self.reign.lease.is_held:
                # It may hear us and not be heard. As long as it does, it elects nobody else.
                # Or it has forgotten this connection.
                self._controllers.leave()
            raise
        if decision is None:
            self._silent_until = None  # nobody is waited for any more
            if epoch >= self.epoch:
                await self._elect()
        elif epoch > self.epoch:
            self.decide(decision)
        elif (
            self.reign is not None
            and self.reign.epoch == epoch == self.epoch
            and decision.master_id == self.broker_id
        ):
            self.sync_states.told(decision.members, decision.members_epoch, asked_at)
            self._renew(self.reign, sent_at)

    async def _recorded(self) -> tuple[int, Decision | None]:
        """The epoch, and what the controller decided in it; None if that there is no master."""
        request = Command.request(GetReplicaInfo(broker_name=self._live.broker.broker_name))
        reply = await self._controllers.call(request, self._patience_s)
        if reply.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
            self._is_registered = False
        check(reply)
        header = reply.header(GetReplicaInfoResponse)
        members = SyncStateSet.decode(reply.body)
        epoch = header.master_epoch or 0
        if header.master_broker_id is None or not header.master_address:
            return epoch, None
        return epoch, Decision(
            header.master_broker_id,
            header.master_address,
            epoch,
            frozenset(members.sync_state_set),
            members.sync_state_set_epoch,
        )

    @property
    def _patience_s(self) -> float:
        lease_ms = self._live.broker.master_lease_timeout
        return max(lease_ms / 1000, 0.5) if lease_ms else 3.0

    def _heartbeat(self) -> BrokerHeartbeat:
        config = self._live.broker
        store = self._store
        return BrokerHeartbeat(
            cluster_name=config.broker_cluster_name,
            broker_addr=self._address,
            broker_name=config.broker_name,
            broker_id=self.broker_id,
            epoch=store.epochs.last_number,
            max_offset=store.max_physical_offset,
            confirm_offset=store.confirm_offset,
            heartbeat_timeout_mills=config.controller_heart_beat_timeout_mills,
            election_priority=config.broker_election_priority,
        )

    def decide(self, decision: Decision) -> bool:
        """Take the role that a decision gives this broker; False if it is not to be taken."""
        if self.broker_id is None or decision.epoch <= self.epoch:
            return False
        newest = self._store.epochs.last_number
        if decision.epoch < newest:
            if self._refused != decision.epoch:
                self._refused = decision.epoch
                logger.error(
                    "the controller says that broker %d is master in epoch %d, but the log here "
                    "knows epoch %d: the controller has lost what it decided. Nothing is taken "
                    "over from it. Restore its state, or raise its epoch above %d",
                    *(decision.master_id, decision.epoch, newest, newest),
                )
            return False
        if self._stands_back(decision):
            return False
        is_first = self.epoch == 0
        self.epoch = decision.epoch
        if decision.master_id == self.broker_id:
            logger.info("this broker is master in epoch %d", decision.epoch)
            self._location.lead(None)
            self._reign(decision)
            self._roles.change(Role(BrokerRole.SYNC_MASTER, MASTER_ID, decision.epoch))
        else:
            logger.info(
                "broker %d at %s is master in epoch %d",
                *(decision.master_id, decision.master_address, decision.epoch),
            )
            self._end_reign()
            self._roles.change(Role(BrokerRole.SLAVE, self.broker_id, decision.epoch))
            self._location.lead(decision.master_address)
        self._store.flags.clear(Flag.FENCED, "the role is known")
        if is_first:
            self._on_role()
        return True

    # A reign from before it started

    async def _was_master(self) -> bool:
        """Whether nobody lives who is master because this broker is it, and stands back."""
        if len(self._store.epochs) == 0:
            return False
        _, decision = await self._recorded()
        return decision is not None and self._stands_back(decision)

    def _stands_back(self, decision: Decision) -> bool:
        """Whether others that are in sync are to be elected before this one goes on."""
        assert self.broker_id is not None
        is_known = self.epoch == 0 and decision.epoch == self._store.epochs.last_number
        if decision.master_id != self.broker_id or not is_known:
            return False
        if decision.members <= {self.broker_id}:
            return False  # nobody else has what was acknowledged
        now = asyncio.get_running_loop().time()
        if self._silent_until is None:
            timeout_s = self._live.broker.controller_heart_beat_timeout_mills / 1000
            self._silent_until = now + timeout_s + _OTHERS_FIRST_S
            logger.warning(
                "this broker was master in epoch %d before it started. Its log may have lost its "
                "end since, so it is silent for up to %.0f s: another one is to be elected",
                *(decision.epoch, timeout_s + _OTHERS_FIRST_S),
            )
        return now < self._silent_until

    @property
    def _is_silent(self) -> bool:
        return (
            self.epoch == 0
            and self._silent_until is not None
            and asyncio.get_running_loop().time() < self._silent_until
        )

    def _reign(self, decision: Decision) -> None:
        assert self.broker_id is not None
        self._end_reign()
        lease_ms = self._live.broker.master_lease_timeout
        lease = Lease(self._clock.monotonic)
        if lease_ms:
            lease = Lease(self._clock.monotonic, self._clock.monotonic() + lease_ms / 1000)
        self.reign = Reign(
            self.broker_id, decision.epoch, decision.members, decision.members_epoch, lease
        )
        self._watch_lease(self.reign)
        self.look_now()

    # Its lease

    def _renew(self, reign: Reign, sent_at: float) -> None:
        lease_ms = self._live.broker.master_lease_timeout
        if not lease_ms:
            return
        was_over = not reign.lease.is_held
        reign.lease.renew(sent_at + lease_ms / 1000)
        if reign.lease.is_held:
            if was_over:
                self._store.replicas.members_changed()  # for those who waited meanwhile
            self._store.flags.clear(Flag.FENCED, "the controller has answered")
            self._watch_lease(reign)

    def _watch_lease(self, reign: Reign) -> None:
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None
        if self._live.broker.master_lease_timeout:
            loop = asyncio.get_running_loop()
            after_s = max(reign.lease.remaining_s, 0)
            self._lease_timer = loop.call_later(after_s, self._look_at_lease, reign)

    def _look_at_lease(self, reign: Reign) -> None:
        self._lease_timer = None
        if reign is not self.reign:
            return
        if reign.lease.is_held:
            self._watch_lease(reign)
        else:
            self._store.flags.set(
                Flag.FENCED, "the controller has not confirmed in time that this is the master"
            )

    def _leader_lost(self) -> None:
        """The connection to the controller has ended: it may take that for our end."""
        if self.reign is not None and self._live.broker.master_lease_timeout:
            self.reign.lease.end()
            self._look_at_lease(self.reign)
        self.look_now()

    def _end_reign(self) -> None:
        if self.reign is not None:
            self.reign.lease.end()
        self.reign = None
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None

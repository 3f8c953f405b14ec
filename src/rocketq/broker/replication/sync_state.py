"""Who is in sync with this master: found out from their reports, agreed with the controller.

    comes in   has nearly everything: from then on nothing is acknowledged without it. When it has
               all from before as well, the controller is asked to count it in
    goes out   its connection has ended, or it was not level with the master for
               `haMaxTimeSlaveNotCatchup`: the controller is asked to count it out, and until it
               has agreed, nothing is acknowledged without it

RocketMQ's master counts a slave out itself before it asks. One that was cut off from slaves and
controller alike then acknowledges messages that nobody else has.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.replication.controllers import Controllers
from rocketq.common.clock import Clock
from rocketq.common.errors import RocketqError
from rocketq.common.loop.service import asked_to_stop
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.bodies.controller import SyncStateSet
from rocketq.remoting.headers import AlterSyncStateSet
from rocketq.store import MessageStore
from rocketq.store.replication.epoch_link import EpochSlaveLink
from rocketq.store.replication.reign import Reign

logger = logging.getLogger(__name__)

_NEARLY_ALL: Final = 1 << 20
"""A slave that lacks no more than this will not be waited for long."""
_LOOK_EVERY_S: Final = 1.0
_ASK_AGAIN_S: Final = 0.2
_ASK_WITHIN_S: Final = 2.0


class SyncStates:
    """Runs while the broker is a master that was elected."""

    def __init__(
        self,
        live: LiveConfig,
        store: MessageStore,
        controllers: Controllers,
        clock: Clock,
        ask_role: Callable[[], None],
    ) -> None:
        """`ask_role` has the controller asked who is master."""
        self._live = live
        self._store = store
        self._controllers = controllers
        self._clock = clock
        self._ask_role = ask_role
        self._is_news = asyncio.Event()
        self._is_asking = False
        self._refused_at: float | None = None
        self._seen: set[int] = set()
        store.replicas.on_members = self._is_news.set

    async def run(self, stop: asyncio.Event) -> None:
        reign = self._store.replicas.reign
        if reign is None:
            await stop.wait()
            return
        self._seen = set()
        self._refused_at = None
        began = asyncio.get_running_loop().time()
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                self._is_news.clear()
                wanted = self._wanted(reign, began)
                is_open = wanted != reign.members or reign.asked is not None
                if is_open and self._refused_at is None:
                    asking = asyncio.ensure_future(self._ask(reign, wanted))
                    await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
                    if not asking.done():
                        asking.cancel()
                        await asyncio.gather(asking, return_exceptions=True)
                    elif not asking.result():
                        await asked_to_stop(stop, _ASK_AGAIN_S)
                    continue
                news = asyncio.ensure_future(self._is_news.wait())
                await asyncio.wait(
                    (news, stopping), timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
                )
                news.cancel()
        finally:
            stopping.cancel()

    def told(self, members: frozenset[int], members_epoch: int, asked_at: float) -> None:
        """What the controller says of itself, to a question of this time of the loop."""
        reign = self._store.replicas.reign
        if reign is None or self._is_asking:
            return
        is_after_refusal = self._refused_at is not None and asked_at > self._refused_at
        if reign.asked is None or is_after_refusal or members_epoch > reign.members_epoch:
            self._refused_at = None
            self._take_members(reign, members, members_epoch)
            self._is_news.set()

    def _take_members(self, reign: Reign, members: frozenset[int], members_epoch: int) -> None:
        if reign.take_members(members, members_epoch):
            logger.info(
                "in sync are brokers %s (set %d of epoch %d)",
                *(sorted(reign.members), members_epoch, reign.epoch),
            )
        self._store.replicas.members_changed()

    # Who should be

    def _wanted(self, reign: Reign, began: float) -> frozenset[int]:
        """Who is in sync as things are now. Notes those who are about to be."""
        now = asyncio.get_running_loop().time()
        links = {link.broker_id: link for link in self._store.replicas.epoch_links()}
        self._seen |= {broker_id for broker_id in links if broker_id is not None}
        latest = now - self._live.store.ha_max_time_slave_not_catchup / 1000
        wanted = {reign.broker_id}
        for member in reign.members - {reign.broker_id}:
            link = links.get(member)
            if link is None:
                # One that never came may be about to.
                if member not in self._seen and began > latest:
                    wanted.add(member)
            elif link.has_caught_up_since(latest):
                wanted.add(member)
        joining = {}
        for broker_id, link in links.items():
            if broker_id is not None and broker_id not in reign.members and not link.is_learner:
                target = self._target(reign, broker_id, link)
                if target is not None:
                    joining[broker_id] = target
                    if link.acknowledged >= target:
                        wanted.add(broker_id)
        if joining != reign.joining:
            reign.joining = joining
            self._store.replicas.members_changed()
        return frozenset(wanted)

    def _target(self, reign: Reign, broker_id: int, link: EpochSlaveLink) -> int | None:
        """What a slave must have to be in sync; None while it lacks too much."""
        if broker_id in reign.joining:
            return reign.joining[broker_id]
        last = self._store.epochs.last
        if link.lag > _NEARLY_ALL or last is None:
            return None
        return self._store.max_physical_offset

    # The controller's word

    async def _ask(self, reign: Reign, wanted: frozenset[int]) -> bool:
        """Have those in sync changed; whether there is an answer."""
        if reign.asked is None:
            reign.asked = wanted
            self._store.replicas.members_changed()
        # A question whose answer was lost is asked again as it was: until there is one, both
        # what was and what was asked for count.
        asked = reign.asked
        request = Command.request(
            AlterSyncStateSet(
                broker_name=self._live.broker.broker_name,
                master_broker_id=reign.broker_id,
                master_epoch=reign.epoch,
                invoke_time=self._clock.now_ms(),
            ),
            SyncStateSet(
                sync_state_set=sorted(asked), sync_state_set_epoch=reign.members_epoch
            ).encode(),
        )
        self._is_asking = True
        try:
            reply = await self._controllers.call(request, _ASK_WITHIN_S)
            if reply.code == ResponseCode.SUCCESS:
                answer = SyncStateSet.decode(reply.body)
                self._take_members(
                    reign, frozenset(answer.sync_state_set), answer.sync_state_set_epoch
                )
                return True
        except RocketqError as error:
            logger.warning("the controller cannot be told who is in sync: %s", error)
            return False
        finally:
            self._is_asking = False
        logger.warning(
            "the controller does not take brokers %s as in sync: %d %s",
            *(sorted(asked), reply.code, reply.remark),
        )
        # It may have done so before, with the answer lost: what it says from now on counts.
        self._refused_at = asyncio.get_running_loop().time()
        self._ask_role()
        return False

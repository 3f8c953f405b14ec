"""From a question to a decision that is kept: look, decide, keep, and only then answer."""

import logging
from collections.abc import Callable
from typing import Final

from rocketq.controller.broker_set import BrokerSet
from rocketq.controller.config import LiveConfig
from rocketq.controller.decisions.decision import Decision, Living, refused
from rocketq.controller.decisions.mastership import elect
from rocketq.controller.keeper.keeper import CannotKeep, Keeper, Kept, SomebodyWasFaster
from rocketq.controller.live_brokers import LiveBrokers
from rocketq.controller.role_notices import RoleNotices
from rocketq.remoting.codes import ResponseCode

logger = logging.getLogger(__name__)

Decide = Callable[[BrokerSet | None, Living], Decision]

# Broker names that may be known, those cleaned away among them: their epochs are kept.
SET_LIMIT: Final = 10_000
_ATTEMPTS: Final = 10


class Deciding:
    """All decisions of a controller go through here, those that nobody asked for, too."""

    def __init__(
        self, keeper: Keeper, live: LiveBrokers, notices: RoleNotices, config: LiveConfig
    ) -> None:
        self._keeper = keeper
        self._live = live
        self._notices = notices
        self._config = config
        self.elections: dict[tuple[str, str, str], int] = {}
        """How elections ended: cluster, name and result -> how often."""

    async def state(self, name: str) -> BrokerSet | None:
        """A set as it surely is. Raises NotLeader or CannotKeep."""
        kept = await self._keeper.current(name)
        return None if kept is None else kept.state

    async def decide(self, name: str, decide: Decide) -> Decision:
        """Raises NotLeader or CannotKeep; then nothing was promised to anybody."""
        for _ in range(_ATTEMPTS):
            kept = await self._keeper.current(name)
            before = None if kept is None else kept.state
            decision = decide(before, self._live.of_set(before))
            after = decision.state
            if after is None or after == before:
                return decision
            if before is None and len(self._keeper.sets) >= SET_LIMIT:
                remark = f"{SET_LIMIT} broker sets are known, which is the most there can be"
                return refused(ResponseCode.SYSTEM_BUSY, remark, None)
            try:
                await self._keeper.keep(name, kept, after)
            except SomebodyWasFaster:
                continue
            self._tell(before, decision, after)
            return decision
        raise CannotKeep(f"{name} changed {_ATTEMPTS} times while it was decided upon")

    async def replace_master(self, name: str) -> Decision:
        """What the controller does by itself when a master is gone."""
        unclean = self._config.current.enable_elect_unclean_master
        decision = await self.decide(
            name, lambda state, living: elect(state, living, unclean=unclean)
        )
        if decision.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE:
            logger.warning("%s", decision.remark)
            self._count(decision.state, "no_master_elected")
        return decision

    def needs_master(self, kept: Kept) -> bool:
        """Whether a set's master is gone, or it has none and there is somebody to be it."""
        state = kept.state
        living = self._live.of_set(state)
        if state.master_id is not None:
            return state.master_id not in living
        unclean = self._config.current.enable_elect_unclean_master
        candidates = state.replicas if unclean and state.in_sync else state.in_sync
        return any(number in living for number in candidates)

    def _count(self, state: BrokerSet | None, result: str) -> None:
        if state is not None:
            key = (state.cluster, state.name, result)
            self.elections[key] = self.elections.get(key, 0) + 1

    def _tell(self, before: BrokerSet | None, decision: Decision, state: BrokerSet) -> None:
        if not decision.has_new_master:
            return
        self._count(state, "new_master_elected")
        logger.info(
            "broker %s at %s is master of %s, epoch %d",
            state.master_id,
            state.master_address,
            state.name,
            state.master_epoch,
        )
        old_master = None if before is None else before.master_id
        living = self._live.of_set(state)
        self._live.elected(state)
        if self._config.current.notify_broker_role_changed:
            # An old master that lives is to stop before the new one begins.
            order = sorted(living, key=lambda number: (number != old_master, number))
            self._notices.tell(state, [state.replicas[number].address for number in order])

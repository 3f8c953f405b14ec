"""The state in etcd, shared by any number of controllers, of which one leads.

    PREFIX/leader            {"name":..,"address":..}   hangs on the lease of the one that leads
    PREFIX/members/NAME      {"name":..,"address":..}   hangs on the lease of that controller
    PREFIX/sets/BROKER_NAME  the state of a broker set
    PREFIX/deposed           which `leader` was deleted by others, if one was

Whoever makes the key `leader` leads, until its lease ends. Every decision is a transaction
that compares two revisions: that of `leader`, which must be the key this controller made, and
that of the set, which must be the one decided upon. So it does not matter whether somebody
still believes to lead: etcd does not take its decisions.

A leader whose process ended is not waited for: the others hold a connection to it, and delete
its key when that closes and no new one is accepted. The next leader then allows for what the
old one, were it alive after all, could still say while its lease lasts.

For questions that change nothing a leader does not ask etcd. It answers while its lease
surely lasts, counted from before the renewal was sent, and says that it does not lead
otherwise. Nobody but the leader writes, so what it remembers is what is kept; a change whose
fate is unknown is looked up first.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.common.loop.service import asked_to_stop, running
from rocketq.common.numbers import parse_natural
from rocketq.controller.broker_set import BrokerSet
from rocketq.controller.etcd.client import (
    Change,
    EtcdAccess,
    EtcdClient,
    Pair,
    is_absent,
    made_at,
    unchanged_since,
)
from rocketq.controller.etcd.errors import EtcdError, EtcdFull, EtcdUnavailable, HistoryGone
from rocketq.controller.keeper.keeper import (
    CannotKeep,
    Kept,
    Member,
    NotLeader,
    SomebodyWasFaster,
)
from rocketq.controller.keeper.neighbour import process_gone

logger = logging.getLogger(__name__)

# How long etcd has for an answer, with all its nodes together.
_TIMEOUT_S: Final = 3.0
_RETRY_S: Final = 0.2
_COMPLAINT_S: Final = 10.0
# A lease is renewed so often in its time that two renewals may fail.
_RENEWALS: Final = 4


class EtcdKeeper:
    """One controller's view of etcd."""

    def __init__(
        self,
        access: EtcdAccess,
        *,
        prefix: str,
        name: Callable[[], str],
        address: Callable[[], str],
        lease_s: int,
        clock: Clock,
        connect: Callable[[EtcdAccess], EtcdClient] = EtcdClient,
    ) -> None:
        self._client = connect(access)
        self._prefix = prefix.rstrip("/").encode() + b"/"
        self._leader_key = self._prefix + b"leader"
        self._members_prefix = self._prefix + b"members/"
        self._sets_prefix = self._prefix + b"sets/"
        self._deposed_key = self._prefix + b"deposed"
        self._name = name
        self._address = address
        self._clock = clock
        self._wanted_lease_s = lease_s

        self._lease: int | None = None
        self._lease_s = float(lease_s)
        self._lease_until = 0.0
        self._leader: Member | None = None
        # The revision at which this controller made the leader's key; None: it does not lead.
        self._reign: int | None = None
        # The last reign of another that was seen, and the task that looks after its process.
        self._last_reign = 0
        self._vacated = 0  # when somebody's key was last seen to be gone
        self._neighbour: asyncio.Task[None] | None = None
        self._members: dict[bytes, Member] = {}
        self._sets: dict[str, Kept] = {}
        # Sets whose last change may or may not have been taken.
        self._unsure: set[str] = set()

        self._begin: list[Callable[[float], None]] = []
        self._vacant = asyncio.Event()  # nobody leads
        self._complaint = ("", 0.0)
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    # What is known

    @property
    def leads(self) -> bool:
        return self._reign is not None and self._clock.monotonic() < self._lease_until

    @property
    def leader(self) -> Member | None:
        return self._leader

    @property
    def members(self) -> list[Member]:
        return [self._members[key] for key in sorted(self._members)]

    @property
    def sets(self) -> Mapping[str, Kept]:
        return self._sets

    def on_lead(self, act: Callable[[float], None]) -> None:
        self._begin.append(act)

    async def current(self, name: str) -> Kept | None:
        self._check_leads()
        if name in self._unsure:
            try:
                found = await self._client.read(self._set_key(name), _TIMEOUT_S)
            except EtcdError as error:
                raise CannotKeep(str(error)) from None
            self._unsure.discard(name)
            self._remember(name, found.pairs)
            if name in self._unsure:
                raise CannotKeep(f"what etcd holds of {name} makes no sense")
            self._check_leads()
        return self._sets.get(name)

    # Decisions

    async def keep(self, name: str, before: Kept | None, state: BrokerSet) -> None:
        self._check_leads()
        assert self._reign is not None
        key, text = self._set_key(name), state.encode()
        conditions = [
            made_at(self._leader_key, self._reign),
            unchanged_since(key, before.revision if before is not None else 0),
        ]
        try:
            outcome = await self._client.put_if(conditions, key, text, timeout_s=_TIMEOUT_S)
        except EtcdFull as error:
            raise CannotKeep(str(error)) from None
        except EtcdError as error:
            self._unsure.add(name)
            raise CannotKeep(str(error)) from None
        if outcome.succeeded:
            self._take_over(name, Kept(state, outcome.revision))
            return
        found = {pair.key: pair for pair in outcome.pairs}
        self._unsure.discard(name)
        self._remember(name, [found[key]] if key in found else [])
        if key in found and found[key].value == text:
            return  # the first of two attempts was taken, and its answer lost
        leader = found.get(self._leader_key)
        if leader is None:
            self._no_leader(outcome.revision)
            raise NotLeader("nobody leads at the moment")
        if leader.create_revision != self._reign:
            self._lose("its key in etcd is another's")
            self._new_leader(leader)
            raise NotLeader("another controller leads now")
        raise SomebodyWasFaster(name)

    def _check_leads(self) -> None:
        if not self.leads:
            raise NotLeader("this controller does not lead")

    def _set_key(self, name: str) -> bytes:
        return self._sets_prefix + name.encode()

    def _take_over(self, name: str, kept: Kept) -> None:
        known = self._sets.get(name)
        if known is None or known.revision < kept.revision:
            self._sets[name] = kept

    def _remember(self, name: str, pairs: list[Pair]) -> None:
        if not pairs:
            self._sets.pop(name, None)
            return
        try:
            state = BrokerSet.decode(pairs[0].value)
        except ValueError as error:
            # Nothing is decided for it until somebody has mended it.
            logger.error("%s in etcd makes no sense: %s", pairs[0].key, error)
            self._unsure.add(name)
            return
        self._take_over(name, Kept(state, pairs[0].mod_revision))

    # Life

    async def start(self) -> None:
        """Wait until etcd has answered once; raises CannotKeep where it refuses."""
        assert self._running is None, "already started"
        try:
            await self._client.read(self._leader_key, _TIMEOUT_S)
        except EtcdUnavailable as error:
            logger.warning("%s; it is asked until it does", error)
        except EtcdError as error:
            await self._client.close()
            raise CannotKeep(str(error)) from None
        self._running = asyncio.create_task(self._run(), name="etcd keeper")

    async def stop(self) -> None:
        """Give the lead away, so that nobody waits for the lease to end."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def stopped(self) -> None:
        assert self._running is not None, "not started"
        await asyncio.shield(self._running)

    async def _run(self) -> None:
        try:
            async with running("etcd lease", self._hold_lease), running("etcd watch", self._follow):
                await self._stop.wait()
        finally:
            self._reign = None
            self._leave_neighbour()
            if self._lease is not None:
                try:
                    await self._client.revoke_lease(self._lease, 1.0)
                except EtcdError as error:
                    logger.info("the lease ends by itself: %s", error)
            await self._client.close()

    # The lease

    async def _hold_lease(self, stop: asyncio.Event) -> None:
        pause_s = 0.0
        while not await asked_to_stop(stop, within_s=pause_s):
            try:
                if self._lease is None:
                    await self._new_lease()
                else:
                    await self._renew_lease(self._lease)
                pause_s = self._lease_s / _RENEWALS
            except EtcdError as error:
                self._complain("the lease was not renewed", error)
                pause_s = _RETRY_S

    async def _new_lease(self) -> None:
        asked = self._clock.monotonic()
        lease, lease_s = await self._client.grant_lease(self._wanted_lease_s, _TIMEOUT_S)
        key = self._members_prefix + self._name().encode()
        text = _member_text(Member(self._name(), self._address()))
        await self._client.put_if([], key, text, lease=lease, timeout_s=_TIMEOUT_S)
        self._lease, self._lease_s = lease, float(lease_s)
        self._lease_until = asked + self._lease_s

    async def _renew_lease(self, lease: int) -> None:
        asked = self._clock.monotonic()
        lease_s = await self._client.renew_lease(lease, self._lease_s / 2)
        if lease_s > 0:
            # Counted from before it was asked for: etcd counts from later.
            self._lease_until = asked + lease_s
            return
        logger.warning("the lease has ended")
        self._lease = None
        self._lose("its lease has ended")
        self._vacant.set()
        await self._new_lease()

    # What others do

    async def _follow(self, stop: asyncio.Event) -> None:
        """Keep the copy of everything up to date, and take the lead when nobody has it."""
        following = asyncio.ensure_future(self._follow_for_ever())
        campaigning = asyncio.ensure_future(self._campaign_for_ever())
        asked = asyncio.ensure_future(stop.wait())
        tasks = (following, campaigning, asked)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_for_ever(self) -> None:
        while True:
            try:
                everything = await self._client.read_prefix(self._prefix, _TIMEOUT_S)
                self._begin_again(everything.revision, everything.pairs)
                async for changes in self._client.watch(self._prefix, everything.revision + 1):
                    for change in changes:
                        self._heed(change)
            except HistoryGone:
                continue
            except EtcdError as error:
                self._complain("etcd cannot be watched", error)
                await asyncio.sleep(_RETRY_S)

    def _begin_again(self, revision: int, pairs: list[Pair]) -> None:
        keys = {pair.key for pair in pairs}
        self._members = {key: each for key, each in self._members.items() if key in keys}
        for name, kept in list(self._sets.items()):
            if self._set_key(name) not in keys and kept.revision <= revision:
                del self._sets[name]
        if self._leader_key not in keys:
            self._no_leader(revision)
        for pair in pairs:
            self._heed(Change(pair, is_deleted=False))

    def _heed(self, change: Change) -> None:
        key, pair = change.pair.key, change.pair
        if key == self._leader_key:
            if change.is_deleted:
                self._no_leader(pair.mod_revision)
            else:
                self._new_leader(pair)
        elif key.startswith(self._members_prefix):
            if change.is_deleted:
                self._members.pop(key, None)
            else:
                self._members[key] = _member(pair)
        elif key.startswith(self._sets_prefix):
            name = key[len(self._sets_prefix) :].decode()
            if not change.is_deleted:
                self._remember(name, [pair])
            elif name in self._sets and self._sets[name].revision < pair.mod_revision:
                del self._sets[name]

    def _new_leader(self, pair: Pair) -> None:
        if self._reign is not None and pair.create_revision <= self._reign:
            return  # old news, or our own
        if pair.lease == self._lease:
            self._vacant.set()  # it is ours, and its making is not noticed yet
            return
        self._leader = _member(pair)
        self._lose(f"{self._leader.name} leads")
        logger.info("%s at %s leads", self._leader.name, self._leader.address)
        self._last_reign = pair.create_revision
        self._vacant.clear()
        self._leave_neighbour()
        self._neighbour = asyncio.create_task(
            self._look_after(self._leader, pair.create_revision), name="leader's process"
        )

    def _no_leader(self, revision: int) -> None:
        if self._reign is not None and revision < self._reign:
            return  # old news
        self._vacated = max(self._vacated, revision)
        self._leader = None
        self._leave_neighbour()
        self._lose("its key in etcd is gone")
        self._vacant.set()

    def _lose(self, why: str) -> None:
        if self._reign is not None:
            logger.warning("this controller leads no longer: %s", why)
        self._reign = None

    def _leave_neighbour(self) -> None:
        if self._neighbour is not None:
            self._neighbour.cancel()
            self._neighbour = None

    async def _look_after(self, leader: Member, reign: int) -> None:
        """Depose a leader whose process has ended; etcd would wait for its lease."""
        try:
            await process_gone(leader.address)
            logger.warning("the process of %s at %s has ended", leader.name, leader.address)
            await self._client.delete_if(
                [made_at(self._leader_key, reign)],
                self._leader_key,
                note=(self._deposed_key, b"%d" % reign),
                timeout_s=_TIMEOUT_S,
            )
        except (EtcdError, ValueError) as error:
            self._complain("a leader that is gone was not deposed", error)

    def _complain(self, what: str, error: Exception) -> None:
        """Say what is wrong with etcd, but not five times a second."""
        text, until = self._complaint
        now = self._clock.monotonic()
        if what != text or now >= until:
            logger.warning("%s: %s", what, error)
            self._complaint = (what, now + _COMPLAINT_S)

    # Taking the lead

    async def _campaign_for_ever(self) -> None:
        while True:
            await self._vacant.wait()
            try:
                if await self._campaign():
                    continue
            except EtcdError as error:
                self._complain("nobody leads", error)
            await asyncio.sleep(_RETRY_S)

    async def _campaign(self) -> bool:
        """Whether somebody leads now."""
        lease = self._lease
        if lease is None:
            return False
        me = Member(self._name(), self._address())
        outcome = await self._client.put_if(
            [is_absent(self._leader_key)],
            self._leader_key,
            _member_text(me),
            lease=lease,
            timeout_s=_TIMEOUT_S,
        )
        reign = outcome.revision
        if not outcome.succeeded:
            (pair,) = outcome.pairs
            if pair.lease != lease:
                self._new_leader(pair)
                return True
            reign = pair.create_revision  # made by an attempt whose answer was lost
        everything = await self._client.read_prefix(self._prefix, _TIMEOUT_S)
        if lease != self._lease or self._vacated > reign:
            return False  # it was ours, and is gone again
        self._sets = {}
        self._unsure.clear()
        deposed = 0
        for pair in everything.pairs:
            if pair.key == self._deposed_key:
                deposed = parse_natural(pair.value) or 0
            elif pair.key != self._leader_key:
                self._heed(Change(pair, is_deleted=False))
        self._leave_neighbour()
        was_deposed = deposed >= max(self._last_reign, 1)
        self._reign = reign
        self._leader = me
        self._vacant.clear()
        logger.info("this controller leads; %d broker sets are known", len(self._sets))
        for act in self._begin:
            act(self._lease_s if was_deposed else 0.0)
        return True


def _member_text(member: Member) -> bytes:
    return json.dumps({"name": member.name, "address": member.address})


def _member(pair: Pair) -> Member:
    try:
        plain = json.loads(pair.value)
        return Member(str(plain["name"]), str(plain["address"]))
    except (ValueError, KeyError, TypeError):
        logger.error("%s in etcd makes no sense", pair.key)
        return Member("unknown", "")

"""The requests of brokers and administrators."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from rocketq.common import json
from rocketq.common.config import ConfigError, parse_changes
from rocketq.controller.broker_set import BrokerSet
from rocketq.controller.config import LiveConfig
from rocketq.controller.deciding import Deciding
from rocketq.controller.decisions import mastership, membership
from rocketq.controller.decisions.decision import Decision, Sign
from rocketq.controller.keeper.keeper import CannotKeep, Keeper, NotLeader
from rocketq.controller.live_brokers import BrokerKey, LiveBrokers
from rocketq.remoting.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
    decode_broker_names,
)
from rocketq.remoting.bodies.route import BrokerMemberGroup
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.headers.controller import (
    AlterSyncStateSet,
    AlterSyncStateSetResponse,
    ApplyBrokerId,
    ApplyBrokerIdResponse,
    CleanBrokerData,
    ElectMaster,
    ElectMasterResponse,
    GetMetadataInfoResponse,
    GetNextBrokerId,
    GetNextBrokerIdResponse,
    GetReplicaInfo,
    GetReplicaInfoResponse,
    RegisterBrokerToController,
    RegisterBrokerToControllerResponse,
)
from rocketq.remoting.headers.namesrv import BrokerHeartbeat
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.server import Handler, Handlers
from rocketq.remoting.wire.command import Command

_NAME_LIMIT: Final = 255
_ADDRESS_LIMIT: Final = 512
# Decisions under way at a time; each is a write to etcd.
_DECISIONS: Final = 1_000
_NOBODY: Final = -1

_Decided = Callable[[Command], Awaitable[Command]]


class ControllerProcessor:
    """Answers from what is known, and has decided what must be."""

    def __init__(
        self,
        deciding: Deciding,
        keeper: Keeper,
        live: LiveBrokers,
        config: LiveConfig,
        *,
        on_arrival: Callable[[str], None],
    ) -> None:
        """`on_arrival` is told the name of a set of which a broker is heard for the first time."""
        self._deciding = deciding
        self._keeper = keeper
        self._live = live
        self._config = config
        self._on_arrival = on_arrival
        self._under_way = 0

    def handlers(self) -> Handlers:
        return {
            BrokerHeartbeat.CODE: self._heartbeat,
            GetReplicaInfo.CODE: self._replica_info,
            AlterSyncStateSet.CODE: self._deciding_handler(self._alter_sync_state_set),
            ElectMaster.CODE: self._deciding_handler(self._elect_master),
            RegisterBrokerToController.CODE: self._deciding_handler(self._register),
            GetNextBrokerId.CODE: self._deciding_handler(self._next_id),
            ApplyBrokerId.CODE: self._deciding_handler(self._apply_id),
            CleanBrokerData.CODE: self._deciding_handler(self._clean),
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self._deciding_handler(self._sync_states),
            RequestCode.CONTROLLER_GET_METADATA_INFO: self._metadata,
            RequestCode.GET_CONTROLLER_CONFIG: self._get_config,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self._update_config,
        }

    # Answered by every controller

    def _heartbeat(self, request: Command, connection: Connection) -> Command:
        header = request.header(BrokerHeartbeat)
        if header.broker_id is None:
            raise RequestRejected(
                ResponseCode.CONTROLLER_INVALID_REQUEST, "a heartbeat must name its broker's id"
            )
        names = (header.cluster_name, header.broker_name)
        if max(map(len, names)) > _NAME_LIMIT or len(header.broker_addr) > _ADDRESS_LIMIT:
            raise RequestRejected(ResponseCode.CONTROLLER_INVALID_REQUEST, "the names are too long")
        unsaid = Sign()
        is_new = self._live.heard(
            BrokerKey(header.cluster_name, header.broker_name, header.broker_id),
            Sign(
                _or(header.epoch, unsaid.epoch),
                _or(header.max_offset, unsaid.max_offset),
                _or(header.election_priority, unsaid.priority),
                _or(header.heartbeat_timeout_mills, unsaid.timeout_ms),
            ),
            connection,
        )
        if is_new:
            self._on_arrival(header.broker_name)
        return request.reply(remark="Heart beat success")

    def _metadata(self, request: Command, connection: Connection) -> Command:
        leader = self._keeper.leader
        header = GetMetadataInfoResponse(
            group=self._config.current.controller_group,
            controller_leader_id=leader.name if leader is not None else None,
            controller_leader_address=leader.address if leader is not None else None,
            is_leader=self._keeper.leads,
            peers="".join(f"{each.name}:{each.address};" for each in self._keeper.members),
        )
        return request.reply(header)

    def _get_config(self, request: Command, connection: Connection) -> Command:
        return request.reply(body=self._config.text().encode())

    def _update_config(self, request: Command, connection: Connection) -> Command:
        try:
            changes = parse_changes(request.body)
            if not self._config.current.locked_keys.isdisjoint(changes):
                raise RequestRejected(
                    ResponseCode.NO_PERMISSION, "Can not update config in black list."
                )
            self._config.update(changes)
        except ConfigError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return request.reply()

    # Answered by the leader

    def _deciding_handler(self, answer: _Decided) -> Handler:
        async def handle(request: Command, connection: Connection) -> Command:
            if self._under_way >= _DECISIONS:
                raise RequestRejected(
                    ResponseCode.SYSTEM_BUSY, f"{_DECISIONS} decisions are under way"
                )
            self._under_way += 1
            try:
                return await answer(request)
            except NotLeader:
                raise _not_leader() from None
            except CannotKeep as error:
                raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
            finally:
                self._under_way -= 1

        return handle

    def _replica_info(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command]:
        """Asked by every broker twice a second, and answered from memory.

        A master lives by the answer, so it must come from the one that decides.
        """
        name = request.header(GetReplicaInfo).broker_name
        if not self._keeper.leads:
            raise _not_leader()
        return self._replica_info_of(name, request, connection)

    async def _replica_info_of(
        self, name: str, request: Command, connection: Connection
    ) -> Command:
        try:
            state = await self._deciding.state(name)
        except NotLeader:
            raise _not_leader() from None
        except CannotKeep as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        if state is None or not state.is_known:
            raise RequestRejected(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, f"{name} is not known"
            )
        self._live.asked(name, connection)
        header = GetReplicaInfoResponse(
            master_broker_id=state.master_id,
            master_address=state.master_address,
            master_epoch=state.master_epoch,
        )
        return request.reply(header, _sync_state_set(state))

    async def _next_id(self, request: Command) -> Command:
        header = request.header(GetNextBrokerId)
        state = await self._deciding.state(header.broker_name)
        reply = GetNextBrokerIdResponse(
            cluster_name=header.cluster_name,
            broker_name=header.broker_name,
            next_broker_id=membership.next_id(state),
        )
        return request.reply(reply)

    async def _apply_id(self, request: Command) -> Command:
        header = request.header(ApplyBrokerId)
        decision = await self._deciding.decide(
            header.broker_name,
            lambda state, living: membership.apply_id(
                state,
                header.cluster_name,
                header.broker_name,
                header.applied_broker_id,
                header.register_check_code,
            ),
        )
        _check(decision)
        reply = ApplyBrokerIdResponse(
            cluster_name=header.cluster_name, broker_name=header.broker_name
        )
        return request.reply(reply)

    async def _register(self, request: Command) -> Command:
        header = request.header(RegisterBrokerToController)
        decision = await self._deciding.decide(
            header.broker_name,
            lambda state, living: membership.register(
                state,
                living,
                header.cluster_name,
                header.broker_name,
                header.broker_id,
                header.broker_address,
            ),
        )
        state = _check(decision)
        has_master = state.master_id is not None and state.master_id in self._live.of_set(state)
        reply = RegisterBrokerToControllerResponse(
            cluster_name=state.cluster,
            broker_name=state.name,
            master_broker_id=state.master_id if has_master else None,
            master_address=state.master_address if has_master else None,
            master_epoch=state.master_epoch if has_master else None,
            sync_state_set_epoch=state.in_sync_epoch if has_master else None,
        )
        return request.reply(reply, _sync_state_set(state))

    async def _elect_master(self, request: Command) -> Command:
        header = request.header(ElectMaster)
        unclean = self._config.current.enable_elect_unclean_master
        asked_by = None if header.broker_id == _NOBODY else header.broker_id
        decision = await self._deciding.decide(
            header.broker_name,
            lambda state, living: mastership.elect(
                state,
                living,
                asked_by=asked_by,
                is_designated=header.designate_elect,
                unclean=unclean,
            ),
        )
        stays = decision.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        if not stays:
            _check(decision)
        state = decision.state
        assert state is not None, decision
        reply = ElectMasterResponse(
            master_broker_id=state.master_id,
            master_address=state.master_address,
            master_epoch=state.master_epoch,
            sync_state_set_epoch=state.in_sync_epoch,
        )
        group = BrokerMemberGroup(
            cluster=state.cluster,
            broker_name=state.name,
            broker_addrs={number: each.address for number, each in state.replicas.items()},
        )
        body = ElectMasterResponseBody(
            broker_member_group=None if stays else group, sync_state_set=sorted(state.in_sync)
        )
        # mqadmin of 5.5.0 reads it as something else, and skips only what is standard JSON.
        text = json.standard_dumps(body)
        return request.reply(reply, text, code=decision.code, remark=decision.remark or None)

    async def _alter_sync_state_set(self, request: Command) -> Command:
        header = request.header(AlterSyncStateSet)
        wanted = SyncStateSet.from_request(request)
        decision = await self._deciding.decide(
            header.broker_name,
            lambda state, living: mastership.alter_in_sync(
                state,
                living,
                master_id=header.master_broker_id,
                master_epoch=header.master_epoch,
                members=frozenset(wanted.sync_state_set),
                in_sync_epoch=wanted.sync_state_set_epoch,
            ),
        )
        state = _check(decision)
        reply = AlterSyncStateSetResponse(new_sync_state_set_epoch=state.in_sync_epoch)
        return request.reply(reply, _sync_state_set(state))

    async def _clean(self, request: Command) -> Command:
        header = request.header(CleanBrokerData)
        decision = await self._deciding.decide(
            header.broker_name,
            lambda state, living: membership.clean(
                state,
                living,
                header.broker_controller_ids_to_clean,
                also_living=header.is_clean_living_broker,
            ),
        )
        _check(decision)
        return request.reply()

    async def _sync_states(self, request: Command) -> Command:
        names = decode_broker_names(request.body)
        if not names:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "no broker name is asked for")
        table = {}
        for name in dict.fromkeys(names):
            state = await self._deciding.state(name)
            if state is not None and state.is_known:
                table[name] = self._replicas_info(state)
            await asyncio.sleep(0)  # the list may be long
        return request.reply(body=BrokerReplicasInfo(replicas_info_table=table).encode())

    def _replicas_info(self, state: BrokerSet) -> ReplicasInfo:
        living = self._live.of_set(state)
        replicas = {
            number: ReplicaIdentity(
                broker_name=state.name,
                broker_id=number,
                broker_address=each.address,
                alive=number in living,
            )
            for number, each in sorted(state.replicas.items())
        }
        return ReplicasInfo(
            master_broker_id=state.master_id,
            master_address=state.master_address,
            master_epoch=state.master_epoch,
            sync_state_set_epoch=state.in_sync_epoch,
            in_sync_replicas=[each for n, each in replicas.items() if n in state.in_sync],
            not_in_sync_replicas=[each for n, each in replicas.items() if n not in state.in_sync],
        )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _sync_state_set(state: BrokerSet) -> bytes:
    return SyncStateSet(
        sync_state_set=sorted(state.in_sync), sync_state_set_epoch=state.in_sync_epoch
    ).encode()


def _check(decision: Decision) -> BrokerSet:
    if decision.code != ResponseCode.SUCCESS:
        raise RequestRejected(decision.code, decision.remark)
    assert decision.state is not None, decision
    return decision.state


def _not_leader() -> RequestRejected:
    return RequestRejected(
        ResponseCode.CONTROLLER_NOT_LEADER, "The controller is not in leader state"
    )

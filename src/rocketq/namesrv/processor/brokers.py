"""Requests by which brokers make themselves known."""

import asyncio
import logging
import zlib
from collections.abc import Coroutine
from typing import Any, Final

from rocketq.common.loop.slices import Slices
from rocketq.common.loop.turns import Turns
from rocketq.namesrv.config import LiveConfig
from rocketq.namesrv.kv_config import ORDER_TOPIC_NAMESPACE, KvConfig
from rocketq.namesrv.registration import BrokerAddress, Registration, RegistrationRefused
from rocketq.namesrv.registration_body import read_registration
from rocketq.namesrv.route_registry import RouteRegistry
from rocketq.remoting.bodies.registration import DataVersion
from rocketq.remoting.bodies.route import BrokerMemberGroup
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.headers.namesrv import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
)
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.server import Handlers
from rocketq.remoting.wire.command import Command

logger = logging.getLogger(__name__)

# A registration up to this size is begun at once, and nearly always done then; what is left of
# it, and larger ones, are taken over in slices.
_SMALL: Final = 64 * 1024
_SLICES_AT_ONCE: Final = 3


class BrokerProcessor:
    """Keeps the registry in step with what brokers report."""

    def __init__(
        self, registry: RouteRegistry, kv_config: KvConfig, config: LiveConfig, turns: Turns
    ) -> None:
        self._registry = registry
        self._turns = turns
        self._kv_config = kv_config
        self._config = config
        # Registrations that are being taken over: those of one broker follow each other, and
        # nobody has a second large one waiting.
        self._under_way: dict[BrokerAddress, asyncio.Task[Command]] = {}
        self._bringing_much: set[Connection] = set()

    def handlers(self) -> Handlers:
        return {
            RegisterBroker.CODE: self._register,
            UnregisterBroker.CODE: self._unregister,
            BrokerHeartbeat.CODE: self._heartbeat,
            QueryDataVersion.CODE: self._query_data_version,
            GetBrokerMemberGroup.CODE: self._member_group,
        }

    def _register(
        self, request: Command, connection: Connection
    ) -> Command | Coroutine[Any, Any, Command]:
        header = request.header(RegisterBroker)
        key = BrokerAddress(header.cluster_name, header.broker_addr)
        work = self._registering(request, header, connection)
        before = self._under_way.get(key)
        if len(request.body) > _SMALL:
            if connection in self._bringing_much:
                raise RequestRejected(
                    ResponseCode.SYSTEM_BUSY, "another registration is being taken over"
                )
            self._bringing_much.add(connection)
        elif before is None:
            try:
                for _ in range(_SLICES_AT_ONCE):
                    next(work)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
        task = asyncio.ensure_future(self._go_on(work, before))
        self._under_way[key] = task

        def ended(task: asyncio.Task[Command]) -> None:
            if self._under_way.get(key) is task:
                del self._under_way[key]
            self._bringing_much.discard(connection)
            if not task.cancelled():
                task.exception()  # whoever asked may be gone

        task.add_done_callback(ended)
        return _answer(task)

    async def _go_on(self, work: Slices[Command], before: asyncio.Task[Command] | None) -> Command:
        if before is not None:
            await asyncio.wait([before])
        return await self._turns.do(work)

    def _registering(
        self, request: Command, header: RegisterBroker, connection: Connection
    ) -> Slices[Command]:
        # The CRC travels in a signed field of which the sender drops the sign bit.
        if header.body_crc32 not in (0, zlib.crc32(request.body) & 0x7FFF_FFFF):
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        reported = yield from read_registration(
            request.body, broker_name=header.broker_name, version=request.version
        )
        config = self._config.current
        try:
            master = yield from self._registry.registering(
                Registration(
                    cluster=header.cluster_name,
                    broker_name=header.broker_name,
                    broker_id=header.broker_id,
                    address=header.broker_addr,
                    ha_address=header.ha_server_addr,
                    zone=header.zone_name,
                    enable_acting_master=header.enable_acting_master,
                    heartbeat_timeout_ms=header.heartbeat_timeout_millis,
                    data_version=reported.data_version,
                    topics=reported.topics,
                    queue_mappings=reported.queue_mappings,
                    filter_servers=reported.filter_servers,
                    connection=connection,
                ),
                delete_missing_topics=config.delete_topic_with_broker_registration,
            )
        except RegistrationRefused as refusal:
            # It may be refused because its names are too long: the log need not hold them whole.
            logger.warning("%.100s at %.100s: %s", header.broker_name, header.broker_addr, refusal)
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "register broker failed") from None
        reply = RegisterBrokerResponse(
            master_addr=master.address if master else None,
            ha_server_addr=master.ha_address if master else None,
        )
        if config.return_order_topic_config_to_broker:
            return request.reply(reply, self._kv_config.encoded(ORDER_TOPIC_NAMESPACE) or b"")
        return request.reply(reply)

    def _unregister(self, request: Command, connection: Connection) -> Command:
        header = request.header(UnregisterBroker)
        self._registry.unregister(
            BrokerAddress(header.cluster_name, header.broker_addr),
            header.broker_name,
            header.broker_id,
        )
        return request.reply()

    def _heartbeat(self, request: Command, connection: Connection) -> Command:
        header = request.header(BrokerHeartbeat)
        self._registry.refresh(BrokerAddress(header.cluster_name, header.broker_addr))
        return request.reply()

    def _query_data_version(self, request: Command, connection: Connection) -> Command:
        header = request.header(QueryDataVersion)
        key = BrokerAddress(header.cluster_name, header.broker_addr)
        known = self._registry.data_version(key)
        self._registry.refresh(key)
        changed = known != DataVersion.from_request(request)
        return request.reply(
            QueryDataVersionResponse(changed=changed), known.encode() if known else b""
        )

    def _member_group(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetBrokerMemberGroup)
        group = BrokerMemberGroup(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_addrs=dict(self._registry.member_addresses(header.broker_name)),
        )
        return request.reply(body=group.encode())


async def _answer(task: asyncio.Task[Command]) -> Command:
    """A registration that was begun goes on, also when its connection is gone."""
    return await asyncio.shield(task)

"""Requests by which brokers make themselves known."""

import asyncio
import zlib
from collections.abc import Coroutine
from typing import Any, Final

from rocketq.common.slices import Slices, at_once, in_slices
from rocketq.namesrv.config import LiveConfig
from rocketq.namesrv.kv_config import ORDER_TOPIC_NAMESPACE, KvConfig
from rocketq.namesrv.registration import BrokerAddress, Registration, RegistrationRefused
from rocketq.namesrv.registration_body import read_registration
from rocketq.namesrv.route_registry import RouteRegistry
from rocketq.remoting.bodies.registration import DataVersion
from rocketq.remoting.bodies.route import BrokerMemberGroup, KVTable
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

# A registration up to this size is taken over at once, a larger one in slices.
_SMALL: Final = 64 * 1024


class BrokerProcessor:
    """Keeps the registry in step with what brokers report."""

    def __init__(self, registry: RouteRegistry, kv_config: KvConfig, config: LiveConfig) -> None:
        self._registry = registry
        self._kv_config = kv_config
        self._config = config
        # Registrations that are being taken over: those of one broker follow each other, and
        # nobody has a second large one waiting.
        self._under_way: dict[BrokerAddress, asyncio.Future[None]] = {}
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
        is_small = len(request.body) <= _SMALL
        if is_small and key not in self._under_way:
            return at_once(self._registering(request, header, connection))
        if not is_small:
            if connection in self._bringing_much:
                raise RequestRejected(
                    ResponseCode.SYSTEM_BUSY, "another registration is being taken over"
                )
            self._bringing_much.add(connection)
        return self._register_in_slices(key, request, header, connection)

    async def _register_in_slices(
        self, key: BrokerAddress, request: Command, header: RegisterBroker, connection: Connection
    ) -> Command:
        before = self._under_way.get(key)
        done = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await asyncio.wait([before])
            return await in_slices(self._registering(request, header, connection))
        finally:
            done.set_result(None)
            if self._under_way.get(key) is done:
                del self._under_way[key]
            self._bringing_much.discard(connection)

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
        except RegistrationRefused:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "register broker failed") from None
        reply = RegisterBrokerResponse(
            master_addr=master.address if master else None,
            ha_server_addr=master.ha_address if master else None,
        )
        ordered = self._kv_config.namespace(ORDER_TOPIC_NAMESPACE)
        if ordered and config.return_order_topic_config_to_broker:
            return request.reply(reply, KVTable(table=dict(ordered)).encode())
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

"""Tells every NameServer where this broker is and which topics it serves.

    everything      at start, then every half minute
    some topics     as soon as they are created or changed
    goodbye         at stop

Each NameServer has a loop of its own, so one that is slow or dead holds up neither the
others nor the broker. What could not be delivered is not lost: the next success carries
everything.
"""

import asyncio
import logging
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from rocketq.broker.config import BrokerConfig, LiveConfig
from rocketq.broker.replication.master_location import MasterLocation
from rocketq.broker.replication.role import RoleHolder
from rocketq.broker.tables.data_version import VersionCounter
from rocketq.broker.tables.topics import READ_WRITE, Topics
from rocketq.common import json
from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.common.errors import RocketqError
from rocketq.common.loop.slices import Slices, in_slices
from rocketq.remoting import Command, Connection, RemotingClient, check
from rocketq.remoting.bodies.registration import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigWrapper,
)
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.headers import (
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
)

logger = logging.getLogger(__name__)

# How long a start waits for a NameServer that is there to know of the broker.
_PATIENCE_AT_START_S: Final = 0.3
_PATIENCE_AT_STOP_S: Final = 1.0
# How long the reply to a request that made a topic waits for NameServers to know of it.
_PATIENCE_WITH_CHANGES_S: Final = 0.3
_FIRST_RETRY_S: Final = 0.5
# Repeating so many topics twice a minute is work for both sides: most rounds only ask whether
# the NameServer has the current version, which tells it that we are alive just as well.
_LARGE_TABLE: Final = 1_000
# A registration's topics take up to this many bytes, half of what the longest frame has.
_PART_SIZE: Final = 8 * 1024 * 1024
# Topics that are encoded in one go.
_SLICE: Final = 500
_FULL_ROUNDS: Final = 10


class _NameServer:
    """One NameServer and what it has still to be told."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.needs_everything = True
        self.changed: dict[str, TopicConfig] = {}
        self.something_to_tell = asyncio.Event()
        self.was_told = asyncio.Event()
        self.knows_all = asyncio.Event()
        self.is_reachable = True
        self.connection: Connection | None = None
        self.rounds = 0

    def tell(self, changed: list[TopicConfig]) -> None:
        for config in changed:
            self.changed[config.topic_name] = config
        self.knows_all.clear()
        self.something_to_tell.set()

    def tell_everything(self) -> None:
        self.needs_everything = True
        self.knows_all.clear()
        self.something_to_tell.set()


class Registration:
    """Keeps all NameServers informed while it runs."""

    def __init__(
        self,
        live: LiveConfig,
        topics: Topics,
        client: RemotingClient,
        address: str,
        roles: RoleHolder,
        location: MasterLocation,
    ) -> None:
        """`location` is told of every answer that says where the master is."""
        self._live = live
        self._roles = roles
        self._location = location
        self._topics = topics
        self._client = client
        self._address = address
        self._mapping_version = VersionCounter(SYSTEM_CLOCK).value
        self._name_servers: dict[str, _NameServer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._may_begin = asyncio.Event()
        if not live.broker.enable_controller_mode:
            self._may_begin.set()
        topics.on_change(self.announce)
        topics.publish_with(self.announced)
        live.on_change(self._on_config_change)
        roles.on_change(lambda role: self.register_all())

    # What others ask for

    def announce(self, changed: list[TopicConfig]) -> None:
        """Have topics that are new or have changed told to everybody, now."""
        if changed:
            for name_server in self._name_servers.values():
                name_server.tell(changed)

    def register_all(self) -> None:
        """Have everything told to everybody, now."""
        for name_server in self._name_servers.values():
            name_server.tell_everything()

    def begin(self) -> None:
        """The role is known: NameServers may hear of this broker."""
        self._may_begin.set()

    async def announced(self) -> None:
        """Wait until NameServers know what they were to be told; not for those that are away."""
        waiting = [
            asyncio.ensure_future(server.knows_all.wait())
            for server in self._name_servers.values()
            if server.is_reachable and not server.knows_all.is_set()
        ]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=_PATIENCE_WITH_CHANGES_S)
            for task in late:
                task.cancel()

    async def first_round(self) -> None:
        """Wait for the first NameServer that knows of us, but not for long."""
        await asyncio.sleep(0)  # the service was started in this very turn: let it begin
        waiting = [
            asyncio.ensure_future(server.was_told.wait()) for server in self._name_servers.values()
        ]
        if not waiting:
            return
        _, late = await asyncio.wait(
            waiting, timeout=_PATIENCE_AT_START_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in late:
            task.cancel()

    @property
    def name_servers(self) -> list[str]:
        return list(self._name_servers)

    @property
    def missed(self) -> list[str]:
        """Those of them that do not know of us, although they should."""
        return [each.address for each in self._name_servers.values() if not each.is_reachable]

    # The service

    async def run(self, stop: asyncio.Event) -> None:
        """Keep everybody informed until asked to stop, then say goodbye."""
        config = self._live.broker
        if config.fetch_namesrv_addr_by_address_server or config.fetch_name_srv_addr_by_dns_lookup:
            logger.warning("NameServers are taken from namesrvAddr only, not looked up elsewhere")
        stopping = asyncio.ensure_future(stop.wait())
        beginning = asyncio.ensure_future(self._may_begin.wait())
        try:
            if not self._may_begin.is_set():
                await asyncio.wait((stopping, beginning), return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():
                self._follow(self._live.broker.name_servers)
            await stopping
        finally:
            for task in (stopping, beginning):
                task.cancel()
            addresses = list(self._name_servers)
            self._follow([])
        async with asyncio.TaskGroup() as goodbyes:
            for address in addresses:
                goodbyes.create_task(self._unregister(address))

    def _follow(self, addresses: list[str]) -> None:
        """Begin with NameServers that are new, let go of those no longer listed."""
        for address in [known for known in self._name_servers if known not in addresses]:
            del self._name_servers[address]
            self._tasks.pop(address).cancel()
        for address in addresses:
            if address not in self._name_servers:
                self._name_servers[address] = name_server = _NameServer(address)
                self._tasks[address] = asyncio.get_running_loop().create_task(
                    self._keep_informed(name_server), name=f"register at {address}"
                )

    def _on_config_change(self, before: BrokerConfig, after: BrokerConfig) -> None:
        if self._tasks and before.namesrv_addr != after.namesrv_addr:
            self._follow(after.name_servers)
        if before.broker_permission != after.broker_permission:
            self.register_all()

    async def _keep_informed(self, name_server: _NameServer) -> None:
        loop = asyncio.get_running_loop()
        next_round = loop.time()
        retry_s = _FIRST_RETRY_S
        while True:
            period_s = self._live.broker.register_period_s
            is_due = loop.time() >= next_round
            try:
                if name_server.needs_everything or is_due:
                    await self._tell_everything(name_server, unasked=is_due)
                    next_round = loop.time() + period_s
                elif name_server.changed:
                    await self._tell_changes(name_server)
                self._reached(name_server)
                retry_s = _FIRST_RETRY_S
                pause_s = next_round - loop.time()
            except RocketqError as error:
                self._missed(name_server, error)
                pause_s = retry_s = min(retry_s * 2, period_s)
                next_round = loop.time() + period_s
            except Exception:
                logger.exception("registering at %s failed", name_server.address)
                name_server.needs_everything = True
                pause_s = period_s
            with suppress(TimeoutError):
                async with asyncio.timeout(max(pause_s, 0)):
                    await name_server.something_to_tell.wait()
            name_server.something_to_tell.clear()

    def _reached(self, name_server: _NameServer) -> None:
        if not name_server.was_told.is_set() or not name_server.is_reachable:
            logger.info("registered at NameServer %s", name_server.address)
        name_server.is_reachable = True
        name_server.was_told.set()
        connection = self._client.connection_to(name_server.address)
        if connection is not None and connection is not name_server.connection:
            # One that goes away may have been restarted, and has forgotten everything then.
            name_server.connection = connection
            connection.on_close(lambda _: name_server.tell_everything())
        if not name_server.changed and not name_server.needs_everything:
            name_server.knows_all.set()

    def _missed(self, name_server: _NameServer, error: RocketqError) -> None:
        if name_server.is_reachable:
            logger.warning("NameServer %s does not know of us: %s", name_server.address, error)
        name_server.is_reachable = False
        name_server.needs_everything = True

    # What is said

    async def _tell_everything(self, name_server: _NameServer, *, unasked: bool) -> None:
        config = self._live.broker
        name_server.rounds += 1
        may_ask_first = not config.force_register or (
            len(self._topics) > _LARGE_TABLE and name_server.rounds % _FULL_ROUNDS
        )
        if (
            unasked
            and not name_server.needs_everything
            and may_ask_first
            and not await self._is_out_of_date(name_server)
        ):
            return
        name_server.needs_everything = False
        name_server.changed = {}
        ordered = await self._tell(name_server, list(self._topics.snapshot().values()))
        if ordered is not None:
            self._topics.set_ordered(ordered)

    async def _tell_changes(self, name_server: _NameServer) -> None:
        changed, name_server.changed = name_server.changed, {}
        await self._tell(name_server, list(changed.values()))

    async def _tell(
        self, name_server: _NameServer, topics: list[TopicConfig]
    ) -> Mapping[str, str] | None:
        """Returns the table of ordered topics, when the NameServer has one."""
        version = self._topics.data_version  # that of these topics, whatever comes meanwhile
        ordered: Mapping[str, str] | None = None
        parts = await in_slices(self._parts(topics))
        for number, part in enumerate(parts, 1):
            # A NameServer takes over what has another version than it knows. So each part has
            # one of its own, and the last one that of the whole.
            is_last = number == len(parts)
            part_version = version if is_last else replace(version, counter=-number)
            ordered = await self._register(name_server, part_version, part) or ordered
        return ordered

    def _parts(self, topics: list[TopicConfig]) -> Slices[list[bytes]]:
        """The topics as the entries of JSON tables, each of which fits into a frame.

        The fewer the better: a NameServer may be told to forget topics that a registration
        does not name.
        """
        config = self._live.broker
        most = config.split_registration_size if config.enable_split_registration else len(topics)
        parts: list[bytes] = []
        entries: list[bytes] = []
        count = size = 0
        for start in range(0, len(topics), step := max(min(_SLICE, most), 1)):
            if start:
                yield
            some = topics[start : start + step]
            if config.broker_permission != READ_WRITE:
                some = [replace(each, perm=each.perm & config.broker_permission) for each in some]
            entry = json.dumps({each.topic_name: each for each in some})[1:-1]
            if entries and (count + len(some) > most or size + len(entry) > _PART_SIZE):
                parts.append(b",".join(entries))
                entries, count, size = [], 0, 0
            entries.append(entry)
            count += len(some)
            size += len(entry)
        return [*parts, b",".join(entries)]

    async def _register(
        self, name_server: _NameServer, version: DataVersion, entries: bytes
    ) -> Mapping[str, str] | None:
        config = self._live.broker
        body = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigWrapper(
                data_version=version, mapping_data_version=self._mapping_version
            )
        ).encode()
        head, table, tail = body.partition(b'"topicConfigTable":{')
        assert table, body
        body = b"".join((head, table, entries, tail))
        header = RegisterBroker(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=f"{config.broker_ip2}:{ha_port(self._live)}",
            broker_id=self._roles.current.broker_id,
            enable_acting_master=config.enable_slave_acting_master,
            compressed=False,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        reply = await self._call(name_server.address, Command.request(header, body))
        if self._roles.current.is_slave:
            answer = reply.header(RegisterBrokerResponse)
            self._location.tell(answer.master_addr, answer.ha_server_addr)
        return KVTable.decode(reply.body).table if len(reply.body) else None

    async def _is_out_of_date(self, name_server: _NameServer) -> bool:
        config = self._live.broker
        header = QueryDataVersion(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            broker_id=self._roles.current.broker_id,
        )
        body = self._topics.data_version.encode()
        reply = await self._call(name_server.address, Command.request(header, body))
        return reply.header(QueryDataVersionResponse).changed

    async def _unregister(self, address: str) -> None:
        config = self._live.broker
        header = UnregisterBroker(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            broker_id=self._roles.current.broker_id,
        )
        try:
            async with asyncio.timeout(_PATIENCE_AT_STOP_S):
                await self._call(address, Command.request(header))
        except (RocketqError, TimeoutError) as error:
            logger.info("NameServer %s was not told that we stop: %s", address, error)

    async def _call(self, address: str, request: Command) -> Command:
        timeout_s = self._live.broker.register_broker_timeout_mills / 1000
        return check(await self._client.call(address, request, timeout_s))


def ha_port(live: LiveConfig) -> int:
    """Where slaves connect; the port after ours unless the configuration says."""
    return live.store.ha_listen_port or live.broker.listen_port + 1

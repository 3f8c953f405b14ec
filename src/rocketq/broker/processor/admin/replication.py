"""How replication goes: what `mqadmin haStatus` shows, and where slaves find the log.

In controller mode also the reigns in the log (`mqadmin getBrokerEpoch`), and the word of the
controller that there is another master.
"""

from rocketq.broker.config import LiveConfig
from rocketq.broker.replication.controlled import ControlledRole
from rocketq.broker.replication.role import RoleHolder
from rocketq.common.clock import Clock
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.controller import EpochEntry, EpochEntryCache
from rocketq.remoting.bodies.replication import HAClientInfo, HAConnectionInfo, HARuntimeInfo
from rocketq.remoting.headers import (
    ExchangeBrokerHaInfo,
    ExchangeBrokerHaInfoResponse,
    NotifyBrokerRoleChanged,
    ResetMasterFlushOffset,
)
from rocketq.store import MessageStore
from rocketq.store.replication.follower import LogFollower


class ReplicationAdminProcessor:
    """Tells about this broker's slaves, or about this slave and its master."""

    def __init__(
        self,
        live: LiveConfig,
        store: MessageStore,
        roles: RoleHolder,
        follower: LogFollower,
        controlled: ControlledRole,
        clock: Clock,
        *,
        address: str,
        log_address: str,
    ) -> None:
        self._live = live
        self._controlled = controlled
        self._store = store
        self._roles = roles
        self._follower = follower
        self._clock = clock
        self._address = address
        self._log_address = log_address
        self._master_flush_offset = 0

    def handlers(self) -> Handlers:
        return {
            RequestCode.GET_BROKER_HA_STATUS: self._status,
            ExchangeBrokerHaInfo.CODE: self._exchange,
            RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
            NotifyBrokerRoleChanged.CODE: self._role_changed,
            ResetMasterFlushOffset.CODE: self._reset_flush_offset,
        }

    def _status(self, request: Command, connection: Connection) -> Command:
        is_slave = self._roles.current.is_slave
        body = self._slave_status() if is_slave else self._master_status()
        return request.reply(body=body.encode())

    def _master_status(self) -> HARuntimeInfo:
        states = self._store.replicas.states()
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=self._store.max_physical_offset,
            in_sync_slave_nums=sum(state.is_in_sync for state in states),
            ha_connection_info=[
                HAConnectionInfo(
                    addr=state.address,
                    slave_ack_offset=state.acknowledged,
                    diff=state.lag,
                    in_sync=state.is_in_sync,
                    transferred_byte_in_second=state.bytes_per_second,
                    transfer_from_where=state.position,
                )
                for state in states
            ],
        )

    def _slave_status(self) -> HARuntimeInfo:
        follower = self._follower
        return HARuntimeInfo(
            master=False,
            ha_client_runtime_info=HAClientInfo(
                master_addr=follower.master_address,
                transferred_byte_in_second=follower.bytes_per_second,
                max_offset=self._store.max_physical_offset,
                last_read_timestamp=self._wall_ms(follower.last_read_s),
                last_write_timestamp=self._wall_ms(follower.last_write_s),
                master_flush_offset=self._master_flush_offset,
            ),
        )

    def _reset_flush_offset(self, request: Command, connection: Connection) -> Command:
        """Shown and nothing else: what a master has flushed is compared log by log here."""
        header = request.header(ResetMasterFlushOffset)
        if self._roles.current.is_slave:
            self._master_flush_offset = max(header.master_flush_offset, 0)
        return request.reply()

    def _wall_ms(self, loop_s: float) -> int:
        """A time of the loop as one of the day; 0 if it never was."""
        if not loop_s:
            return 0
        return self._clock.now_ms() - round((self._clock.monotonic() - loop_s) * 1000)

    def _exchange(self, request: Command, connection: Connection) -> Command:
        """A slave asks where its master's log is. A master that tells has acting slaves."""
        header = request.header(ExchangeBrokerHaInfo)
        if header.master_ha_address is not None or self._roles.current.is_slave:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, "slaves that act as master do not exist here"
            )
        return request.reply(
            ExchangeBrokerHaInfoResponse(
                master_ha_address=self._log_address,
                master_flush_offset=self._store.flushed_position,
                master_address=self._address,
            )
        )

    def _epochs(self, request: Command, connection: Connection) -> Command:
        """The reigns in the log, with where each ends."""
        config = self._live.broker
        if not config.enable_controller_mode:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, "this request is for brokers in controller mode"
            )
        epochs = self._store.epochs
        body = EpochEntryCache(
            cluster_name=config.broker_cluster_name,
            broker_name=config.broker_name,
            broker_id=self._roles.current.broker_id,
            epoch_list=[
                EpochEntry(
                    epoch=entry.number, start_offset=entry.start, end_offset=epochs.end_of(entry)
                )
                for entry in epochs.entries()
            ],
            max_offset=self._store.max_physical_offset,
        )
        return request.reply(body=body.encode())

    def _role_changed(self, request: Command, connection: Connection) -> Command:
        """A controller has elected a master.

        Anybody could say so. It is a reason to ask the controller at once, and no more.
        """
        if self._live.broker.enable_controller_mode:
            self._controlled.look_now()
        return request.reply()

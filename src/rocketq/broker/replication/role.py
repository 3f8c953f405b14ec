"""The role of a broker: one value, changed by one owner, heard of by all who depend on it.

    ASYNC_MASTER   takes messages, and acknowledges them without its slaves
    SYNC_MASTER    takes messages, and acknowledges them when enough slaves have them
    SLAVE          copies its master, may be read from, takes nothing

A master has the id 0, and slaves have ids above it. The role of the configuration is the one a
broker starts with; where a controller decides, it is a slave without a master until it knows
(`controlled`).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketq.broker.config import BrokerConfig
from rocketq.common.config import ConfigError
from rocketq.store.config import BrokerRole, StoreConfig

logger = logging.getLogger(__name__)

MASTER_ID: Final = 0
NO_ID: Final = -1


@dataclass(frozen=True, slots=True)
class Role:
    """What a broker is to its group."""

    kind: BrokerRole
    broker_id: int
    epoch: int = 0
    """Of the election that gave it; 0 where masters are not elected."""

    @property
    def is_slave(self) -> bool:
        return self.kind is BrokerRole.SLAVE


def first_role(config: BrokerConfig, store: StoreConfig) -> Role:
    """The role that a configuration gives; raises `ConfigError` if there is none like it."""
    if config.enable_slave_acting_master:
        raise ConfigError("enableSlaveActingMaster=true: slaves that act as master do not exist")
    if config.enable_controller_mode:
        return Role(BrokerRole.SLAVE, NO_ID)
    if store.broker_role is not BrokerRole.SLAVE:
        return Role(store.broker_role, MASTER_ID)  # whatever brokerId says, as in RocketMQ
    if config.broker_id <= MASTER_ID:
        raise ConfigError(f"brokerId={config.broker_id}: Slave's brokerId must be > 0")
    return Role(store.broker_role, config.broker_id)


def warn_of_no_waiting(role: Role, store: StoreConfig) -> None:
    """Say what nobody expects of a SYNC_MASTER."""
    if role.kind is BrokerRole.SYNC_MASTER and store.in_sync_replicas <= 1:
        logger.warning(
            "brokerRole=SYNC_MASTER with inSyncReplicas=%d waits for no slave, as in RocketMQ "
            "5: the master itself counts. Set inSyncReplicas=2 to wait for one",
            store.in_sync_replicas,
        )


RoleListener = Callable[[Role], None]


class RoleHolder:
    """Holds the role. Whoever decides about it calls `change`; everybody else listens."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._listeners: list[RoleListener] = []

    @property
    def current(self) -> Role:
        return self._role

    def on_change(self, listener: RoleListener) -> None:
        """Have a function called with every new role, in the turn in which it is taken."""
        self._listeners.append(listener)

    def change(self, role: Role) -> None:
        if role == self._role:
            return
        logger.info("this broker was %s, and is %s now", self._role.kind.name, role.kind.name)
        self._role = role
        for listener in self._listeners:
            listener(role)

"""From a broker's settings to who guards it: users and policies, or accounts of RocketMQ 4."""

import logging
from pathlib import Path

from rocketq.broker.access.rules import BROKER_RULES
from rocketq.broker.config import BrokerConfig
from rocketq.common.clock import Clock
from rocketq.common.config import ConfigError
from rocketq.remoting.access import settings as access
from rocketq.remoting.access.directory import AccessDirectory
from rocketq.remoting.access.guard import Guard
from rocketq.remoting.access.plain import PlainFiles, PlainGuard
from rocketq.remoting.access.plain.migration import migrate

logger = logging.getLogger(__name__)


def plain_files(config: BrokerConfig, clock: Clock) -> PlainFiles | None:
    """The accounts of RocketMQ 4, read, where they count or are to be taken over."""
    if not (config.acl_enable or config.migrate_auth_from_v1_enabled):
        return None
    path = Path(config.acl_plain_file)
    if not path.is_absolute():
        if not config.rocketmq_home:
            raise ConfigError(f"rocketmq.acl.plain.file={path}: needs rocketmqHome")
        path = Path(config.rocketmq_home, path)
    files = PlainFiles(path, path.parent / "acl", clock)
    files.load()
    return files


def make_users(
    config: BrokerConfig, directory: AccessDirectory, accounts: PlainFiles | None
) -> None:
    """The users that settings name, and those that accounts become."""
    access.make_first_users(config, directory)
    if config.migrate_auth_from_v1_enabled and accounts is not None:
        made = migrate(accounts, directory)
        if made:
            logger.info("%d accounts have become users", len(made))


def guards(
    config: BrokerConfig, directory: AccessDirectory, accounts: PlainFiles | None
) -> list[Guard]:
    """The hooks of a broker's servers: none where nothing is checked."""
    if config.acl_enable and accounts is not None:
        return [PlainGuard(accounts, BROKER_RULES)]
    return access.guards(config, directory, BROKER_RULES, cluster=config.broker_cluster_name)

"""The consumer groups of this broker and what each may do.

Kept in memory and in `config/subscriptionGroup.json`, which is written at every change. A
group nobody has created is made with the defaults when its first consumer appears, unless
`autoCreateSubscriptionGroup` is off.

Beside the groups stands a table of forbidden pairs: group -> topic -> bits, where the bit of
a permission forbids what it would allow elsewhere; 4 forbids reading.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketq.broker.config import LiveConfig
from rocketq.broker.tables.table import Table
from rocketq.broker.unasked import Unasked
from rocketq.common import json
from rocketq.common.clock import Clock
from rocketq.message import names
from rocketq.message.names import InvalidName
from rocketq.remoting import Connection
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper

logger = logging.getLogger(__name__)

FORBID_READ: Final = 4

BUILT_IN: Final = (
    names.TOOLS_CONSUMER_GROUP,
    names.FILTER_SERVER_GROUP,
    names.SELF_TEST_CONSUMER_GROUP,
    names.ONS_HTTP_PROXY_GROUP,
    names.ONS_PULL_GROUP,
    names.ONS_PERMISSION_GROUP,
    names.ONS_OWNER_GROUP,
    names.TRANSACTION_GROUP,
)
# These may read what is broadcast; nobody else of the built-in groups needs to.
_BROADCASTING: Final = frozenset(
    {
        names.ONS_HTTP_PROXY_GROUP,
        names.ONS_PULL_GROUP,
        names.ONS_PERMISSION_GROUP,
        names.ONS_OWNER_GROUP,
    }
)


def _built_in() -> dict[str, SubscriptionGroupConfig]:
    return {
        name: SubscriptionGroupConfig(
            group_name=name, consume_broadcast_enable=name in _BROADCASTING
        )
        for name in BUILT_IN
    }


class SubscriptionGroups(Table[SubscriptionGroupConfig]):
    """The table of groups. Changed by processors in the loop."""

    def __init__(self, live: LiveConfig, path: Path, clock: Clock) -> None:
        self._live = live
        self._unasked = Unasked(live)
        super().__init__(path, clock, _built_in())
        self._forbidden: dict[str, dict[str, int]] = {}

    # Looking

    def get_or_make(
        self, group: str, maker: Connection | None = None
    ) -> SubscriptionGroupConfig | None:
        """A group that exists, or a new one where clients may make them."""
        config = self._table.get(group)
        if config is not None:
            return config
        if not (self._live.broker.auto_create_subscription_group or names.is_system_group(group)):
            return None
        try:
            names.validate_group(group)
        except InvalidName as cause:
            logger.warning("group not created: %s", cause)
            return None
        if not self._unasked.may_make_group(group, len(self._table), maker):
            return None
        config = SubscriptionGroupConfig(group_name=group)
        self.put(config)
        return config

    # Changing

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Create a group or replace it."""
        self.put_all([config])

    def put_all(self, configs: Iterable[SubscriptionGroupConfig]) -> None:
        for config in configs:
            verb = "changed" if config.group_name in self._table else "created"
            logger.info("group %s %s", config.group_name, verb)
            self._table[config.group_name] = config
        self._changed()

    def delete(self, group: str) -> bool:
        """Forget a group; its offsets are others' to remove."""
        self._forbidden.pop(group, None)
        if self._table.pop(group, None) is None:
            return False
        logger.info("group %s deleted", group)
        self._changed()
        return True

    def adopt(self, copied: SubscriptionGroupWrapper) -> None:
        """Be the copy of the master's table; built-in groups that it lacks stay."""
        if copied.data_version == self._version.value:
            return
        self._table = _built_in() | dict(copied.subscription_group_table)
        self._forbidden = {group: dict(each) for group, each in copied.forbidden_table.items()}
        self._version.load(copied.data_version)
        self._file.save()

    def disable_consume(self, group: str) -> None:
        """Stop a group's pulls until an administrator allows them again."""
        config = self._table.get(group)
        if config is not None and config.consume_enable:
            self.put(replace(config, consume_enable=False))

    # Forbidden pairs

    def forbidden(self, group: str, topic: str) -> int:
        return self._forbidden.get(group, {}).get(topic, 0)

    def is_forbidden(self, group: str, topic: str, bit: int = FORBID_READ) -> bool:
        return bool(self._forbidden) and bool(self.forbidden(group, topic) & bit)

    def set_forbidden(self, group: str, topic: str, bits: int) -> None:
        """Forbid a group things on one topic; 0 allows everything again."""
        topics = self._forbidden.setdefault(group, {})
        if bits > 0:
            topics[topic] = bits
        else:
            topics.pop(topic, None)
        if not topics:
            del self._forbidden[group]
        self._changed()

    # Keeping

    def _encode(self) -> Callable[[], Iterator[bytes]]:
        whole = self.body()
        plain = {
            "dataVersion": whole.data_version,
            "subscriptionGroupTable": whole.subscription_group_table,
            "forbiddenTable": whole.forbidden_table,
        }
        return lambda: json.pretty_pieces(plain)

    def _decode(self, data: bytes) -> None:
        stored = SubscriptionGroupWrapper.decode(data)
        self._version.load(stored.data_version)
        self._table.update(stored.subscription_group_table)
        self._forbidden = stored.forbidden_table

    def body(self) -> SubscriptionGroupWrapper:
        """All groups, as slaves and administrators ask for them."""
        return SubscriptionGroupWrapper(
            data_version=self._version.value,
            subscription_group_table=self.snapshot(),
            forbidden_table={group: dict(topics) for group, topics in self._forbidden.items()},
        )

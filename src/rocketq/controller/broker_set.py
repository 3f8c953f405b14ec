"""What a controller knows of the brokers that share a name: one value, replaced as a whole.

It is kept as JSON, in etcd or in a file:

    {"cluster":"DefaultCluster","name":"broker-a","nextId":3,
     "replicas":{"1":{"address":"10.0.0.1:10911","checkCode":"10.0.0.1:10911;1700000000000"}, ...},
     "masterId":1,"masterEpoch":4,"masterTimeoutMs":2500,"inSync":[1,2],"inSyncEpoch":9}

A set whose brokers were all cleaned away keeps its numbers: brokers that come back refuse a
role whose epoch is below their last one, and an id belongs to the log it was given to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rocketq.common import json

FIRST_ID: Final = 1

# What a master is granted that has not said how long it lives without heartbeats.
DEFAULT_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Replica:
    """One broker of a set."""

    address: str
    # Who applied for the id may apply again; nobody else gets it.
    check_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSet:
    """The brokers of one name: who they are, who is master, who has everything."""

    cluster: str
    name: str
    next_id: int = FIRST_ID
    replicas: Mapping[int, Replica] = field(default_factory=dict)
    master_id: int | None = None
    master_epoch: int = 0
    # How long the master may go on without being heard: nobody follows it before.
    master_timeout_ms: int = DEFAULT_TIMEOUT_MS
    in_sync: frozenset[int] = frozenset()
    in_sync_epoch: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is anybody in it; else only its numbers are left."""
        return bool(self.replicas)

    @property
    def master_address(self) -> str | None:
        return None if self.master_id is None else self.replicas[self.master_id].address

    # Changes, each the whole effect of one decision

    def with_replica(self, broker_id: int, replica: Replica) -> "BrokerSet":
        return replace(
            self,
            replicas={**self.replicas, broker_id: replica},
            next_id=max(self.next_id, broker_id + 1),
        )

    def with_master(self, broker_id: int, timeout_ms: int, epoch_above: int = 0) -> "BrokerSet":
        """Nobody but the new master is in sync until it says so."""
        return replace(
            self,
            master_id=broker_id,
            master_epoch=max(self.master_epoch, epoch_above) + 1,
            master_timeout_ms=timeout_ms,
            in_sync=frozenset({broker_id}),
            in_sync_epoch=self.in_sync_epoch + 1,
        )

    def without_master(self) -> "BrokerSet":
        """Those that are in sync stay it: one of them is the next master."""
        return replace(self, master_id=None, master_epoch=self.master_epoch + 1)

    def with_in_sync(self, members: frozenset[int]) -> "BrokerSet":
        return replace(self, in_sync=members, in_sync_epoch=self.in_sync_epoch + 1)

    def without_replicas(self, gone: frozenset[int]) -> "BrokerSet":
        left = {number: each for number, each in self.replicas.items() if number not in gone}
        changed = replace(self, replicas=left)
        if self.master_id in gone:
            changed = changed.without_master()
        if not gone.isdisjoint(self.in_sync):
            changed = changed.with_in_sync(self.in_sync - gone)
        return changed

    # As text

    def encode(self) -> bytes:
        return json.dumps(
            {
                "cluster": self.cluster,
                "name": self.name,
                "nextId": self.next_id,
                "replicas": {
                    str(number): {"address": each.address, "checkCode": each.check_code}
                    for number, each in sorted(self.replicas.items())
                },
                "masterId": self.master_id,
                "masterEpoch": self.master_epoch,
                "masterTimeoutMs": self.master_timeout_ms,
                "inSync": sorted(self.in_sync),
                "inSyncEpoch": self.in_sync_epoch,
            }
        )

    @classmethod
    def decode(cls, text: bytes) -> "BrokerSet":
        """Raises ValueError for what is not one."""
        try:
            return cls._from_json(json.loads(text))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of a broker set: {error!r}") from None

    @classmethod
    def _from_json(cls, plain: dict[str, Any]) -> "BrokerSet":
        return cls(
            cluster=plain["cluster"],
            name=plain["name"],
            next_id=plain["nextId"],
            replicas={
                int(number): Replica(each["address"], each["checkCode"])
                for number, each in plain["replicas"].items()
            },
            master_id=plain["masterId"],
            master_epoch=plain["masterEpoch"],
            master_timeout_ms=plain["masterTimeoutMs"],
            in_sync=frozenset(plain["inSync"]),
            in_sync_epoch=plain["inSyncEpoch"],
        )

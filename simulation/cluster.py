"""The hosts and programs of one run."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

from rocketq.broker import Broker, BrokerConfig
from rocketq.controller import Controller, ControllerConfig
from rocketq.controller.broker_set import BrokerSet
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.store import BrokerRole, FlushDiskType, StoreConfig
from rocketq.store.replication.epochs import FILE_NAME as EPOCHS_FILE
from rocketq.store.replication.epochs import Epochs
from simulation.disk import SimulatedDisk
from simulation.etcd import SimulatedEtcd, SimulatedEtcdClient
from simulation.history import History, Incident
from simulation.loop import SimulatedLoop
from simulation.network import Network
from simulation.plan import Plan, Shape
from simulation.process import Host, HostClock, Process

_START_MS: Final = 1_800_000_000_000
SLAVE: Final = "10.0.1.2:10911"
_PORT: Final = 10911
_HA_PORT: Final = 10912
_LOG_FILE_SIZE: Final = 128 * 1024

# Of a record with addresses of IPv4.
_BODY_AT: Final = 88

Main = Callable[[Process], Coroutine[Any, Any, None]]


class Cluster:
    """Starts programs, kills them, and starts them again."""

    def __init__(
        self, loop: SimulatedLoop, chance: random.Random, folder: Path, plan: Plan
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.history = History()
        self.network = loop.network = Network(loop, chance)
        self._folder = folder
        self._plan = plan
        self._shape = plan.shape
        self._hosts: dict[str, Host] = {}
        self._disks: dict[str, SimulatedDisk] = {}
        self._mains: dict[str, Main] = {}
        self._programs: dict[str, Process] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._stopping: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}

    # Programs

    def add(self, name: str, address: str, main: Main) -> None:
        """A host with one program on it; `start` starts it."""
        host = Host(address, HostClock(self.loop, _START_MS))
        skews_ms = self._plan.skews_ms
        host.clock.shift_ms = skews_ms[len(self._hosts) % len(skews_ms)] if skews_ms else 0
        self._hosts[name] = host
        self._mains[name] = main
        self._ready[name] = asyncio.Event()
        self.network.add_host(host)

    def add_servers(self) -> None:
        """Everything but clients."""
        plan = self._plan
        for number, name in enumerate(plan.etcd_names):
            self.add(name, f"10.0.5.{number + 1}", self._run_etcd)
        self.etcd = SimulatedEtcd(
            self.network, self.chance, [self._hosts[name] for name in plan.etcd_names]
        )
        for number, name in enumerate(plan.controller_names):
            self.add(name, f"10.0.4.{number + 1}", self._run_controller)
        for number, name in enumerate(plan.namesrv_names):
            self.add(name, f"10.0.0.{number + 1}", self._run_namesrv)
        for number, name in enumerate(plan.broker_names):
            self.add(name, f"10.0.1.{number + 1}", partial(self._run_broker, number))
        shifts_ms = [self._hosts[name].clock.shift_ms for name in plan.broker_names]
        self.history.skew_s = (max(shifts_ms) - min(shifts_ms)) / 1000

    @property
    def namesrv(self) -> str:
        """Where clients and brokers find NameServers."""
        return ";".join(f"{self._hosts[name].address}:9876" for name in self._plan.namesrv_names)

    def start(self, name: str) -> None:
        host = self._hosts[name]
        self._ready[name].clear()
        process = Process(name, host, self.loop)
        self._programs[name] = process
        process.start(self._mains[name](process))

    async def ready(self, name: str) -> None:
        """Wait until a program can be used."""
        await self._ready[name].wait()

    def is_usable(self, name: str) -> None:
        """Said by a program when it can be used, or has done its work."""
        self._ready[name].set()

    def is_ready(self, name: str) -> bool:
        return self._ready[name].is_set()

    @property
    def names(self) -> list[str]:
        return list(self._hosts)

    def program(self, name: str) -> Process:
        return self._programs[name]

    def host(self, name: str) -> Host:
        return self._hosts[name]

    def disk(self, name: str) -> SimulatedDisk:
        if name not in self._disks:
            self._disks[name] = SimulatedDisk(self._folder / name, self.chance)
        return self._disks[name]

    def lacks(self, key: str, position: int) -> list[str]:
        """Who has to have an acknowledged message, and has it not, in its memory at least.

        That is the slave of a pair, and of an elected set whoever is in sync by the word of the
        controllers: one of these is the next master.
        """
        return [name for name in self._copies() if not self._holds(name, key, position)]

    def _copies(self) -> list[str]:
        if self._shape is Shape.PAIR:
            return ["broker-a-slave"]
        if self._shape is not Shape.ELECTED:
            return []
        names = {self._hosts[name].address: name for name in self._plan.broker_names}
        pairs = self.etcd.read_prefix(b"/rocketq/controller/sets/").pairs
        states = [BrokerSet.decode(pair.value) for pair in pairs]
        return [
            names[state.replicas[broker_id].address.partition(":")[0]]
            for state in states
            for broker_id in sorted(state.in_sync)
        ]

    def _holds(self, name: str, key: str, position: int) -> bool:
        start = position // _LOG_FILE_SIZE * _LOG_FILE_SIZE
        path = self.disk(name).root / "commitlog" / f"{start:020}"
        if not path.exists():
            return False
        with open(path, "rb") as file:
            file.seek(position - start)
            return key.encode() in file.read(8 * 1024)

    def log(self, name: str) -> bytes:
        """The commit log of a broker."""
        folder = self.disk(name).root / "commitlog"
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*")))

    def epochs(self, name: str) -> list[tuple[int, int]]:
        """The reigns in the log of a broker."""
        epochs = Epochs(self.disk(name).root / EPOCHS_FILE)
        epochs.load()
        return [(epoch.number, epoch.start) for epoch in epochs.entries()]

    def flip_bit(self, name: str) -> None:
        """Damage the body of one message in the log of a broker that does not run."""
        files = sorted((self.disk(name).root / "commitlog").glob("*"))
        records = []
        for path in files:
            data, at = path.read_bytes(), 0
            while (size := int.from_bytes(data[at : at + 4], "big")) > _BODY_AT:
                if _body_end(data[at : at + size]) > _BODY_AT:
                    records.append((path, at, data[at : at + size]))
                at += size
        if not records:
            return
        path, at, record = self.chance.choice(records)
        keys = {key for key in self.history.sends if key.encode() in record}
        self.history.damaged |= keys
        self.history.has_damaged_notes |= not keys
        self.disk(name).flip_bit(path, at + self.chance.randrange(_BODY_AT, _body_end(record)))

    # What happens to them

    def kill(self, name: str, *, power: bool = False) -> None:
        """End a program as SIGKILL does, or take the power from its host."""
        process = self._programs[name]
        if not process.is_alive:
            return
        process.kill()
        self._ready[name].clear()
        if power:
            process.host.has_power = False
        self.network.died(process, power=power)
        if name in self._disks:
            self._disks[name].after_crash(power=power)

    async def stop(self, name: str) -> None:
        """Stop a program in an orderly way. One that does not come to its end is killed."""
        process = self._programs[name]
        self._ready[name].clear()
        await asyncio.wait([process.start(self._stopping[name]())], timeout=60)
        self.kill(name)

    def start_again(self, name: str) -> None:
        process = self._programs[name]
        if process.is_alive:
            return
        host = process.host
        if not host.has_power:
            host.has_power = True
            self.network.powered(host)
        self.start(name)

    def note(self, incident: Incident) -> None:
        self.history.incidents.append(incident)

    @property
    def counts(self) -> dict[str, int]:
        """What really went wrong, and how often."""
        found = self.history.happened + self.network.counts
        for disk in self._disks.values():
            found += disk.counts
        found["etcd elections"] += self.etcd.elections
        found["etcd leases expired"] += self.etcd.expired
        return dict(sorted((+found).items()))

    # What they run

    async def _run_etcd(self, process: Process) -> None:
        self.etcd.programs[process.host] = process
        self._ready[process.name].set()
        await asyncio.Event().wait()

    async def _run_controller(self, process: Process) -> None:
        folder = self._folder / process.name
        folder.mkdir(parents=True, exist_ok=True)
        server = Controller(
            ControllerConfig(
                bind_address=process.host.address,
                listen_port=19876,
                controller_id=process.name,
                controller_store_path=str(folder),
                config_store_path=str(folder / "controller.properties"),
                etcd_endpoints=",".join(f"{node.address}:2379" for node in self.etcd.nodes),
            ),
            clock=process.host.clock,
            etcd=partial(SimulatedEtcdClient, self.etcd),
        )
        await server.start()
        self._stopping[process.name] = server.stop
        self._ready[process.name].set()
        await server.stopped()

    async def _run_namesrv(self, process: Process) -> None:
        folder = self._folder / process.name
        folder.mkdir(parents=True, exist_ok=True)
        server = NameServer(
            NamesrvConfig(
                bind_address=process.host.address,
                listen_port=9876,
                kv_config_path=str(folder / "kvConfig.json"),
                config_store_path=str(folder / "namesrv.properties"),
            ),
            clock=process.host.clock,
        )
        await server.start()
        self._stopping[process.name] = server.stop
        self._ready[process.name].set()
        await server.stopped()

    async def _run_broker(self, number: int, process: Process) -> None:
        broker = Broker(
            BrokerConfig(
                broker_cluster_name="simulated",
                broker_name="broker-a",
                broker_id=0 if self._shape is Shape.ELECTED else number,
                broker_ip1=process.host.address,
                broker_ip2=process.host.address,
                bind_address=process.host.address,
                listen_port=_PORT,
                namesrv_addr=self.namesrv,
                register_name_server_period=10_000,
                default_topic_queue_nums=self._plan.queues,
                transaction_time_out=3_000,
                transaction_check_interval=5_000,
                transaction_check_max=1_000,
                revive_queue_num=2,
                enable_controller_mode=self._shape is Shape.ELECTED,
                controller_addr=";".join(
                    f"{self._hosts[name].address}:19876" for name in self._plan.controller_names
                ),
            ),
            self._store_config(process.name, number),
            clock=process.host.clock,
            disk=self.disk(process.name),
        )
        await broker.start()
        self._stopping[process.name] = broker.stop
        self._ready[process.name].set()
        await broker.stopped()

    def _store_config(self, name: str, number: int) -> StoreConfig:
        is_sync = self._shape is not Shape.ASYNC_FLUSH
        role = BrokerRole.ASYNC_MASTER
        if self._shape is Shape.PAIR:
            role = BrokerRole.SLAVE if number else BrokerRole.SYNC_MASTER
        return StoreConfig(
            store_path_root_dir=str(self.disk(name).root),
            mapped_file_size_commit_log=_LOG_FILE_SIZE,
            mapped_file_size_consume_queue=20 * 200,
            mapped_file_size_timer_log=52 * 200,
            max_hash_slot_num=50,
            max_index_num=400,
            max_message_size=16 * 1024,
            message_delay_level="1s 2s 3s 4s 5s 6s",
            timer_precision_ms=100,
            broker_role=role,
            flush_disk_type=FlushDiskType.SYNC_FLUSH if is_sync else FlushDiskType.ASYNC_FLUSH,
            ha_listen_port=_HA_PORT,
            in_sync_replicas=2 if role is BrokerRole.SYNC_MASTER else 1,
            all_ack_in_sync_state_set=self._shape is Shape.ELECTED,
        )


def _body_end(record: bytes) -> int:
    return _BODY_AT + int.from_bytes(record[_BODY_AT - 4 : _BODY_AT], "big")

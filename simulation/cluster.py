"""The hosts and programs of one run."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from rocketq.aio import SendResult
from rocketq.broker import Broker, BrokerConfig
from rocketq.message.ids import parse_offset_message_id
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.store import BrokerRole, FlushDiskType, StoreConfig
from simulation.disk import SimulatedDisk
from simulation.history import History, Incident
from simulation.loop import SimulatedLoop
from simulation.network import Network
from simulation.plan import Shape
from simulation.process import Host, HostClock, Process

NAMESRV: Final = "10.0.0.1:9876"
_START_MS: Final = 1_800_000_000_000
SLAVE: Final = "10.0.1.2:10911"
_PORT: Final = 10911
_HA_PORT: Final = 10912
_LOG_FILE_SIZE: Final = 128 * 1024

Main = Callable[[Process], Coroutine[Any, Any, None]]


class Cluster:
    """Starts programs, kills them, and starts them again."""

    def __init__(
        self, loop: SimulatedLoop, chance: random.Random, folder: Path, shape: Shape
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.history = History()
        self.network = loop.network = Network(loop, chance)
        self._folder = folder
        self._shape = shape
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
        self._hosts[name] = host
        self._mains[name] = main
        self._ready[name] = asyncio.Event()
        self.network.add_host(host)

    def add_namesrv(self) -> None:
        self.add("namesrv", NAMESRV.partition(":")[0], self._run_namesrv)

    def add_brokers(self) -> None:
        self.add("broker-a", "10.0.1.1", self._run_master)
        if self._shape is Shape.PAIR:
            self.add("broker-a-slave", "10.0.1.2", self._run_slave)

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

    def is_on_slave(self, key: str, result: SendResult) -> bool:
        """Whether the slave's files, in its memory at least, hold a message; true without one."""
        if self._shape is not Shape.PAIR:
            return True
        _, _, position = parse_offset_message_id(result.offset_msg_id)
        start = position // _LOG_FILE_SIZE * _LOG_FILE_SIZE
        path = self.disk("broker-a-slave").root / "commitlog" / f"{start:020}"
        if not path.exists():
            return False
        with open(path, "rb") as file:
            file.seek(position - start)
            return key.encode() in file.read(8 * 1024)

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

    def note(self, text: str, lost_power: str = "") -> None:
        self.history.incidents.append(Incident(self.loop.time(), text, lost_power))

    # What they run

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

    async def _run_master(self, process: Process) -> None:
        role = BrokerRole.SYNC_MASTER if self._shape is Shape.PAIR else BrokerRole.ASYNC_MASTER
        await self._run_broker(process, role, 0)

    async def _run_slave(self, process: Process) -> None:
        await self._run_broker(process, BrokerRole.SLAVE, 1)

    async def _run_broker(self, process: Process, role: BrokerRole, broker_id: int) -> None:
        disk = self.disk(process.name)
        is_sync = self._shape is not Shape.ASYNC_FLUSH
        broker = Broker(
            BrokerConfig(
                broker_cluster_name="simulated",
                broker_name="broker-a",
                broker_id=broker_id,
                broker_ip1=process.host.address,
                broker_ip2=process.host.address,
                bind_address=process.host.address,
                listen_port=_PORT,
                namesrv_addr=NAMESRV,
                register_name_server_period=10_000,
                default_topic_queue_nums=4,
            ),
            StoreConfig(
                store_path_root_dir=str(disk.root),
                mapped_file_size_commit_log=_LOG_FILE_SIZE,
                mapped_file_size_consume_queue=20 * 200,
                max_hash_slot_num=50,
                max_index_num=400,
                max_message_size=16 * 1024,
                broker_role=role,
                flush_disk_type=(
                    FlushDiskType.SYNC_FLUSH if is_sync else FlushDiskType.ASYNC_FLUSH
                ),
                ha_listen_port=_HA_PORT,
                in_sync_replicas=2 if role is BrokerRole.SYNC_MASTER else 1,
                # The wheel is a file of 38 MB, which a crash would copy.
                timer_wheel_enable=False,
            ),
            clock=process.host.clock,
            disk=disk,
        )
        await broker.start()
        self._stopping[process.name] = broker.stop
        self._ready[process.name].set()
        await broker.stopped()

"""Brokers in processes of their own, started by `rocketq up --brokers N`, `--replicas N` or `--ha`.

A broker is owned by one event loop, so one broker uses one core. More cores of a host are used
by more brokers, each with a name and a store of its own.

Such a process is an ordinary `rocketq broker --with-parent`. It has two pipes to the process
that started it, and needs nothing else:

    stdin    nothing is ever written; its end means stop. The system closes it also when
             the parent is killed, so no broker is left behind.
    stdout   its `ready` line

Settings that are secret are handed over in the environment: everybody on a machine sees the
arguments of its processes.

Signals are the parent's business: a service manager's SIGTERM goes to all processes of a
service, and would stop a broker before the parent knows that this is wanted.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from rocketq.broker import BrokerConfig
from rocketq.cli.failures import AlreadyTold, CannotStart
from rocketq.cli.servers.logs import LogOptions
from rocketq.common.config import secret_keys, to_properties
from rocketq.store import StoreConfig
from rocketq.store.config import BrokerRole

WITH_PARENT: Final = "--with-parent"
_SECRETS: Final = "ROCKETQ_SECRET_SETTINGS"

# A broker uses the port itself, the second below it and the one above it.
PORT_DISTANCE: Final = 10
_OWN_PORTS: Final = (0, -2, 1)

_STOP_WITHIN_S: Final = 30.0


class BrokerProcess:
    """One broker, or a controller, as its parent sees it."""

    def __init__(
        self, broker_name: str, process: asyncio.subprocess.Process, slave_id: int = 0
    ) -> None:
        self.broker_name = broker_name
        self.is_slave = slave_id > 0
        self.name = f"slave {slave_id} of {broker_name}" if self.is_slave else broker_name
        self.grpc_address = ""
        self._process = process
        self.metrics_url = ""
        """Where its figures are, once it is ready; empty where it has none."""

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> str:
        """Wait until it accepts requests; its address."""
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        if not line:
            await self.stopped()
        addresses = dict(word.split("=", 1) for word in line.split()[1:])
        self.grpc_address = addresses.get("grpc", "")
        self.metrics_url = addresses.get("metrics", "")
        return addresses.get("broker") or addresses["controller"]

    async def stopped(self) -> None:
        """Wait for its end, which nobody wanted; raises why it came."""
        how = await self.ended()
        if how is None:
            raise AlreadyTold  # on our stderr, which is its own, too
        raise CannotStart(f"{how}, so everything stops")

    async def ended(self) -> str | None:
        """Wait for its end, and say how it came; None if it has said so itself."""
        code = await self._process.wait()
        if code > 0:
            return None
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else "ended"
        return f"{self.name} (pid {self.pid}) {how}"

    async def stop(self) -> None:
        """Ask it to stop and wait; what does not stop is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def broker_processes(
    configs: Iterable[tuple[BrokerConfig, StoreConfig]],
    logs: LogOptions,
    grpc_port: int | None = None,
) -> AsyncIterator[list[BrokerProcess]]:
    """Run brokers for the length of a block; they start and stop at the same time.

    Masters serve gRPC at `grpc_port` and the ports above it, or each at any where it is 0.
    """
    processes: list[BrokerProcess] = []
    try:
        for broker, store in configs:
            own_port = None if store.broker_role is BrokerRole.SLAVE else grpc_port
            processes.append(await start_broker(broker, store, logs, own_port))
            if own_port:
                grpc_port = own_port + 1
        yield processes
    finally:
        await asyncio.gather(*(each.stop() for each in processes))


async def start_broker(
    broker: BrokerConfig, store: StoreConfig, logs: LogOptions, grpc_port: int | None = None
) -> BrokerProcess:
    is_slave = store.broker_role is BrokerRole.SLAVE
    slave_id = broker.broker_id if is_slave else 0
    words = ["broker", *([] if grpc_port is None else ["--grpc-port", str(grpc_port)])]
    changed = {**_changed(broker), **_changed(store)}
    secrets = {key: changed.pop(key) for key in secret_keys(BrokerConfig) if key in changed}
    for key, value in changed.items():
        words += ["--set", f"{key}={value}"]
    # Of several brokers of one name each has a folder, and by that a log of its own.
    log_name = f"{broker.broker_name}-{Path(store.store_path_root_dir).name}"
    process = await start_process(words, logs, log_name, secrets)
    return BrokerProcess(broker.broker_name, process, slave_id)


async def start_process(
    words: list[str], logs: LogOptions, log_name: str, secrets: dict[str, str] | None = None
) -> asyncio.subprocess.Process:
    """A `rocketq` command that stops with this process."""
    logging = ["--log-level", logs.level]
    if logs.file is not None:  # each has its own: files are turned over by one process
        own = logs.file.with_stem(f"{logs.file.stem}-{log_name}")
        logging += ["--log-file", str(own)]
    logging += ["--log-json"] if logs.as_json else []
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rocketq.cli", *words, WITH_PARENT, *logging),
        env={**os.environ, _SECRETS: json.dumps(secrets or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C does not go there while it starts
    )


def _changed(config: BrokerConfig | StoreConfig) -> dict[str, str]:
    """The settings that are not what a broker would take anyway."""
    usual = to_properties(type(config)())
    return {key: value for key, value in to_properties(config).items() if usual.get(key) != value}


def secrets_of_parent() -> dict[str, str]:
    """In a broker's process: the settings that did not come with its arguments."""
    found: dict[str, str] = json.loads(os.environ.pop(_SECRETS, "{}"))
    return found


# Ports


def ports_from(first: int, count: int) -> list[int]:
    """The ports of brokers when the first one's is given."""
    return [first + PORT_DISTANCE * number for number in range(count)]


def free_ports(host: str, count: int) -> list[int]:
    """Ports that the system has to spare, with those that a broker uses beside its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found: list[int] = []
    # All are held until all are found: no two brokers get the same.
    with _Sockets(family, host) as taken:
        while len(found) < count:
            port = taken.any()
            if all(taken.take(port + distance) for distance in _OWN_PORTS[1:]):
                found.append(port)
    return found


class _Sockets:
    """Ports kept from others for the length of a block."""

    def __init__(self, family: socket.AddressFamily, host: str) -> None:
        self._family = family
        self._host = host
        self._held: list[socket.socket] = []

    def any(self) -> int:
        held = self._hold()
        held.bind((self._host, 0))
        port: int = held.getsockname()[1]
        return port

    def take(self, port: int) -> bool:
        try:
            self._hold().bind((self._host, port))
        except (OSError, OverflowError):
            return False
        return True

    def _hold(self) -> socket.socket:
        held = socket.socket(self._family, socket.SOCK_STREAM)
        self._held.append(held)
        return held

    def __enter__(self) -> "_Sockets":
        return self

    def __exit__(self, *_: object) -> None:
        for held in self._held:
            held.close()


# The other side


def stop_with_parent(stop: asyncio.Event) -> None:
    """In a broker's process: stop when stdin ends, and leave signals to the parent."""
    loop = asyncio.get_running_loop()
    stdin = sys.stdin.fileno()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)

    def readable() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            stop.set()

    loop.add_reader(stdin, readable)

"""`rocketq up --ha`: three brokers of one name, of which a controller elects the master.

The NameServer is in this process, the controller and each broker in one of their own. Whoever
is killed is started again after a while, as a service manager would do, so that it can be seen
how a master is replaced and how it comes back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from rocketq.broker import BrokerConfig
from rocketq.cli.failures import AlreadyTold, CannotStart
from rocketq.cli.servers.logs import LogOptions
from rocketq.cli.servers.serving import check_ports_free, serve, started, wait_for_either
from rocketq.cli.servers.up.console import ConsolePlace, console_beside, ports_of
from rocketq.cli.servers.up.processes import BrokerProcess, start_broker, start_process
from rocketq.cli.servers.up.welcome import announce
from rocketq.common.metrics.monitoring import ExporterKind
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.store import StoreConfig

BROKERS: Final = 3
_NAME: Final = "broker-a"
_CONTROLLER: Final = "controller"
_START_AGAIN_S: Final = 5.0
_READY_WITHIN_S: Final = 60.0
_LOOK_S: Final = 0.1

# All that are in sync have what is acknowledged, so that any of them can be the next master.
WITH_CONTROLLER: Final = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "slaveReadEnable": "true",
}
# What `--set` cannot say, because this says it.
OWN_KEYS: Final = ("controllerAddr", "brokerRole", "enableControllerMode")


def broker_folder(root: Path, number: int) -> Path:
    return root / f"{_NAME}-{number}"


def check_directory(root: Path, *, elected: bool) -> None:
    """Refuse to leave out messages that were stored by another kind of cluster."""
    is_elected = (root / _CONTROLLER).is_dir()
    if is_elected and not elected:
        raise CannotStart(f"{root} is a controller's and its brokers': start it with --ha")
    if elected and not is_elected and any(root.glob("*/commitlog")):
        raise CannotStart(f"{root} holds brokers without a controller: choose another --dir")


def run_elected(
    namesrv_config: NamesrvConfig,
    broker_config: BrokerConfig,
    store_config: StoreConfig,
    ports: Callable[[], list[int]],
    root: Path,
    logs: LogOptions,
    place: ConsolePlace | None = None,
) -> None:
    """Serve until asked to stop."""
    host = broker_config.bind_address
    figures = _figures_of_controller(broker_config)

    async def program(stop: asyncio.Event) -> None:
        broker_ports = ports()
        used = [port + distance for port in broker_ports for distance in (0, -2, 1)]
        check_ports_free(host, [namesrv_config.listen_port, *used, *ports_of(place)])
        name_server = NameServer(namesrv_config)
        async with (
            started(name_server),
            console_beside(place, name_server.address, logs) as web,
        ):
            controller = _Kept(
                "controller", lambda: _start_controller(host, root, logs, "0", figures)
            )
            try:
                address = await controller.begin()
                # Where it is now it has to be again.
                port = address.rpartition(":")[2]
                controller.start = lambda: _start_controller(host, root, logs, port, figures)
                base = replace(
                    broker_config, namesrv_addr=name_server.address, controller_addr=address
                )
                configs = _configs(base, store_config, broker_ports, root)
                members = [
                    _Kept(f"broker {number}", partial(start_broker, *each, logs))
                    for number, each in enumerate(configs, 1)
                ]
                await _serve(name_server, controller, members, stop, root, web)
            finally:
                await controller.end()

    serve(program)


def _configs(
    broker_config: BrokerConfig,
    store_config: StoreConfig,
    ports: list[int],
    root: Path,
) -> list[tuple[BrokerConfig, StoreConfig]]:
    metrics_port = broker_config.metrics_prom_exporter_port
    return [
        (
            replace(
                broker_config,
                broker_name=_NAME,
                listen_port=port,
                enable_controller_mode=True,
                metrics_prom_exporter_port=metrics_port and metrics_port + number,
            ),
            replace(store_config, store_path_root_dir=str(broker_folder(root, number))),
        )
        for number, port in enumerate(ports, 1)
    ]


def _figures_of_controller(broker_config: BrokerConfig) -> list[str]:
    """The words that make it show figures where the brokers do, at the port behind theirs."""
    if ExporterKind.parse(broker_config.metrics_exporter_type) is not ExporterKind.PROM:
        return []
    port = broker_config.metrics_prom_exporter_port
    return ["--metrics-port", str(port and port + BROKERS + 1)]


async def _start_controller(
    host: str, root: Path, logs: LogOptions, port: str, figures: list[str]
) -> BrokerProcess:
    words = ["controller", "--host", host, "--port", port, "--dir", str(root / _CONTROLLER)]
    words += figures
    return BrokerProcess(_CONTROLLER, await start_process(words, logs, _CONTROLLER))


class _Kept:
    """A process that is started again when it ends."""

    def __init__(self, name: str, start: Callable[[], Awaitable[BrokerProcess]]) -> None:
        self.name = name
        self.start = start
        self.address = ""
        self._process: BrokerProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def metrics_url(self) -> str:
        return "" if self._process is None else self._process.metrics_url

    async def begin(self) -> str:
        """Start it, and wait until it is ready; its address."""
        self._process = await self.start()
        async with asyncio.timeout(_READY_WITHIN_S):
            self.address = await self._process.ready()
        return self.address

    async def keep(self) -> None:
        """Start it again whenever it ends."""
        while True:
            assert self._process is not None
            how = await self._process.ended()
            if how is None:
                raise AlreadyTold  # it could not go on, and has said why
            _say(f"{self.name} (pid {self.pid}) is gone; another start in {_START_AGAIN_S:g} s")
            await asyncio.sleep(_START_AGAIN_S)
            await self.begin()
            _say(f"{self.name} is back at {self.address} pid={self.pid}")

    async def end(self) -> None:
        if self._process is not None:
            await self._process.stop()


class _Keeping:
    """All of them, for as long as they can be kept."""

    def __init__(self, *kept: _Kept) -> None:
        self._kept = kept

    async def stopped(self) -> None:
        await asyncio.gather(*(each.keep() for each in self._kept))


async def _serve(
    name_server: NameServer,
    controller: _Kept,
    members: list[_Kept],
    stop: asyncio.Event,
    root: Path,
    web: dict[str, str],
) -> None:
    """Say when all are ready, and from then on who is master."""
    try:
        await asyncio.gather(*(each.begin() for each in members))
        async with asyncio.timeout(_READY_WITHIN_S):
            await _new_master(name_server, None)
        urls = [name_server.metrics_url, *(each.metrics_url for each in (controller, *members))]
        metrics = ",".join(url for url in urls if url)
        announce(
            root,
            namesrv=name_server.address,
            broker=",".join(each.address for each in members),
            controller=controller.address,
            **({"metrics": metrics} if metrics else {}),
            **web,
        )
        for each in (controller, *members):
            _say(f"{each.name} at {each.address} pid={each.pid}")
        telling = asyncio.create_task(_tell_masters(name_server, members))
        try:
            await wait_for_either(stop, name_server, _Keeping(controller, *members))
        finally:
            telling.cancel()
    finally:
        await asyncio.gather(*(each.end() for each in members))


async def _tell_masters(name_server: NameServer, members: list[_Kept]) -> None:
    master: str | None = None
    while True:
        master = await _new_master(name_server, master)
        for each in members:
            if each.address == master:
                _say(f"{each.name} is master; to see another take over: kill -9 {each.pid}")


async def _new_master(name_server: NameServer, old: str | None) -> str:
    """Wait until another broker than before has registered as master; its address."""
    while True:
        broker = name_server.registry.brokers.get(_NAME)
        master = None if broker is None else broker.broker_addrs.get(0)
        if master is not None and master != old:
            return master
        await asyncio.sleep(_LOOK_S)


def _say(line: str) -> None:
    print(line, flush=True)

"""Brokers in processes of their own, started by `rocketq up --brokers N`, `--replicas N` or `--ha`.

A broker is owned by one event loop, so one broker uses one core. More cores of a host are used
by more brokers, each with a name and a store of its own.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from rocketq.broker import BrokerConfig
from rocketq.cli.failures import AlreadyTold, CannotStart
from rocketq.cli.servers.child import WITH_PARENT, secrets_for_child
from rocketq.cli.servers.logs import LogOptions
from rocketq.common.config import secret_keys, to_properties
from rocketq.store import StoreConfig
from rocketq.store.config import BrokerRole

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
        await stop_process(self._process, _STOP_WITHIN_S)


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
        env={**os.environ, **secrets_for_child(secrets or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C does not go there while it starts
    )


async def stop_process(process: asyncio.subprocess.Process, within_s: float) -> None:
    """Its stdin ends, and so does it; what does not is killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _changed(config: BrokerConfig | StoreConfig) -> dict[str, str]:
    """The settings that are not what a broker would take anyway."""
    usual = to_properties(type(config)())
    return {key: value for key, value in to_properties(config).items() if usual.get(key) != value}

"""Brokers in processes of their own, under a controller, that can be killed, frozen and cut off."""

import asyncio
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

from rocketq.remoting import Command, RemotingClient, RequestCode
from rocketq.remoting.bodies.controller import EpochEntryCache
from rocketq.remoting.bodies.route import KVTable

FILE_SIZE = 1 << 20


def quiet_ports(chance: random.Random, count: int) -> list[int]:
    """Ports that no connection is given as its own while their broker is dead."""
    found: list[int] = []
    while len(found) < count:
        port = chance.randrange(20_000, 32_000, 10)
        with socket.socket() as one, socket.socket() as two, socket.socket() as three:
            try:
                for each, distance in ((one, 0), (two, -2), (three, 1)):
                    each.bind(("127.0.0.1", port + distance))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


class Member:
    """One broker of a set."""

    def __init__(
        self,
        folder: Path,
        port: int,
        namesrv: str,
        controllers: str,
        module: str = "rocketq.cli",
        /,
        **settings: object,
    ) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{port}"
        self.log = folder.with_suffix(".log")
        words = [sys.executable, "-m", module, "broker", "-n", namesrv]
        for key, value in {
            "brokerName": "broker-a",
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "storePathRootDir": folder,
            "mappedFileSizeCommitLog": FILE_SIZE,
            "slaveReadEnable": "true",
            "enableControllerMode": "true",
            "controllerAddr": controllers,
            "allAckInSyncStateSet": "true",
            **settings,
        }.items():
            words += ["--set", f"{key}={value}"]
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    async def start(self) -> None:
        log = open(self.log, "ab")  # noqa: SIM115, ASYNC230
        self._process = subprocess.Popen(  # noqa: ASYNC220
            self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        )
        log.close()
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line.startswith(b"ready"), self.log.read_text()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.send_signal(number)
            if number is signal.SIGKILL:
                self._process.send_signal(signal.SIGCONT)
            self._process.wait(30)
            self._process.stdout.close()
            self._process = None


async def runtime(client: RemotingClient, address: str) -> dict[str, str]:
    request = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
    return dict(KVTable.decode((await client.call(address, request, 3.0)).body).table)


async def epochs(client: RemotingClient, address: str) -> EpochEntryCache:
    request = Command.request(RequestCode.GET_BROKER_EPOCH_CACHE)
    return EpochEntryCache.decode((await client.call(address, request, 3.0)).body)

"""NameServers and brokers, ours and Java's, as processes that are started and stopped alike.

    with Cluster(folder) as cluster:
        namesrv = cluster.rocketq_namesrv()
        broker = cluster.java_broker("a", namesrv, release=java.V5)
        broker.stop()                                      # or broker.crash()
        cluster.rocketq_broker("a", namesrv)               # on the same store

Leaving the block stops whatever is still running. A broker of a name always has the same store
(folder/store-NAME) and the same port, whoever runs it, so that one can take over from the other.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from peers import java
from peers.rocketmq import probe

STOP_WITHIN_S = 60.0
READY_WITHIN_S = 300.0
# The messages of a test are few; files of the usual 1 GB would only cost disk and start-up time.
# Both sides are told the same, since a store's file size cannot change.
COMMON_SETTINGS = {
    "brokerClusterName": "DefaultCluster",
    "brokerIP1": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "autoCreateTopicEnable": "true",
    "enablePropertyFilter": "true",
    "transactionCheckInterval": "3000",
    "transactionTimeOut": "3000",
    # Java notes up to so much later what became of a transaction (usually 3 s); with checks as
    # frequent as above it would ask, and deliver, twice.
    "transactionOpBatchInterval": "200",
    "mappedFileSizeCommitLog": str(64 << 20),
    # The machine may be nearly full and slow; neither is what is compared here.
    "diskMaxUsedSpaceRatio": "95",
    "waitTimeMillsInSendQueue": "5000",
    "waitTimeMillsInTransactionQueue": "5000",
}
NEEDS_NO_OTHER_INTERFACE = "ROCKETQ_ON_LOOPBACK"


Readiness = Callable[[str], bool]
"""Whether the server at an address does its work yet; asked again and again."""


class Server:
    """A running process and where it listens."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
        self.process = process
        self.address = address
        self.log = log

    def stop(self) -> None:
        """A clean end, as `mqshutdown` asks for it."""
        self._end(signal.SIGTERM)

    def crash(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_WITHIN_S)
            raise RuntimeError(f"{self.log.stem} did not end within {STOP_WITHIN_S} s") from None


class Cluster:
    """Everything started for one test, in one folder."""

    def __init__(self, folder: Path, is_ready: Readiness | None = None) -> None:
        """`is_ready` is for servers that do not answer whoever asks."""
        self.folder = folder.resolve()
        self._is_ready = is_ready
        self._servers: list[Server] = []
        self._ports: dict[str, int] = {}
        (self.folder / "conf").mkdir(parents=True, exist_ok=True)
        # 4.x refuses to start without these; 5.x does not look at them.
        for name in ("namesrv", "broker", "tools"):
            quiet = '<configuration><root level="WARN"/></configuration>\n'
            (self.folder / "conf" / f"logback_{name}.xml").write_text(quiet)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in reversed(self._servers):
            server.stop()

    # NameServers

    def rocketq_namesrv(self, **settings: str) -> Server:
        port = self.port("namesrv")
        conf = self.folder / "conf" / "rocketq-namesrv.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [sys.executable, "-m", "rocketq.cli", "namesrv", "-c", str(conf)]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        # Otherwise below the home directory, as Java's; Java's is told another home.
        command += ["--set", f"kvConfigPath={self.folder / 'namesrv' / 'kvConfig.json'}"]
        command += ["--set", f"configStorePath={self.folder / 'namesrv' / 'namesrv.properties'}"]
        return self._started("rocketq-namesrv", command, f"127.0.0.1:{port}", answers)

    def java_namesrv(self, release: str = java.V5) -> Server:
        port = self.port("namesrv")
        conf = self.folder / "conf" / "namesrv.conf"
        conf.write_text(f"listenPort={port}\nbindAddress=127.0.0.1\n")
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        command = java.command(release, main, self.folder, jvm=["-Xmx160m", "-XX:+UseSerialGC"])
        return self._started(
            "java-namesrv", [*command, "-c", str(conf)], f"127.0.0.1:{port}", answers
        )

    # Brokers

    def rocketq_broker(self, name: str, namesrv: Server, **settings: str) -> Server:
        conf, address = self._broker_conf(name, namesrv, settings)
        command = [sys.executable, "-m", "rocketq.cli", "broker", "-c", str(conf)]
        return self._started(f"rocketq-broker-{name}", command, address, registered(namesrv))

    def java_broker(
        self, name: str, namesrv: Server, release: str = java.V5, **settings: str
    ) -> Server:
        if release == java.V4 and not os.environ.get(NEEDS_NO_OTHER_INTERFACE):
            raise RuntimeError("a 4.9 broker listens on every interface; not started here")
        conf, address = self._broker_conf(name, namesrv, settings)
        main = "org.apache.rocketmq.broker.BrokerStartup"
        jvm = ["-Xms256m", "-Xmx640m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC"]
        command = java.command(release, main, self.folder, jvm=[*jvm, "-XX:TieredStopAtLevel=1"])
        return self._started(
            f"java-broker-{name}", [*command, "-c", str(conf)], address, registered(namesrv)
        )

    def _broker_conf(
        self, name: str, namesrv: Server, settings: dict[str, str]
    ) -> tuple[Path, str]:
        port, store = self.port(name), self.folder / f"store-{name}"
        values = COMMON_SETTINGS | {
            "brokerName": f"broker-{name}",
            "brokerId": "0",
            "namesrvAddr": namesrv.address,
            "listenPort": str(port),
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
        }
        conf = self.folder / "conf" / f"broker-{name}.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in (values | settings).items()))
        return conf, f"127.0.0.1:{port}"

    # Processes

    def run(self, name: str, command: Sequence[str]) -> Server:
        """Some other process of this test; stopped with the rest."""
        return self._spawn(name, command, "")

    def _started(
        self, name: str, command: Sequence[str], address: str, is_ready: Readiness
    ) -> Server:
        server = self._spawn(name, command, address)
        is_ready = self._is_ready or is_ready
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_ready(address):
            if server.process.poll() is not None:
                raise RuntimeError(f"{name} ended: {tail(server.log)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} is not ready within {READY_WITHIN_S} s")
            time.sleep(0.05)
        return server

    def _spawn(self, name: str, command: Sequence[str], address: str) -> Server:
        log = self.folder / f"{name}.log"
        environment = dict(os.environ, ROCKETMQ_HOME=str(self.folder))
        environment.pop("NAMESRV_ADDR", None)
        with open(log, "ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder,
            )
        server = Server(process, address, log)
        self._servers.append(server)
        return server

    def port(self, name: str) -> int:
        """Where the server of a name listens, always the same."""
        if name not in self._ports:
            self._ports[name] = free_port()
        return self._ports[name]


def answers(address: str) -> bool:
    """A NameServer is ready when it answers."""
    try:
        probe.call(address, probe.GET_ROUTE, {"topic": "any"})
    except (OSError, struct.error, ValueError):
        return False
    return True


def registered(namesrv: Server) -> Readiness:
    """A broker is ready when it answers and its NameServer names it."""

    def is_registered(address: str) -> bool:
        try:
            probe.call(address, probe.GET_ROUTE, {"topic": "any"})
            route = probe.call(namesrv.address, probe.GET_ROUTE, {"topic": probe.DEFAULT_TOPIC})
        except (OSError, struct.error, ValueError):
            return False
        return address.encode() in route[2]

    return is_registered


def free_port() -> int:
    """A port that is free together with those a Java broker takes beside it (-2 and +1)."""
    while True:
        with socket.socket() as chosen:
            chosen.bind(("127.0.0.1", 0))
            port: int = chosen.getsockname()[1]
        if port > 60_000:
            continue
        try:
            for neighbour in (port - 2, port + 1):
                with socket.socket() as other:
                    other.bind(("127.0.0.1", neighbour))
        except OSError:
            continue
        return port


def wait_for_line(server: Server, start: str) -> str:
    """The rest of the first line of a process's output that starts so."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and server.process.poll() is None:
        for line in server.log.read_text(errors="replace").splitlines():
            if line.startswith(start):
                return line[len(start) :]
        time.sleep(0.1)
    raise RuntimeError(f"no line {start!r}: {tail(server.log)}")


def tail(log: Path, lines: int = 5) -> str:
    """The end of a log, for messages."""
    return " | ".join(log.read_text(errors="replace").splitlines()[-lines:])

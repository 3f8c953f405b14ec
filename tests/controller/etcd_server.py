"""Real etcd servers on this host, for tests: one node or several, killed and paused at will."""

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until

ETCD = shutil.which("etcd")
needs_etcd = pytest.mark.skipif(ETCD is None, reason="etcd is not installed (package etcd-server)")


class EtcdNode:
    """One process."""

    def __init__(self, name: str, folder: Path, client_port: int, words: list[str]) -> None:
        self.name = name
        self.endpoint = f"127.0.0.1:{client_port}"
        self._words = words
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        os.waitpid(self._process.pid, os.WUNTRACED)  # some of its threads may still be answering

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self.kill()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)


class Etcd:
    """A cluster of them."""

    def __init__(self, nodes: list[EtcdNode]) -> None:
        self.nodes = nodes

    @property
    def endpoints(self) -> str:
        return ",".join(node.endpoint for node in self.nodes)

    def ask(self, path: str, node: EtcdNode | None = None, **body: Any) -> dict[str, Any]:
        """A call of etcd's JSON interface, which is for tests and not for us."""
        url = f"http://{(node or self.nodes[0]).endpoint}/v3/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as response:
            return dict(json.load(response))

    def put(self, key: str, value: bytes, **more: Any) -> dict[str, Any]:
        return self.ask(
            "kv/put", key=b64encode(key.encode()).decode(), value=b64encode(value).decode(), **more
        )

    def leader(self) -> EtcdNode | None:
        """The node that leads etcd, if one does."""
        for node in self.nodes:
            try:
                status = self.ask("maintenance/status", node)
            except (OSError, urllib.error.URLError):
                continue
            if status.get("leader") == status["header"]["member_id"]:
                return node
        return None

    def answers(self) -> bool:
        try:
            return bool(self.ask("kv/range", key="AA==")["header"])
        except (OSError, urllib.error.URLError):
            return False


def free_ports(count: int) -> list[int]:
    """Held until all are found, so that no two are the same."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


@contextmanager
def running_etcd(
    folder: Path, count: int = 1, *, words: tuple[str, ...] = (), encrypted: bool = False
) -> Iterator[Etcd]:
    """Start nodes, wait until they answer, and stop them in the end whatever state they are in."""
    assert ETCD is not None
    folder.mkdir(parents=True, exist_ok=True)
    ports = free_ports(2 * count)
    scheme = "https" if encrypted else "http"
    clients, peers = ports[:count], ports[count:]
    cluster = ",".join(f"e{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers))
    nodes = [
        EtcdNode(
            f"e{n}",
            folder,
            client,
            [
                *(ETCD, "--name", f"e{n}", "--data-dir", str(folder / f"e{n}")),
                *("--listen-client-urls", f"{scheme}://127.0.0.1:{client}"),
                *("--advertise-client-urls", f"{scheme}://127.0.0.1:{client}"),
                *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
                *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
                *("--initial-cluster", cluster, *words),
            ],
        )
        for n, (client, peer) in enumerate(zip(clients, peers, strict=True))
    ]
    etcd = Etcd(nodes)
    try:
        for node in nodes:
            node.start()
        if not encrypted:  # there the test asks with its certificate
            wait_until(etcd.answers, "etcd")
        yield etcd
    finally:
        for node in nodes:
            node.stop()

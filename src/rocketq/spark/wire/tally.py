"""Rows and bytes on their way, for whoever watches a run on this machine.

Spark's tasks are other processes, so what they do is told in datagrams on the loopback
interface, a few a second each, to the address in ROCKETQ_SPARK_TALLY. Without it nothing is
told. One that gets lost costs nothing but the beauty of a number on a terminal:

    {"read": [rows, bytes]}  or  {"written": [rows, bytes]}      since the last one
"""

import json
import os
import socket
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Final, Self

ADDRESS_VARIABLE: Final = "ROCKETQ_SPARK_TALLY"
READ: Final = "read"
WRITTEN: Final = "written"
_INTERVAL_S: Final = 0.2


class Tally:
    """What one task does, told now and then."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._rows = self._bytes = 0
        self._told_at = time.monotonic()
        self._address = os.environ.get(ADDRESS_VARIABLE)

    def add(self, rows: int, size: int) -> None:
        self._rows += rows
        self._bytes += size
        if self._address and time.monotonic() - self._told_at >= _INTERVAL_S:
            self.tell()

    def tell(self) -> None:
        """Tell what has come together; also once at the end."""
        if not self._address or not self._rows:
            return
        host, _, port = self._address.rpartition(":")
        news = json.dumps({self._what: [self._rows, self._bytes]}).encode()
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                out.sendto(news, (host, int(port)))
        except OSError:
            self._address = None  # nobody watches any more
        self._rows = self._bytes = 0
        self._told_at = time.monotonic()


class Tallies:
    """Adds up what all tasks tell, for the length of a block."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._listen, name="tallies", daemon=True)
        self.rows: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    @property
    def address(self) -> str:
        """For ROCKETQ_SPARK_TALLY."""
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.sendto(b"", self._socket.getsockname())  # the last one: an empty one
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while news := self._socket.recv(1024):
            for what, (rows, size) in json.loads(news).items():
                self.rows[what] += rows
                self.bytes[what] += size

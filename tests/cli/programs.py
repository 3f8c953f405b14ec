"""The real command as a process of its own."""

import atexit
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rocketq

SOURCES = Path(rocketq.__file__).parent.parent
# Compiled once for all the processes of a run, whatever the environment says about it.
_BYTECODE = tempfile.TemporaryDirectory(prefix="rocketq-bytecode-")
atexit.register(_BYTECODE.cleanup)
_LEFT_OUT = ("NAMESRV_ADDR", "PYTHONDONTWRITEBYTECODE")
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if key not in _LEFT_OUT},
    "PYTHONPATH": str(SOURCES),
    "PYTHONPYCACHEPREFIX": _BYTECODE.name,
}


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "rocketq.cli", *arguments],
        env=ENVIRONMENT,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Server:
    """A server that has said it is ready."""

    def __init__(self, process: subprocess.Popen[str], ready: str) -> None:
        self.process = process
        self.ready = ready.rstrip("\n")
        self.facts = dict(word.split("=", 1) for word in ready.split()[1:])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; answers with the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=30)


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    """Run a server for the length of a block; what is left of it afterwards is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rocketq.cli", *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            assert process.stderr is not None
            raise AssertionError(f"it ended: {process.stderr.read()}")
        yield Server(process, ready)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextmanager
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]

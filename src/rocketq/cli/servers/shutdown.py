"""`mqshutdown`: asks brokers or NameServers of this machine to stop."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import Final, NamedTuple, TextIO

from rocketq.cli.servers.child import WITH_PARENT

_USAGE: Final = "Usage: mqshutdown broker | namesrv | controller | proxy"

# What RocketMQ's script calls them in its answers.
_NONE_RUNNING: Final = {
    "broker": "No mqbroker running.",
    "namesrv": "No mqnamesrv running.",
    "controller": "No mqcontroller running.",
    "proxy": "No mqproxy running.",
    "brokerContainer": "No broker container running.",
}


class Process(NamedTuple):
    """A running program and the words it was started with."""

    pid: int
    words: list[str]


def processes() -> Iterator[Process]:
    """The programs running on this machine that this user can see."""
    proc = Path("/proc")
    if (proc / "self" / "cmdline").exists():
        for folder in proc.iterdir():
            if folder.name.isdigit():
                try:
                    command_line = (folder / "cmdline").read_bytes()
                except OSError:  # it has just ended, or is somebody else's
                    continue
                yield Process(int(folder.name), command_line.decode(errors="replace").split("\0"))
        return
    table = subprocess.run(
        ["ps", "-axo", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    for line in table.splitlines():
        pid, *words = line.split()
        yield Process(int(pid), words)


def role_of(words: list[str]) -> str | None:
    """What a command line runs: "broker", "namesrv", "controller" or nothing of ours."""
    rest = words
    if rest and PurePath(rest[0]).name.startswith("python"):
        rest = rest[1:]
    if rest[:2] in (["-m", "rocketq"], ["-m", "rocketq.cli"]):
        rest = ["rocketq", *rest[2:]]
    if not rest:
        return None
    name = PurePath(rest[0]).name
    if name in ("mqbroker", "mqnamesrv", "mqcontroller"):
        return name.removeprefix("mq")
    if name == "rocketq" and len(rest) > 1 and rest[1] in ("broker", "namesrv", "controller"):
        # One that belongs to another process stops with that.
        return None if WITH_PARENT in rest else rest[1]
    return None


def shut_down(
    role: str,
    running: Iterable[Process],
    *,
    terminate: Callable[[int], None],
    out: TextIO,
) -> int:
    """Ask all processes of a role to stop; answer with the exit code."""
    if role not in _NONE_RUNNING:
        print(_USAGE, file=out)
        return 0
    found = [process.pid for process in running if role_of(process.words) == role]
    if not found:
        print(_NONE_RUNNING[role], file=out)
        return 1
    pids = " ".join(map(str, found))
    print(f"The mq{role}({pids}) is running...", file=out)
    for pid in found:
        terminate(pid)
    print(f"Send shutdown request to mq{role}({pids}) OK", file=out)
    return 0


def mqshutdown() -> None:
    role = sys.argv[1] if len(sys.argv) == 2 else ""
    code = shut_down(
        role,
        processes(),
        terminate=lambda pid: os.kill(pid, signal.SIGTERM),
        out=sys.stdout,
    )
    raise SystemExit(code)

"""Brokers in processes of their own, forked from one that has everything imported.

A thousand starts would otherwise be a thousand imports.
"""

import asyncio
import ctypes
import multiprocessing
import os
import sys
import uuid
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from rocketq.store.files.disk import Disk

_NEW_MOUNTS: Final = 0x20000
_BIND, _RECURSIVE, _PRIVATE = 4_096, 16_384, 1 << 18
_BOOT_ID: Final = b"/proc/sys/kernel/random/boot_id"

_forked = multiprocessing.get_context("forkserver")
_forked.set_forkserver_preload(["__main__", "rocketq.cli.servers.broker", "tests.power.broker"])


class PoweredBroker:
    """One broker, started anew after each cut."""

    def __init__(
        self, folder: Path, port: int, log: Path, *, syncs: bool = True, **settings: object
    ) -> None:
        """Without `syncs` it syncs each file once only, which somebody should notice."""
        self.address = f"127.0.0.1:{port}"
        self.log = log
        self._syncs = syncs
        self._boot = log.with_suffix(".boot")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._words = ["rocketq", "broker"]
        for key, value in {
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "storePathRootDir": folder / "store",
            **settings,
        }.items():
            self._words += ["--set", f"{key}={value}"]

    async def start(self) -> bool:
        """Whether it is ready, or died because its power went meanwhile."""
        self._boot.write_text(f"{uuid.uuid4()}\n")
        here, there = _forked.Pipe(duplex=False)
        what = (self._words, self._boot, self.log, self._syncs, there)
        process = _forked.Process(target=_run, args=what)
        await asyncio.to_thread(process.start)
        self._process = process
        there.close()
        with open(here.fileno(), "rb", closefd=False) as lines:  # noqa: ASYNC230
            line = await asyncio.to_thread(lines.readline)
        here.close()
        return line.startswith(b"ready")

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.join)
            self._process.close()
            self._process = None


def _run(words: list[str], boot: Path, log: Path, syncs: bool, ready: Connection) -> None:
    # A power cut ends the run of the operating system, too: the next one has another name.
    libc = ctypes.CDLL(None, use_errno=True)
    for failed in (
        libc.unshare(_NEW_MOUNTS),
        libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None),
        libc.mount(os.fsencode(boot), _BOOT_ID, None, _BIND, None),
    ):
        assert not failed, os.strerror(ctypes.get_errno())
    os.dup2(ready.fileno(), 1)
    ready.close()
    with open(log, "ab") as errors:
        os.dup2(errors.fileno(), 2)
    if not syncs:
        _sync_once()
    from rocketq.cli import main

    sys.argv = words
    main()


def _sync_once() -> None:
    sync = Disk.sync
    synced: set[int] = set()

    def sync_once(self: Disk, descriptor: int) -> None:
        if descriptor not in synced:
            synced.add(descriptor)
            sync(self, descriptor)

    Disk.sync = sync_once  # type: ignore[method-assign]

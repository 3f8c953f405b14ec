"""The state in a file of this host: for one controller alone, to try things out.

    {"brokerSets":{"broker-a":{...}, ...}}

Written whole and on the disk before anybody hears of a decision. Whoever loses the host loses
the file, and with it who was in sync; that is what etcd is for.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from rocketq.common import json
from rocketq.common.files import read_with_backup, write_atomically
from rocketq.controller.broker_set import BrokerSet
from rocketq.controller.keeper.keeper import CannotKeep, Kept, Member, SomebodyWasFaster

logger = logging.getLogger(__name__)


class FileKeeper:
    """Always leads: nobody else is there."""

    def __init__(self, path: Path, name: str, address: Callable[[], str]) -> None:
        self._path = path
        self._name = name
        self._address = address
        self._sets: dict[str, Kept] = {}
        self._revision = 0
        self._writing = asyncio.Lock()  # the disk is written by one thread at a time
        self._lock_file: int | None = None
        self._begin: list[Callable[[float], None]] = []
        self._ended = asyncio.Event()

    @property
    def leads(self) -> bool:
        return self._lock_file is not None

    @property
    def leader(self) -> Member | None:
        return Member(self._name, self._address())

    @property
    def members(self) -> list[Member]:
        return [Member(self._name, self._address())]

    @property
    def sets(self) -> Mapping[str, Kept]:
        return self._sets

    async def current(self, name: str) -> Kept | None:
        return self._sets.get(name)

    async def keep(self, name: str, before: Kept | None, state: BrokerSet) -> None:
        async with self._writing:
            if self._sets.get(name) != before:
                raise SomebodyWasFaster(name)
            changed = {each: kept.state for each, kept in self._sets.items()} | {name: state}
            try:
                await asyncio.to_thread(write_atomically, self._path, _encode(changed))
            except OSError as error:
                raise CannotKeep(f"cannot write {self._path}: {error.strerror}") from None
            self._revision += 1
            self._sets[name] = Kept(state, self._revision)

    def on_lead(self, act: Callable[[float], None]) -> None:
        self._begin.append(act)

    # Life

    async def start(self) -> None:
        self._take_file()
        try:
            known = read_with_backup(self._path, _decode) or {}
        except Exception as error:
            raise CannotKeep(f"cannot read {self._path}: {error}") from None
        self._sets = {name: Kept(state, 0) for name, state in known.items()}
        logger.info("%d broker sets are known from %s", len(self._sets), self._path)
        for act in self._begin:
            act(0.0)

    async def stop(self) -> None:
        async with self._writing:
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None
        self._ended.set()

    async def stopped(self) -> None:
        await self._ended.wait()

    def _take_file(self) -> None:
        """Two controllers with one file would both decide."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock_path = self._path.with_name(self._path.name + ".lock")
        lock_file = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock_file)
            raise CannotKeep(f"{self._path} is in use by another controller") from None
        self._lock_file = lock_file


def _encode(sets: Mapping[str, BrokerSet]) -> bytes:
    parts = [b"%b:%b" % (json.dumps(name), sets[name].encode()) for name in sorted(sets)]
    return b'{"brokerSets":{%b}}' % b",".join(parts)


def _decode(text: bytes) -> dict[str, BrokerSet]:
    return {
        name: BrokerSet.decode(json.dumps(plain))
        for name, plain in json.loads(text)["brokerSets"].items()
    }

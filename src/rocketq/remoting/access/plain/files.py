"""Where accounts are kept: `conf/plain_acl.yml`, and every YAML file under `conf/acl`.

Files are looked at from time to time. One that has changed is read again; one that cannot be
read leaves everything as it was. Of a key that two files have, the first counts, in the order of
their names, `plain_acl.yml` before all.
"""

import asyncio
import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rocketq.common.clock import SYSTEM_CLOCK, Clock
from rocketq.common.config import ConfigError
from rocketq.common.extras import how_to_install
from rocketq.common.files import write_atomically
from rocketq.common.loop.service import asked_to_stop
from rocketq.remoting.access.plain.accounts import (
    InvalidAccounts,
    PlainAccount,
    PlainFile,
    Standing,
)
from rocketq.remoting.access.plain.addresses import InvalidAddress, Matches, white_list

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_S: Final = 1.0
_LARGEST: Final = 16 << 20
_SUFFIXES: Final = (".yml", ".yaml")

Stamps = dict[Path, tuple[int, int, int]]


class PlainFiles:
    """The accounts that count now. Changed by the loop, asked by the guard."""

    def __init__(self, path: Path, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = path
        self._folder = folder
        self._clock = clock
        self._files: dict[Path, PlainFile] = {}
        self._accounts: dict[str, Standing] = {}
        self._white: list[Matches] = []
        self._stamps: Stamps = {}
        self._changing = asyncio.Lock()
        self.revision = 0

    # Looking

    def account(self, access_key: str) -> Standing | None:
        return self._accounts.get(access_key)

    def is_white(self, address: str) -> bool:
        return any(matches(address) for matches in self._white)

    @property
    def accounts(self) -> list[PlainAccount]:
        return [standing.account for standing in self._accounts.values()]

    @property
    def files(self) -> dict[Path, PlainFile]:
        return dict(self._files)

    # The files

    def load(self) -> None:
        """Read everything; raises ConfigError when that cannot be."""
        if not self.path.is_file():
            raise ConfigError(f"aclEnable=true: there is no file {self.path}")
        try:
            self._take_over(*self._read())
        except (InvalidAccounts, OSError) as error:
            raise ConfigError(f"aclEnable=true: {error}") from None

    async def run(self, stop: asyncio.Event) -> None:
        """Look for changes until the end."""
        while not await asked_to_stop(stop, within_s=_LOOK_INTERVAL_S):
            await self.look()

    async def look(self) -> None:
        """Take changed files over, if they can be used."""
        async with self._changing:
            stamps = await asyncio.to_thread(self._find)
            if stamps == self._stamps or self.path not in stamps:
                return
            self._stamps = stamps
            try:
                self._take_over(*await asyncio.to_thread(self._read))
            except (InvalidAccounts, OSError) as error:
                logger.warning("changed accounts cannot be used, the old ones are: %s", error)
            else:
                logger.info("accounts have changed")

    def _find(self) -> Stamps:
        others = (
            Path(folder, name)
            for folder, _, names in os.walk(self._folder)
            for name in names
            if name.endswith(_SUFFIXES)
        )
        found = {}
        for path in [self.path, *sorted(others)]:
            try:
                stat = path.stat()
            except OSError:
                continue
            found[path] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        return found

    def _read(self) -> tuple[Stamps, dict[Path, PlainFile]]:
        stamps = self._find()
        return stamps, {path: read_file(path) for path in stamps}

    def _take_over(self, stamps: Stamps, files: dict[Path, PlainFile]) -> None:
        accounts: dict[str, Standing] = {}
        for file in files.values():
            for account in file.accounts:
                accounts.setdefault(account.access_key, Standing(account))
        self._stamps = stamps
        self._files = files
        self._accounts = accounts
        self._white = [white_list(text) for file in files.values() for text in file.white_addresses]
        self.revision += 1

    # Changing

    async def put(self, change: Callable[[PlainAccount | None], PlainAccount], key: str) -> None:
        """Make or change an account, in its file or in the first. Raises InvalidAccounts."""
        async with self._changing:
            path = self._path_of(key) or self.path
            before = next((a for a in self._files[path].accounts if a.access_key == key), None)
            try:
                after = change(before)
            except InvalidAddress as error:
                raise InvalidAccounts(str(error)) from None
            accounts = [after if a.access_key == key else a for a in self._files[path].accounts]
            if before is None:
                accounts.append(after)
            await self._write(path, accounts=tuple(accounts))

    async def delete(self, key: str) -> None:
        async with self._changing:
            path = self._path_of(key)
            if path is None:
                raise InvalidAccounts(f"there is no account {key[:80]!r}")
            left = tuple(a for a in self._files[path].accounts if a.access_key != key)
            await self._write(path, accounts=left)

    async def set_white_addresses(self, addresses: tuple[str, ...], path: Path | None) -> None:
        async with self._changing:
            path = self.path if path is None else path
            if path not in self._files:
                raise InvalidAccounts(f"{path} is no file of accounts")
            try:
                for address in addresses:
                    white_list(address)
            except InvalidAddress as error:
                raise InvalidAccounts(str(error)) from None
            await self._write(path, white_addresses=addresses)

    def _path_of(self, key: str) -> Path | None:
        for path, file in self._files.items():
            if any(account.access_key == key for account in file.accounts):
                return path
        return None

    async def _write(self, path: Path, **changes: Any) -> None:
        """On the disk first, then in force."""
        file = self._files[path].changed(self._clock.now_ms(), **changes)
        text = _yaml().safe_dump(file.to_file(), sort_keys=False, allow_unicode=True)
        try:
            await asyncio.to_thread(write_atomically, path, text.encode())
            stamps = await asyncio.to_thread(self._find)
        except OSError as error:
            raise InvalidAccounts(f"{path} cannot be written: {error}") from None
        self._take_over(stamps, {**self._files, path: file})


def read_file(path: Path) -> PlainFile:
    """Raises InvalidAccounts, which names the file."""
    if path.stat().st_size > _LARGEST:
        raise InvalidAccounts(f"{path}: larger than {_LARGEST} bytes")
    yaml = _yaml()
    try:
        return PlainFile.parse(yaml.safe_load(path.read_text("utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        # What the parser says may quote a secret.
        raise InvalidAccounts(f"{path}: not a YAML file") from None
    except InvalidAccounts as error:
        raise InvalidAccounts(f"{path}: {error}") from None


@functools.cache
def _yaml() -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError(
            f"aclEnable=true: files of accounts need PyYAML: {how_to_install('acl')}"
        ) from None
    return yaml

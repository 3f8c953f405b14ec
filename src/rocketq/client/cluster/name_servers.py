"""The list of NameServers a client may ask, and which of them it asks now.

NameServers do not know each other, so any one will do. A client starts at a random one, so
that a fleet spreads over all of them, stays there, and moves on when it fails.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Final

from rocketq.client.errors import InvalidSettings, NoNameServer

DEFAULT_PORT: Final = 9876
DEFAULT_ADDRESS: Final = f"127.0.0.1:{DEFAULT_PORT}"
"""Where `rocketq up` has its NameServer."""


class NameServers:
    """Owned by one client instance."""

    def __init__(
        self,
        addresses: str | Sequence[str] | None = None,
        *,
        chance: random.Random | None = None,
    ) -> None:
        self._chance = chance or random.Random()
        self._addresses: tuple[str, ...] = ()
        self._at = 0
        self.replace(addresses or os.environ.get("NAMESRV_ADDR") or DEFAULT_ADDRESS)

    @property
    def addresses(self) -> tuple[str, ...]:
        """All of them, as given."""
        return self._addresses

    @property
    def current(self) -> str:
        """The one to ask next."""
        return self._order[self._at]

    def replace(self, addresses: str | Sequence[str]) -> None:
        """Take a new list; a client that talks to one still in it stays there."""
        listed = addresses.split(";") if isinstance(addresses, str) else addresses
        found = tuple(dict.fromkeys(_checked(text) for text in listed if text.strip()))
        if not found:
            raise NoNameServer
        before = self.current if self._addresses else None
        self._addresses = found
        self._order = list(found)
        self._chance.shuffle(self._order)
        self._at = self._order.index(before) if before in found else 0

    def failed(self, address: str) -> None:
        """Move on, unless somebody else already did."""
        if self.current == address:
            self._at = (self._at + 1) % len(self._order)

    def __str__(self) -> str:
        return ";".join(self._addresses)


def _checked(text: str) -> str:
    address = text.strip().removeprefix("http://").rstrip("/")
    host, colon, port = address.rpartition(":")
    if not colon:
        return f"{address}:{DEFAULT_PORT}"
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidSettings(
            f"{text!r} is no NameServer address: write host:port, several joined by ';'"
        )
    return address

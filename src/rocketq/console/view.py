"""What a page knows: who looks, in which language, and how to change something."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from nicegui import ui

from rocketq.admin import messages
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.producer.result import SendResult
from rocketq.common.errors import RocketqError
from rocketq.console.access import Access, Role, Session
from rocketq.console.texts import Texts
from rocketq.message.message import Message

if TYPE_CHECKING:
    from rocketq.console.collector import Collector

audit = logging.getLogger("rocketq.audit")

_LONGEST_TARGET: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One page in one browser."""

    collector: Collector
    access: Access
    session: Session
    t: Texts
    path: str
    query: Mapping[str, str]
    peer: str

    @property
    def api(self) -> BrokerApi:
        """Requests go out in the name of who looks."""
        return self.session.api

    async def send(self, message: Message) -> SendResult:
        """Send a message in the name of who looks."""
        return await messages.send(self.api, message, credentials=self.session.credentials)

    def may(self, role: Role) -> bool:
        return self.session.role >= role

    async def change(
        self, what: str, target: str, action: Callable[[], Awaitable[object]], *, role: Role
    ) -> bool:
        """Carry out what somebody has confirmed, write it down, and say how it went."""
        user = self.session.user or "-"
        facts = {"user": user, "peer": self.peer, "target": target[:_LONGEST_TARGET]}
        if self.session.is_over or not self.may(role):
            audit.warning("refused: %s", _line(what, facts), extra=facts)
            ui.notify(self.t("Not allowed"), type="negative")
            return False
        try:
            await action()
        except RocketqError as error:
            audit.warning("failed: %s: %s", _line(what, facts), error, extra=facts)
            ui.notify(str(error), type="negative", multi_line=True, timeout=8000)
            return False
        audit.info("%s", _line(what, facts), extra=facts)
        self.collector.changed()
        ui.notify(f"{self.t(what)}: {target}", type="positive")
        return True


def _line(what: str, facts: Mapping[str, str]) -> str:
    # Names come from outside: a line break in one must not begin a line of its own.
    return f"console: {what}: {facts['target']!r} by {facts['user']!r} from {facts['peer']}"


def link(path: str, **parameters: str) -> str:
    """A URL within the console; names may hold anything."""
    return f"{path}?{urlencode(parameters)}" if parameters else path

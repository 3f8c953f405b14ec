"""Producers known from heartbeats, by group.

The broker needs them to ask about transactions nobody has decided, and to hand replies to
the client that asked.
"""

import asyncio
import logging
from collections.abc import Callable

from rocketq.broker.clients.channel import ClientChannel
from rocketq.common.clock import Clock
from rocketq.remoting import Connection

logger = logging.getLogger(__name__)


class ProducerTable:
    """Group -> connection -> channel. Changed in the loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[Connection, ClientChannel]] = {}
        self._by_client_id: dict[str, ClientChannel] = {}
        self._by_connection: dict[Connection, dict[str, None]] = {}
        self._turns: dict[str, int] = {}
        self._awaited: dict[str, list[asyncio.Future[ClientChannel]]] = {}

    def register(self, group: str, channel: ClientChannel) -> bool:
        """Note a heartbeat; True when the channel is new to the group."""
        channels = self._groups.setdefault(group, {})
        known = channels.get(channel.connection)
        if known is not None:
            known.last_update_ms = self._clock.now_ms()
            return False
        channels[channel.connection] = channel
        self._by_connection.setdefault(channel.connection, {})[group] = None
        self._by_client_id[channel.client_id] = channel
        for waiting in self._awaited.pop(channel.client_id, ()):
            if not waiting.done():
                waiting.set_result(channel)
        logger.info("producer %s joined group %s", channel, group)
        return True

    def unregister(self, group: str, connection: Connection) -> None:
        channels = self._groups.get(group)
        if channels is None:
            return
        channel = channels.pop(connection, None)
        if channel is not None:
            logger.info("producer %s left group %s", channel, group)
            groups = self._by_connection[connection]
            groups.pop(group, None)
            if not groups:
                del self._by_connection[connection]
                self._forget_client(channel)
        if not channels:
            del self._groups[group]
            self._turns.pop(group, None)

    def drop_connection(self, connection: Connection) -> None:
        """Forget a client whose connection is gone."""
        for group in list(self._by_connection.get(connection, ())):
            self.unregister(group, connection)

    def group_count(self, connection: Connection) -> int:
        """In how many groups a client is."""
        return len(self._by_connection.get(connection, ()))

    def expire(self, older_than_ms: int) -> list[ClientChannel]:
        """Forget those not heard of for so long; their connections are the caller's to close."""
        oldest = self._clock.now_ms() - older_than_ms
        expired = [
            (group, channel)
            for group, channels in self._groups.items()
            for channel in channels.values()
            if channel.last_update_ms < oldest
        ]
        for group, channel in expired:
            self.unregister(group, channel.connection)
        return [channel for _, channel in expired]

    def groups(self) -> list[str]:
        return list(self._groups)

    def channels(self, group: str) -> list[ClientChannel]:
        return list(self._groups.get(group, {}).values())

    def find(self, client_id: str) -> ClientChannel | None:
        """The connection of one client, whatever its groups."""
        return self._by_client_id.get(client_id)

    async def appears(self, client_id: str, within_s: float) -> ClientChannel | None:
        """The connection of one client, which may be about to send its first heartbeat."""
        known = self.find(client_id)
        if known is not None:
            return known
        waiting = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(client_id, []).append(waiting)
        try:
            async with asyncio.timeout(within_s):
                channel: ClientChannel = await waiting
                return channel
        except TimeoutError:
            return None
        finally:
            others = self._awaited.get(client_id)
            if others is not None and waiting in others:
                others.remove(waiting)
                if not others:
                    del self._awaited[client_id]

    def next_channel(
        self, group: str, is_wanted: Callable[[ClientChannel], bool] = lambda channel: True
    ) -> ClientChannel | None:
        """Some live member of a group, each in its turn."""
        members = [
            channel for channel in self.channels(group) if channel.is_live and is_wanted(channel)
        ]
        if not members:
            return None
        turn = self._turns.get(group, -1) + 1
        self._turns[group] = turn
        return members[turn % len(members)]

    def _forget_client(self, channel: ClientChannel) -> None:
        # A client that has reconnected already is found under its new connection.
        if self._by_client_id.get(channel.client_id) is channel:
            del self._by_client_id[channel.client_id]

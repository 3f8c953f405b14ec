"""A network that is decided by chance: delays, cuts, and connections that break.

Connections keep their bytes in order and lose none of them, as TCP does. What differs is when
bytes arrive, in which portions, and how late an end learns that the other one is gone:

    killed program      the host answers with a reset as soon as it is reached
    host without power  nothing comes, until it is back and hears of a connection that it
                        does not know
    cut                 nothing arrives in one direction or in both; what was sent waits
    half-open           one end, or both, believe in a connection on which nothing arrives any
                        more, until the system gives up what was written to it

Between two hosts there are several connections, and what is sent over one may arrive after what
is sent later over another. Nothing is doubled on the way, as TCP does not: what comes twice is
what a client sends again, because the connection on which it waited for the answer is gone.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from simulation.process import Host, Process, current

_SOCKET_BUFFER: Final = 64 * 1024
_PORTION: Final = 16 * 1024
_GIVEN_UP_S: Final = 120.0
"""How long the system sends again what nobody confirms."""


class SimulatedServer:
    """What `create_server` gives: the little of `asyncio.Server` that is used."""

    def __init__(self, network: "Network", process: Process, factory: Callable[[], Any], port: int):
        self.process = process
        self.factory = factory
        self.sockets = (self,)
        self._network = network
        self._name = (process.host.address, port)

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def close(self) -> None:
        self._network.listeners.pop(self._name, None)

    def close_clients(self) -> None:
        pass

    async def wait_closed(self) -> None:
        pass


class Network:
    """All hosts, and what lies between them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self.listeners: dict[tuple[str, int], SimulatedServer] = {}
        self.counts: Counter[str] = Counter()
        """How often what happened."""
        self._departures = 0
        self._arrivals: dict[tuple[str, str], int] = {}
        self._loop = loop
        self._chance = chance
        self._hosts: dict[str, Host] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._ends: dict[End, None] = {}
        self._next_port = 40_000
        self.slow_s = 0.0
        """What every way takes more than usual."""

    def add_host(self, host: Host) -> None:
        self._hosts[host.address] = host

    # What goes wrong

    def cut(self, source: str, goal: str) -> None:
        """Let nothing through in this direction. As often as it is cut it must be healed."""
        self._cuts[source, goal] = self._cuts.get((source, goal), 0) + 1

    def heal(self, source: str, goal: str) -> None:
        left = self._cuts.get((source, goal), 0) - 1
        if left > 0:
            self._cuts[source, goal] = left
            return
        self._cuts.pop((source, goal), None)
        for end in list(self._ends):
            if (end.local[0], end.remote[0]) == (source, goal):
                end.go_on()

    def reset(self, first: str, second: str) -> None:
        """Break all connections between two hosts, as a restarted firewall does."""
        for end in list(self._ends):
            if (end.local[0], end.remote[0]) == (first, second):
                if end.has_unread:
                    self.counts["connections reset with bytes on the way"] += 1
                end.abort()

    def half_open(self, first: str, second: str) -> None:
        """Let nothing arrive any more on the connections that there are between two hosts."""
        for end in list(self._ends):
            if (end.local[0], end.remote[0]) in ((first, second), (second, first)):
                self.counts["half-open connections"] += 1
                end.is_void = True

    def is_open(self, source: str, goal: str) -> bool:
        return (source, goal) not in self._cuts

    def died(self, process: Process, *, power: bool) -> None:
        """A program is gone, and maybe its host."""
        for name, server in list(self.listeners.items()):
            if server.process is process:
                del self.listeners[name]
        for end in list(self._ends):
            if end.process is process:
                end.die(silently=power)

    def powered(self, host: Host) -> None:
        """A host is back: it resets the connections of those who still talk to it."""
        for end in list(self._ends):
            if end.remote[0] == host.address:
                end.meet_reset()

    def delay(self, source: str, goal: str) -> float:
        """How long one portion of bytes takes."""
        if source == goal:
            return self._chance.uniform(0.000_02, 0.000_1)
        late = self._chance.random()
        if late < 0.002:
            self.counts["packets lost and sent again"] += 1
            return self._chance.uniform(0.2, 0.6) + self.slow_s  # lost and sent again
        return self._chance.uniform(0.000_1, 0.002) + self.slow_s

    # For the loop

    def listen(self, factory: Callable[[], Any], port: int) -> SimulatedServer:
        process = _here()
        if port == 0:
            port = self._take_port()
        if (process.host.address, port) in self.listeners:
            raise OSError(98, f"{process.host.address}:{port} is in use")
        server = SimulatedServer(self, process, factory, port)
        self.listeners[server.getsockname()] = server
        return server

    async def connect(self, factory: Callable[[], Any], address: str, port: int) -> tuple[Any, Any]:
        process = _here()
        source = process.host.address
        goal = self._hosts.get(address)
        while goal is None or not (  # noqa: ASYNC110 - the network tells nobody when it is back
            goal.has_power and self.is_open(source, address) and self.is_open(address, source)
        ):
            # The first packet is sent again, until the caller gives up.
            await asyncio.sleep(0.5)
        await asyncio.sleep(self.delay(source, address) + self.delay(address, source))
        server = self.listeners.get((address, port))
        if server is None or not goal.has_power:
            raise ConnectionRefusedError(111, f"connection to {address}:{port} refused")
        near = End(self, process, (source, self._take_port()), (address, port))
        far = End(self, server.process, near.remote, near.local)
        near.peer, far.peer = far, near
        self._ends[near] = self._ends[far] = None
        server.process.context.copy().run(far.open, server.factory)
        protocol = near.open(factory)
        return near, protocol

    def depart(self) -> int:
        """The number of a portion of bytes that begins its way."""
        self._departures += 1
        return self._departures

    def arrive(self, source: str, goal: str, number: int) -> None:
        """A portion is there: maybe after one that was sent later, over another connection."""
        last = self._arrivals.get((source, goal), 0)
        if number < last:
            self.counts["overtaken portions"] += 1
        else:
            self._arrivals[source, goal] = number

    def forget(self, end: "End") -> None:
        self._ends.pop(end, None)

    def _take_port(self) -> int:
        self._next_port += 1
        return self._next_port

    # For the ends

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def chance(self) -> random.Random:
        return self._chance

    def host(self, address: str) -> Host:
        return self._hosts[address]


class End(asyncio.Transport):
    """One end of a connection: the transport that its protocol sees."""

    def __init__(
        self, network: Network, process: Process, local: tuple[str, int], remote: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.process = process
        self.local = local
        self.remote = remote
        self.peer: End | None = None
        self._network = network
        self._loop = network.loop
        self._protocol: Any = None
        self._way: deque[bytes] = deque()  # sent, not yet arrived
        self._way_size = 0
        self._is_travelling = False
        self._is_reading = True
        self._high = _SOCKET_BUFFER
        self._is_write_paused = False
        self._is_closing = False
        self._has_sent_eof = False
        self._is_eof_told = False
        self._is_lost = False
        self._is_silent = False
        self._number = 0
        self.is_void = False
        """Nothing arrives any more, in either direction."""

    @property
    def has_unread(self) -> bool:
        """Whether anything is on its way, in either direction."""
        return bool(self._way) or (self.peer is not None and bool(self.peer._way))

    def open(self, factory: Callable[[], Any]) -> Any:
        self._protocol = factory()
        self._protocol.connection_made(self)
        return self._protocol

    # As a transport

    def write(self, data: Any) -> None:
        if self._is_lost or self._is_closing or self._has_sent_eof or not len(data):
            return
        self._way.append(bytes(data))
        self._way_size += len(data)
        self._travel()
        if not self._is_write_paused and self.get_write_buffer_size() > self._high:
            self._is_write_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._has_sent_eof:
            self._has_sent_eof = True
            self._travel()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._has_sent_eof = True
            self._travel()
            self._loop.call_soon(self._lose, None, context=self.process.context)

    def abort(self) -> None:
        self._is_closing = True
        self._way.clear()
        self._way_size = 0
        if self.peer is not None:
            self.peer.meet_reset()
        self._loop.call_soon(self._lose, None, context=self.process.context)

    def is_closing(self) -> bool:
        return self._is_closing or self._is_lost

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            if self.peer is not None:
                self.peer.go_on()

    def is_reading(self) -> bool:
        return self._is_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _SOCKET_BUFFER if high is None else high

    def get_write_buffer_size(self) -> int:
        return max(0, self._way_size - _SOCKET_BUFFER)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._high // 4, self._high

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    # On the way

    def go_on(self) -> None:
        """Something that was in the way may be gone."""
        self._travel()

    def _travel(self) -> None:
        if self._is_travelling or not (self._way or self._has_sent_eof):
            return
        self._is_travelling = True
        self._number = self._network.depart()
        delay = self._network.delay(self.local[0], self.remote[0])
        self._loop.call_later(delay, self._arrive, context=NOBODY)

    def _arrive(self) -> None:
        self._is_travelling = False
        peer = self.peer
        if self.is_void:
            self._is_travelling = True  # for ever
            self._loop.call_later(_GIVEN_UP_S, self._give_up, context=NOBODY)
            return
        if peer is None or not self._network.is_open(self.local[0], self.remote[0]):
            self._network.counts["portions held up by a cut"] += 1
            return  # `heal` goes on
        if peer._is_silent or peer._is_lost or not peer.process.is_alive:
            self._way.clear()
            self._way_size = 0
            if self._network.host(self.remote[0]).has_power:
                self.meet_reset()
            return
        if not peer._is_reading:
            return  # `resume_reading` goes on
        if self._way:
            data = self._portion()
            self._network.arrive(self.local[0], self.remote[0], self._number)
            self._loop.call_soon(peer._receive, data, context=peer.process.context)
            self._resume_writer()
            self._travel()
        elif self._has_sent_eof and not peer._is_eof_told:
            peer._is_eof_told = True
            self._loop.call_soon(peer._receive_eof, context=peer.process.context)

    def _portion(self) -> bytes:
        """What arrives together: often everything, sometimes a part that ends anywhere."""
        chance = self._network.chance
        if len(self._way) > 1 and chance.random() < 0.9:
            data = b"".join(self._way)
            self._way.clear()
        else:
            data = self._way.popleft()
        size = min(len(data), _PORTION)
        if size > 1 and chance.random() < 0.02:
            size = chance.randrange(1, size)
            self._network.counts["portions cut in two"] += 1
        if size < len(data):
            self._way.appendleft(data[size:])
        self._way_size -= size
        return data[:size]

    def _resume_writer(self) -> None:
        if self._is_write_paused and self.get_write_buffer_size() <= self._high // 4:
            self._is_write_paused = False
            if not self._is_lost and self.process.is_alive:
                self._loop.call_soon(self._protocol.resume_writing, context=self.process.context)

    def _receive(self, data: bytes) -> None:
        if self._is_lost or self._is_closing:
            return
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            while data:
                buffer = memoryview(protocol.get_buffer(-1))
                size = min(len(buffer), len(data))
                buffer[:size] = data[:size]
                protocol.buffer_updated(size)
                data = data[size:]
        else:
            protocol.data_received(data)

    def _receive_eof(self) -> None:
        if not self._is_lost and not self._is_closing and not self._protocol.eof_received():
            self.close()

    # The end

    def meet_reset(self) -> None:
        """Be told that the other end does not know this connection any more."""
        if not self._is_lost:
            delay = self._network.delay(self.remote[0], self.local[0])
            self._loop.call_later(delay, self._reset, context=NOBODY)

    def _reset(self) -> None:
        if self.is_void:
            return
        if self._network.is_open(self.remote[0], self.local[0]):
            self._is_closing = True
            error = ConnectionResetError(104, "connection reset by peer")
            self._loop.call_soon(self._lose, error, context=self.process.context)
        elif not self._is_lost:
            self._loop.call_later(1.0, self._reset, context=NOBODY)

    def _give_up(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            error = TimeoutError(110, "connection timed out")
            self._loop.call_soon(self._lose, error, context=self.process.context)

    def die(self, *, silently: bool) -> None:
        """Its program is dead."""
        self._is_silent = silently
        self._is_lost = True
        self._way.clear()
        self._way_size = 0
        self._network.forget(self)
        if self.peer is not None and not silently:
            self.peer.meet_reset()

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        if not self._way and not self._has_sent_eof:
            self._network.forget(self)
        self._protocol.connection_lost(error)


def _here() -> Process:
    process = current.get()
    assert process is not None, "only programs have a network"
    return process


def _nobody() -> Any:
    from contextvars import copy_context

    context = copy_context()
    context.run(current.set, None)
    return context


NOBODY: Final = _nobody()

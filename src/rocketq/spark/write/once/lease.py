"""Who may send for one partition of a sink: the holder of a broker's queue lock.

Brokers lend a queue of a group to one client for 60 s at a time (that is how consumers consume in
order). Here it is the queue that the partition leaves its marks in. The holder renews it every few
seconds and stops sending 20 s after the last renewal that it asked for, so 40 s are left for a
request on its way, before the broker lends it to the next one.
"""

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.errors import BrokerUnknown
from rocketq.common.errors import RocketqError
from rocketq.message.queue import MessageQueue

_VALID_S: Final = 20.0
_RENEW_S: Final = 5.0
_PAUSE_S: Final = 0.25


class Fenced(RocketqError):
    """Another attempt at the same partition has taken over; this one must not send any more."""


class LeaseTaken(RocketqError):
    """Somebody else holds it."""

    retriable = True


@dataclass(frozen=True, slots=True)
class Process:
    """A process of some machine, so that others on that machine can see whether it lives."""

    machine: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> "Process":
        return cls(_machine(), os.getpid(), _started(os.getpid()) or "")

    def is_dead(self) -> bool:
        """Known to be: it ran on this machine, and does not any more."""
        return (
            bool(self.machine)
            and self.machine == _machine()
            and (_started(self.pid) != self.started)
        )

    def __str__(self) -> str:
        return f"{self.machine}@{self.pid}@{self.started}"

    @classmethod
    def parse(cls, text: str) -> "Process":
        machine, _, rest = text.partition("@")
        pid, _, started = rest.partition("@")
        return cls(machine, int(pid) if pid.isdigit() else 0, started)


def _machine() -> str:
    """This boot of this machine, and what numbers of processes mean here; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process began, in ticks; None when there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


@dataclass
class Lease:
    """The right of one attempt to send to one broker. Renewed on the loop of the client."""

    client: ClientInstance
    group: str
    queue: MessageQueue
    holder: str
    _valid_until: float = field(default=0.0, init=False)
    _renewal: asyncio.Task[None] | None = field(default=None, init=False)

    async def ask(self, *, instead_of: str | None = None) -> bool:
        """Take or renew it. `instead_of`: a holder that is known to be dead."""
        address = self.client.routes.master(self.queue.broker_name)
        if address is None:
            raise BrokerUnknown(self.queue.broker_name)
        api, asked_at = self.client.api, time.monotonic()
        if instead_of is not None:
            await api.unlock(address, instead_of, self.group, [self.queue], oneway=False)
        held = await api.lock(address, self.holder, self.group, [self.queue])
        if self.queue not in held:
            self._valid_until = 0.0
            return False
        self._valid_until = asked_at + _VALID_S
        return True

    async def acquire(self, within_s: float, *, dead_holder: str | None = None) -> None:
        """Wait until it is had. A holder that lives gives it back when it is done."""
        ends = time.monotonic() + within_s
        while not await self.ask(instead_of=dead_holder):
            dead_holder = None
            if time.monotonic() > ends:
                raise LeaseTaken(
                    f"another attempt at the same partition still writes to "
                    f"{self.queue.broker_name} after {within_s:g} s"
                )
            await asyncio.sleep(_PAUSE_S)
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().create_task(self._renew(), name="lease")

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            if time.monotonic() >= self._valid_until:
                self._renewal = None
                return  # somebody may have had it since
            try:
                if not await self.ask():
                    return
            except RocketqError:
                continue  # out of reach: it ends by itself

    def check(self) -> None:
        """Before every send: whether it may still be made."""
        if time.monotonic() >= self._valid_until:
            raise Fenced(
                f"this attempt writes no more to {self.queue.broker_name}: it lost its lease"
            )

    def release(self) -> None:
        """Give it back, for the next attempt or batch."""

        async def give_back() -> None:
            if self._renewal is not None:
                self._renewal.cancel()
            address = self.client.routes.master(self.queue.broker_name)
            if address is not None and self._valid_until:
                await self.client.api.unlock(
                    address, self.holder, self.group, [self.queue], oneway=False
                )

        try:
            loop_thread().run(give_back())
        except RocketqError:
            pass  # it ends by itself

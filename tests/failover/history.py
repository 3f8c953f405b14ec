"""What senders were told and what readers saw, while masters come and go; and what must hold.

- every acknowledged message is there in the end, under the number it was given;
- no number is given twice;
- what was read once under a number is read under it ever after;
- no two masters acknowledge in one epoch, nor an old one after a new one has begun to.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from rocketq.message.ids import parse_offset_message_id
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, RemotingClient, ResponseCode
from rocketq.remoting.bodies.controller import EpochEntry
from rocketq.remoting.bodies.route import TopicRouteData
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import GetRouteInfo, PullMessageResponse, SendMessageResponse
from tests.broker.harness import pull_request, send_request

TOPIC = "orders"
QUEUES = 4

Place = tuple[int, int]
"""A queue, and a number in it."""


class Acknowledgement(NamedTuple):
    """A send that was acknowledged: when it began and ended, by whom, where in the log it lies."""

    began: float
    ended: float
    port: int
    position: int


class History:
    """Senders and readers of one broker name, who find its master as clients do.

    And stubborn ones, each of which sends to one broker whether it is master or not.
    """

    def __init__(self, namesrv: str, *, senders: int = 8, stubborn_to: Sequence[str] = ()) -> None:
        self.acknowledgements: list[Acknowledgement] = []
        self.acknowledged: dict[Place, bytes] = {}
        self.read: dict[Place, bytes] = {}
        self.sent: set[bytes] = set()
        self.last_begun_at = 0.0
        """When the last send began that was acknowledged."""
        self.wrong: list[str] = []
        self.refusals: dict[int, int] = {}
        self._namesrv = namesrv
        self._senders = senders
        self._stubborn_to = stubborn_to
        self._number = 0
        self._client = RemotingClient()
        self._master: str | None = None
        self._finding: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "History":
        for number in range(self._senders):
            self._tasks.append(asyncio.create_task(self._send(number % QUEUES)))
        for address in self._stubborn_to:
            self._tasks.append(asyncio.create_task(self._send(0, address)))
        for queue_id in range(QUEUES):
            self._tasks.append(asyncio.create_task(self._read(queue_id)))
        self._tasks.append(asyncio.create_task(self._find_master()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        self._stop.set()
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)
        await self._client.close()

    # Clients

    async def _find_master(self) -> None:
        """Ask the NameServer again and again, as clients do when a send has failed."""
        while not self._stop.is_set():
            try:
                reply = await self._client.call(
                    self._namesrv, Command.request(GetRouteInfo(topic="TBW102")), 1.0
                )
                if reply.code == ResponseCode.SUCCESS:
                    route = TopicRouteData.decode(reply.body)
                    self._master = route.broker_datas[0].broker_addrs.get(0, self._master)
            except RemotingError:
                pass
            await asyncio.sleep(0.03)

    async def _send(self, queue_id: int, to: str | None = None) -> None:
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            master = to or self._master
            if master is None:
                await asyncio.sleep(0.01)
                continue
            self._number += 1
            body = b"%08d" % self._number + b"." * (self._number % 300)
            self.sent.add(body)
            began = loop.time()
            try:
                reply = await self._client.call(master, send_request(TOPIC, body, queue_id), 1.0)
            except RemotingError:
                await asyncio.sleep(0.01)
                continue
            if reply.code != ResponseCode.SUCCESS:
                self.refusals[reply.code] = self.refusals.get(reply.code, 0) + 1
                await asyncio.sleep(0.01)
                continue
            place = reply.header(SendMessageResponse)
            self._note(self.acknowledged, (place.queue_id, place.queue_offset), body, "given")
            _, port, position = parse_offset_message_id(place.msg_id)
            self.acknowledgements.append(Acknowledgement(began, loop.time(), port, position))
            self.last_begun_at = began

    async def _read(self, queue_id: int) -> None:
        at = 0
        while not self._stop.is_set():
            if self._master is None:
                await asyncio.sleep(0.01)
                continue
            try:
                at = await self._pull(self._client, self._master, queue_id, at, self._note_read)
            except RemotingError:
                pass
            await asyncio.sleep(0.02)

    async def _pull(
        self,
        client: RemotingClient,
        address: str,
        queue_id: int,
        at: int,
        note: Callable[[Place, bytes], None],
        within_s: float = 2.0,
    ) -> int:
        request = pull_request(TOPIC, at, queue_id=queue_id, max_msg_nums=1000)
        reply = await client.call(address, request, within_s)
        if reply.code == ResponseCode.SUCCESS:
            for message in decode_records(reply.body):
                note((queue_id, message.queue_offset), message.body)
            return reply.header(PullMessageResponse).next_begin_offset
        return at

    def _note_read(self, place: Place, body: bytes) -> None:
        self._note(self.read, place, body, "read")

    def _note(self, known: dict[Place, bytes], place: Place, body: bytes, what: str) -> None:
        before = known.setdefault(place, body)
        if before != body:
            self.wrong.append(f"{place} was {what} to {before[:8]!r} and to {body[:8]!r}")

    def note_acknowledged(self, place: Place, body: bytes) -> None:
        """What somebody else was told, who sends to the same topic."""
        self._note(self.acknowledged, place, body, "given")

    # The verdict

    async def next_acknowledged(self, within_s: float) -> float:
        """Wait until a send is acknowledged that begins from now on; how long it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.last_begun_at <= began:
            assert loop.time() - began < within_s, f"nothing was acknowledged for {within_s} s"
            await asyncio.sleep(0.005)
        return loop.time() - began

    def longest_pause(self, since: float) -> float:
        """The longest time without an answer, from a moment until now."""
        answers = sorted(each.ended for each in self.acknowledgements if each.ended > since)
        now = asyncio.get_running_loop().time()
        return max(after - before for before, after in pairwise([since, *answers, now]))

    def check_reigns(self, reigns: Sequence[EpochEntry]) -> None:
        """Compare who acknowledged when with the reigns of the log that came of it."""
        starts = [each.start_offset for each in reigns]
        of_epoch: dict[int, list[Acknowledgement]] = {}
        for each in self.acknowledgements:
            reign = reigns[bisect_right(starts, each.position) - 1]
            of_epoch.setdefault(reign.epoch, []).append(each)
        newer_ended = float("inf")
        for epoch in sorted(of_epoch, reverse=True):
            given = of_epoch[epoch]
            masters = {each.port for each in given}
            assert len(masters) == 1, f"{masters} acknowledged in epoch {epoch}"
            late = max(each.began for each in given) - newer_ended
            assert late < 0, f"epoch {epoch} goes on {late:.3f} s after a newer one has begun"
            newer_ended = min(newer_ended, *(each.ended for each in given))

    async def check(self, address: str) -> int:
        """Compare with what a broker has; how much that is."""
        found: dict[Place, bytes] = {}

        def note(place: Place, body: bytes) -> None:
            found[place] = body

        client = RemotingClient()
        try:
            for queue_id in range(QUEUES):
                at, following = -1, 0
                while following != at:
                    at = following
                    following = await self._pull(client, address, queue_id, at, note, 30.0)
        finally:
            await client.close()
        wrong = list(self.wrong)
        for what, known in (("acknowledged", self.acknowledged), ("read", self.read)):
            for place, body in known.items():
                there = found.get(place, b"nothing")
                if there != body:
                    wrong.append(f"{place} was {what} as {body[:8]!r} and is {there[:8]!r}")
        for place, body in found.items():
            if body not in self.sent:
                wrong.append(f"{place} is {body!r}, which nobody sent")
        assert not wrong, (len(wrong), wrong[:10])
        return len(found)

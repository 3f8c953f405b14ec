"""What senders were told and what readers saw, while masters come and go; and what must hold.

- every acknowledged message is there in the end, under the number it was given;
- no number is given twice;
- what was read once under a number is read under it ever after.
"""

import asyncio
from collections.abc import Callable

from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, RemotingClient, ResponseCode
from rocketq.remoting.bodies.route import TopicRouteData
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import GetRouteInfo, PullMessageResponse, SendMessageResponse
from tests.broker.harness import pull_request, send_request

TOPIC = "orders"
QUEUES = 4

Place = tuple[int, int]
"""A queue, and a number in it."""


class History:
    """Senders and readers of one broker name, who find its master as clients do."""

    def __init__(self, namesrv: str, *, senders: int = 8) -> None:
        self.acknowledged: dict[Place, bytes] = {}
        self.read: dict[Place, bytes] = {}
        self.sent: set[bytes] = set()
        self.last_begun_at = 0.0
        """When the last send began that was acknowledged."""
        self.wrong: list[str] = []
        self.refusals: dict[int, int] = {}
        self._namesrv = namesrv
        self._senders = senders
        self._number = 0
        self._client = RemotingClient()
        self._master: str | None = None
        self._finding: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "History":
        for number in range(self._senders):
            self._tasks.append(asyncio.create_task(self._send(number % QUEUES)))
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

    async def _send(self, queue_id: int) -> None:
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            master = self._master
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
            self.note_acknowledged((place.queue_id, place.queue_offset), body)
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
    ) -> int:
        request = pull_request(TOPIC, at, queue_id=queue_id, max_msg_nums=1000)
        reply = await client.call(address, request, 2.0)
        if reply.code == ResponseCode.SUCCESS:
            for message in decode_records(reply.body):
                note((queue_id, message.queue_offset), message.body)
            return reply.header(PullMessageResponse).next_begin_offset
        return at

    def note_acknowledged(self, place: Place, body: bytes) -> None:
        self._note(self.acknowledged, place, body, "given")

    def _note_read(self, place: Place, body: bytes) -> None:
        self._note(self.read, place, body, "read")

    def _note(self, known: dict[Place, bytes], place: Place, body: bytes, what: str) -> None:
        before = known.setdefault(place, body)
        if before != body:
            self.wrong.append(f"{place} was {what} to {before[:8]!r} and to {body[:8]!r}")

    # The verdict

    async def next_acknowledged(self, within_s: float) -> float:
        """Wait until a send is acknowledged that begins from now on; how long it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.last_begun_at <= began:
            assert loop.time() - began < within_s, f"nothing was acknowledged for {within_s} s"
            await asyncio.sleep(0.005)
        return loop.time() - began

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
                    following = await self._pull(client, address, queue_id, at, note)
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

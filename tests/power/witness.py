"""What senders were told and readers saw of a broker that loses its power, and what must hold.

- what was acknowledged is there under the number it was given, and what was read stays: always
  with SYNC_FLUSH, and with ASYNC_FLUSH if it is older than what that may lose;
- nothing is there that nobody has sent;
- a group is never further than its queue.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, RemotingClient, ResponseCode
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import (
    PullMessageResponse,
    QueryConsumerOffset,
    QueryConsumerOffsetResponse,
    SendMessageResponse,
    UpdateConsumerOffset,
)
from tests.broker.harness import pull_request, send_request

TOPIC = "orders"
GROUP = "group"
QUEUES = 4
SENDERS = 8

Place = tuple[int, int]
"""A queue, and a number in it."""

_PASSING = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)

Note = Callable[[Place, bytes], None]


class Witness:
    """Senders and readers of one broker, over all its lives."""

    def __init__(self, address: str) -> None:
        self.known: dict[Place, tuple[bytes, float]] = {}
        """What was acknowledged or read, and when."""
        self.acknowledgements = 0
        self.oldest_lost_s = 0.0
        self.lost = 0
        self._sent: set[bytes] = set()
        self._wrong: list[str] = []
        self._address = address
        self._number = 0

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """For the length of a block."""
        client = RemotingClient()
        tasks = [
            *(asyncio.create_task(self._send(client, n % QUEUES)) for n in range(SENDERS)),
            *(asyncio.create_task(self._read(client, queue_id)) for queue_id in range(QUEUES)),
        ]
        try:
            yield
        finally:
            for each in tasks:
                each.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()
            for end in ends:
                if end is not None and not isinstance(end, asyncio.CancelledError | RemotingError):
                    raise end

    async def _send(self, client: RemotingClient, queue_id: int) -> None:
        """Until the broker does not answer any more, or refuses."""
        while True:
            self._number += 1
            body = b"%08d" % self._number + b"." * (self._number % 300)
            self._sent.add(body)
            reply = await client.call(self._address, send_request(TOPIC, body, queue_id), 30.0)
            if reply.code != ResponseCode.SUCCESS:
                return
            place = reply.header(SendMessageResponse)
            self.acknowledgements += 1
            self._note((place.queue_id, place.queue_offset), body)

    async def _read(self, client: RemotingClient, queue_id: int) -> None:
        at = 0
        while True:
            at = await self._pull(client, queue_id, at, self._note)
            progress = UpdateConsumerOffset(
                consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, commit_offset=at
            )
            await client.call(self._address, Command.request(progress), 30.0)
            await asyncio.sleep(0.02)

    def _note(self, place: Place, body: bytes) -> None:
        before, _ = self.known.setdefault(place, (body, asyncio.get_running_loop().time()))
        if before != body:
            self._wrong.append(f"{place} is {before[:8]!r} and {body[:8]!r}")

    async def _pull(self, client: RemotingClient, queue_id: int, at: int, note: Note) -> int:
        request = pull_request(TOPIC, at, queue_id=queue_id, max_msg_nums=1000)
        reply = await client.call(self._address, request, 30.0)
        if reply.code == ResponseCode.SUCCESS:
            for message in decode_records(reply.body):
                note((queue_id, message.queue_offset), message.body)
        elif reply.code not in _PASSING:
            if reply.code != ResponseCode.TOPIC_NOT_EXIST:
                self._wrong.append(f"a pull from {queue_id} at {at} got {reply.code}")
            return at
        return reply.header(PullMessageResponse).next_begin_offset

    async def check(self, cuts_at: Sequence[float], may_lose_s: float) -> None:
        """Compare with what the broker has, after its power went at these times."""
        found: dict[Place, bytes] = {}
        client = RemotingClient()
        try:
            for queue_id in range(QUEUES):
                at, following = -1, 0
                while following != at:
                    at = following
                    following = await self._pull(client, queue_id, at, found.__setitem__)
                query = QueryConsumerOffset(consumer_group=GROUP, topic=TOPIC, queue_id=queue_id)
                reply = await client.call(self._address, Command.request(query), 30.0)
                if reply.code == ResponseCode.SUCCESS:
                    progress = reply.header(QueryConsumerOffsetResponse).offset
                    if progress > at:
                        self._wrong.append(f"the group is at {progress} of {at} in {queue_id}")
        finally:
            await client.close()
        for place, (body, at_s) in list(self.known.items()):
            there = found.get(place, b"nothing")
            if there == body:
                continue
            # Not every life gets as far as this: what the first cut took is missing ever since.
            age_s = next((cut_at for cut_at in cuts_at if cut_at >= at_s), at_s) - at_s
            if age_s >= may_lose_s:
                self._wrong.append(
                    f"{place} was {body[:8]!r}, {age_s:.3f} s before the cut, is {there[:8]!r}"
                )
            self.lost += 1
            self.oldest_lost_s = max(self.oldest_lost_s, age_s)
            del self.known[place]
        for place, body in found.items():
            if body not in self._sent:
                self._wrong.append(f"{place} is {body!r}, which nobody sent")
        assert not self._wrong, (len(self._wrong), self._wrong[:10])

"""Large answers are made a few at a time, and one for each connection."""

import asyncio
from typing import cast

from rocketq.broker.large_answers import LargeAnswers
from rocketq.remoting import Command, Connection, RequestCode
from rocketq.remoting.link.handlers import Handler
from tests.waiting import eventually


class Peer:
    """The part of a connection that matters here."""

    def __init__(self) -> None:
        self.attributes: dict[str, object] = {}
        self.is_closing = False
        self.reads = asyncio.Event()
        self.reads.set()

    async def writable(self) -> None:
        await self.reads.wait()


async def ask(handler: Handler, peer: Peer) -> Command | None:
    answer = handler(Command(21), cast(Connection, peer))
    assert asyncio.iscoroutine(answer)
    return cast(Command | None, await answer)


async def test_a_few_at_a_time() -> None:
    running: list[Peer] = []
    go_on = asyncio.Event()

    async def slow(request: Command, connection: Connection) -> Command:
        running.append(cast(Peer, connection))
        await go_on.wait()
        return request.reply()

    code = RequestCode.GET_ALL_TOPIC_CONFIG
    handlers = LargeAnswers().limited({code: slow, 9_999: slow})
    assert handlers[9_999] is slow
    handler = cast(Handler, handlers[code])
    one, deaf = Peer(), Peer()
    deaf.reads.clear()
    others = [Peer() for _ in range(20)]
    asking = [
        asyncio.create_task(ask(handler, peer)) for peer in [one] * 100 + [deaf] * 100 + others
    ]
    await eventually(lambda: len(running) == 8, "eight at work")
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(running) == 8
    assert running.count(one) == 1
    assert deaf not in running
    go_on.set()
    deaf.is_closing = True
    deaf.reads.set()
    answers = await asyncio.gather(*asking)
    assert sum(answer is not None for answer in answers) == 120
    assert deaf not in running

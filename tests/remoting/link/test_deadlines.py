"""One timer for thousands of deadlines."""

import asyncio

from rocketq.remoting.link.deadlines import Deadlines
from tests.waiting import eventually


class Note:
    """Notes when its time was up."""

    def __init__(self, expired: list[str], name: str) -> None:
        self._expired = expired
        self._name = name

    def expire(self) -> None:
        self._expired.append(self._name)


async def test_deadlines_pass_in_their_order_and_never_early() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop)
    expired: list[str] = []
    started = loop.time()
    for name, timeout_s in (("late", 0.09), ("soon", 0.04), ("now", 0.0)):
        deadlines.bucket(timeout_s)[id(name)] = Note(expired, name)
    await eventually(lambda: expired == ["now", "soon", "late"])
    assert loop.time() - started >= 0.09
    # And again after all have passed.
    deadlines.bucket(0.001)[1] = Note(expired, "again")
    await eventually(lambda: expired[-1] == "again")


async def test_what_left_its_bucket_does_not_expire() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    expired: list[str] = []
    bucket = deadlines.bucket(0.01)
    bucket[1] = Note(expired, "left")
    bucket[2] = Note(expired, "stayed")
    del bucket[1]
    await eventually(lambda: expired)
    assert expired == ["stayed"]


async def test_nothing_expires_after_the_end() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    expired: list[str] = []
    deadlines.bucket(0.0)[1] = Note(expired, "never")
    deadlines.close()
    Deadlines(asyncio.get_running_loop()).bucket(0.02)[1] = Note(expired, "later")
    await eventually(lambda: expired)
    assert expired == ["later"]

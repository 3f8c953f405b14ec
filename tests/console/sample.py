"""A small shop's messages, for a console to show: what tests look for, and the pictures of the
pages.

    python -m tests.console.sample 127.0.0.1:9876      fills a cluster, and keeps it busy
"""

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from rocketq import Message, MessageExt, Producer, PushConsumer
from rocketq.admin import connected, groups, topics
from rocketq.admin.cluster import brokers
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.remoting.bodies.registration import TopicConfig
from tests.waiting import wait_until

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>{{7*7}}'
ORDERS = 60
_STATES = ("placed", "paid", "packed", "sent")


@dataclass(slots=True)
class Shop:
    """What is in the cluster; ids are those of messages in `orders`."""

    ids: list[str]


@contextlib.contextmanager
def shop(namesrv: str) -> Iterator[Shop]:
    """Topics, messages, and consumers that are online for the length of a block."""
    asyncio.run(_prepare(namesrv))

    def fail(message: MessageExt) -> bool:
        return False

    consumed = threading.Event()
    with contextlib.ExitStack() as stack:
        producer = stack.enter_context(Producer("shop", namesrv=namesrv, trace=True))
        ids = [producer.send(order(number)).msg_id for number in range(ORDERS)]
        for number in range(12):
            producer.send(Message("parcels", f"parcel {number}".encode(), keys=[f"P{number}"]))
        producer.send(
            Message("orders", HOSTILE.encode(), tags="odd", keys=["hostile"],
                    properties={"note": HOSTILE})
        )  # fmt: skip
        producer.send(Message("orders", bytes(range(256)), keys=["binary"]))
        producer.send(Message("reminders", b"pay soon", delay_level=14))
        producer.send(Message("reminders", b"rate us", delay=timedelta(hours=1)))
        stack.enter_context(
            PushConsumer(
                "billing",
                namesrv=namesrv,
                topics={"orders": "paid || sent"},
                listener=lambda message: consumed.set(),
                consume_from="first",
                trace=True,
            )
        )
        stack.enter_context(
            PushConsumer(
                "labels",
                namesrv=namesrv,
                topics="parcels",
                listener=fail,
                consume_from="first",
                max_reconsume_times=0,
            )
        )
        with PushConsumer(
            "warehouse",
            namesrv=namesrv,
            topics="orders",
            listener=lambda message: None,
            consume_from="last",
        ):
            wait_until(lambda: asyncio.run(_has_offsets(namesrv, "warehouse")), "warehouse")
        ids += [producer.send(order(ORDERS + number)).msg_id for number in range(40)]
        wait_until(consumed.is_set, "billing")
        wait_until(lambda: asyncio.run(_dead_letters(namesrv)) >= 12, "dead letters")
        yield Shop(ids)


def order(number: int) -> Message:
    state = _STATES[number % len(_STATES)]
    body = {
        "order": 4200 + number,
        "state": state,
        "customer": f"c-{number * 7 % 31:03d}",
        "items": [{"sku": f"B-{number % 9}{item}", "count": item + 1} for item in range(2)],
        "total": round(19.9 + number * 1.35, 2),
    }
    return Message(
        "orders",
        json.dumps(body).encode(),
        tags=state,
        keys=[str(4200 + number)],
        properties={"shop": "berlin" if number % 3 else "porto"},
    )


async def _prepare(namesrv: str) -> None:
    async with connected(namesrv) as api:
        where = await brokers.addresses(api)
        for name, kind, queues in (
            ("orders", "NORMAL", 4),
            ("parcels", "NORMAL", 2),
            ("ledger", "FIFO", 2),
            ("reminders", "DELAY", 2),
            ("transfers", "TRANSACTION", 2),
        ):
            config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
            await topics.create(api, config, where, attributes=f"+message.type={kind}")
        await groups.create(
            api, SubscriptionGroupConfig(group_name="labels", retry_max_times=0), where
        )


async def _has_offsets(namesrv: str, group: str) -> bool:
    async with connected(namesrv) as api:
        stats = await groups.progress_of(api, group, "orders")
        return len(stats.offset_table) == 4 and groups.total_behind(stats) == 0


async def _dead_letters(namesrv: str) -> int:
    async with connected(namesrv) as api:
        if await api.route("%DLQ%labels") is None:
            return 0
        ends = (await topics.status(api, "%DLQ%labels")).offset_table.values()
        return sum(each.max_offset - each.min_offset for each in ends)


def main() -> None:
    with shop(sys.argv[1]):
        print("filled; Ctrl-C ends it", flush=True)
        with Producer("shop", namesrv=sys.argv[1]) as producer:
            for number in range(10**9):
                producer.send(order(number))
                time.sleep(0.02 + 0.01 * (number // 300 % 3))


if __name__ == "__main__":
    main()

"""A process that lives dangerously until it is killed, and says what it was promised.

    python -m tests.store.durability.life_writer ROOT ROUND LIVES

Topics are deleted and made again, files are cleaned, the clock is set forwards and backwards and
settings change. Lines on its output:

    = TOPIC QUEUE OFFSET POSITION BODY     this message was acknowledged
    - TOPIC                                this topic is about to be deleted
    + TOPIC                                it was

LIVES is `{topic: life}` as JSON. A body begins with the life of its topic.
"""

import asyncio
import dataclasses
import json
import os
import random
import sys
import time
from pathlib import Path

from rocketq import Message
from rocketq.message.record.batch import encode_batch
from rocketq.store import FlushDiskType, MessageStore, PutStatus, StoreConfig
from tests.store.support import message, small_config

TOPICS = ("orders", "stock", "again")
QUEUES = 3


class WanderingClock:
    """The computer's clock, set wrong now and then."""

    def __init__(self) -> None:
        self.wrong_by_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.wrong_by_ms

    def monotonic(self) -> float:
        return time.monotonic()


def dangerous_config(root: Path, turn: int) -> StoreConfig:
    return small_config(
        root,
        mapped_file_size_commit_log=65_536,
        mapped_file_size_consume_queue=2_000,
        flush_disk_type=list(FlushDiskType)[turn % 2],
        flush_interval_consume_queue=20,
        delete_commit_log_files_interval=1,
        force_verify_prop_crc=turn % 5 == 4,
        enabled_append_prop_crc=turn % 3 == 1,
    )


def say(*lines: bytes) -> None:
    os.write(1, b"".join(lines))


async def put_some(
    store: MessageStore, choose: random.Random, lives: dict[str, int], turn: int
) -> bool:
    lines: list[bytes] = []
    end = 0
    for _ in range(choose.randrange(1, 30)):
        topic, queue_id = choose.choice(TOPICS), choose.randrange(QUEUES)
        bodies = [
            b"%d:%d:%d-" % (lives[topic], turn, choose.getrandbits(40))
            + b"x" * choose.randrange(300)
            for _ in range(choose.choice([1, 1, 1, 60]))
        ]
        if len(bodies) > 1:
            batch = encode_batch([Message(topic, body) for body in bodies])
            result = store.append_batch(message(batch, topic=topic, queue_id=queue_id))
            positions = result.physical_offsets
        else:
            result = store.append(message(bodies[0], topic=topic, queue_id=queue_id, keys="key"))
            positions = [result.physical_offset]
        if not result.is_stored:
            return False
        end = result.end
        for number, (position, body) in enumerate(zip(positions, bodies, strict=True)):
            offset = result.queue_offset + number
            lines.append(b"= %b %d %d %d %b\n" % (topic.encode(), queue_id, offset, position, body))
    future = store.durable(end)
    if future is not None and await future is not PutStatus.PUT_OK:
        return False
    say(*lines)
    return True


async def live(root: Path, turn: int, lives: dict[str, int]) -> None:
    choose = random.Random(turn)
    clock = WanderingClock()
    config = dangerous_config(root, turn)
    async with MessageStore(config, clock=clock) as store:
        say(b"ready\n")
        while True:
            what = choose.randrange(20)
            if what < 13:
                if not await put_some(store, choose, lives, turn):
                    return
            elif what < 16:
                topic = choose.choice(TOPICS)
                say(b"- %b\n" % topic.encode())
                await store.delete_topic(topic)
                lives[topic] += 1
                say(b"+ %b\n" % topic.encode())
            elif what == 16:
                clock.wrong_by_ms = choose.choice([0, -2_000, -3_600_000, 2_000, 3_600_000])
            elif what == 17:
                store.apply(
                    dataclasses.replace(
                        config,
                        enabled_append_prop_crc=choose.random() < 0.5,
                        max_message_size=choose.choice([1 << 20, 4 << 20]),
                    )
                )
            else:
                before = clock.wrong_by_ms
                if choose.random() < 0.3:
                    clock.wrong_by_ms = 100 * 3_600_000  # everything has expired
                await asyncio.gather(*[store.delete_expired_files() for _ in range(what - 16)])
                clock.wrong_by_ms = before
            await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])))

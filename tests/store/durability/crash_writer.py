"""A process that stores messages until it is killed, and says which are acknowledged.

    python -m tests.store.durability.crash_writer ROOT ROUND

Each line on its output is one acknowledgement: queue id, queue offset, body.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from rocketq import Message
from rocketq.message.record.batch import encode_batch
from rocketq.store import FlushDiskType, MessageStore, PutStatus, StoreConfig
from tests.store.support import message, small_config

QUEUES = 5


def crash_config(root: Path) -> StoreConfig:
    return small_config(
        root,
        mapped_file_size_commit_log=65_536,
        mapped_file_size_consume_queue=2_000,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        flush_interval_consume_queue=20,
    )


async def write(root: Path, turn: int) -> None:
    choose = random.Random(turn)
    async with MessageStore(crash_config(root)) as store:
        os.write(1, b"ready\n")
        number = 0
        while True:
            group = []
            if choose.randrange(4) == 0:  # large enough to be written to the file in one piece
                bodies = [b"%d-%d-" % (turn, number + n) + b"x" * 900 for n in range(40)]
                parts = encode_batch([Message("orders", body) for body in bodies])
                queue_id = choose.randrange(QUEUES)
                result = store.append_batch(message(parts, queue_id=queue_id))
                assert result.is_stored
                group += [
                    (queue_id, result.queue_offset + n, body) for n, body in enumerate(bodies)
                ]
                number += len(bodies)
            for _ in range(choose.randrange(1, 40)):
                body = b"%d-%d-" % (turn, number) + b"x" * choose.randrange(400)
                queue_id = choose.randrange(QUEUES)
                result = store.append(message(body, queue_id=queue_id, keys=f"{turn}-{number}"))
                assert result.is_stored
                group.append((queue_id, result.queue_offset, body))
                number += 1
            future = store.durable(result.end)
            if future is not None and await future is not PutStatus.PUT_OK:
                return
            lines = [b"%d %d %b\n" % acknowledged for acknowledged in group]
            os.write(1, b"".join(lines))


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))

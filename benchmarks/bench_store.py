"""How fast the store is, measured against what the machine can do at all.

    python -m benchmarks.bench_store [--smoke] [--only append read recovery queues]

Appends and reads are compared with the physical limit in the same run: a plain copy of the same
records into a mapped file of the same kind. Recovery is measured over stores of growing size
whose process was killed; it should not grow with them. Opening is measured with many queues.

Times are CPU seconds where the work is the store's own, so that other work on the machine does
not count, and seconds of the clock where waiting belongs to it.
"""

import argparse
import asyncio
import mmap
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rocketq.common.language.uncompiled import is_compiled
from rocketq.store import MessageInner, MessageStore, StoreConfig
from rocketq.store.log import append

PROPERTIES = (
    b"UNIQ_KEY\x01%s\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster\x02"
    b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02"
)
TOPIC = "BenchmarkTest"
PIECE = 1 << 20


@dataclass
class Bench:
    """One run: how large, where, and what came out."""

    is_smoke: bool
    folder: Path
    results: dict[str, float] = field(default_factory=dict)

    def count(self, *, smoke: int, full: int) -> int:
        return smoke if self.is_smoke else full

    def report(self, name: str, value: float, unit: str, note: str = "") -> None:
        self.results[name] = value
        print(f"{name:<34} {value:>14,.3f} {unit:<10} {note}", flush=True)

    @contextmanager
    def directory(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def messages(size: int, count: int) -> list[MessageInner]:
    """A set of messages to be sent over and over: keys differ, so do queues."""
    return [
        MessageInner(
            topic=TOPIC,
            queue_id=number % 4,
            body=os.urandom(size),
            properties=PROPERTIES % (b"7F00000100002A9F%016X" % (zlib.crc32(b"%d" % number))),
        )
        for number in range(count)
    ]


def copy_limit(folder: Path, record: bytes, total: int) -> float:
    """Seconds to copy records into a mapped file, as many bytes as they are."""
    path = folder / "limit"
    block = record * (PIECE // len(record))
    with open(path, "w+b") as file:
        os.posix_fallocate(file.fileno(), 0, total + PIECE)
        mapping = mmap.mmap(file.fileno(), total + PIECE)
        began = time.process_time()
        for at in range(0, total, len(block)):
            mapping[at : at + len(block)] = block
        elapsed = time.process_time() - began
    path.unlink()
    return elapsed


async def bench_append(bench: Bench, size: int) -> None:
    """Messages into the log, their queues and the index, in one thread."""
    count = bench.count(smoke=2_000, full=1_000_000)
    with bench.directory() as folder:
        sent = messages(size, 1_000)
        async with MessageStore(StoreConfig(store_path_root_dir=str(folder))) as store:
            for inner in sent:  # files are made, pages are there
                store.append(inner)
            take = store.append
            began = time.process_time()
            for _ in range(count // len(sent)):
                for inner in sent:
                    take(inner)
            elapsed = time.process_time() - began
            done = count // len(sent) * len(sent)
            total = done * store.append(sent[0]).size
            assert store.statistics.put_failed == 0
            record = bytes(store.look_up(0) or b"")
        limit = copy_limit(folder, record, total)
    rate = done / elapsed
    bench.report(f"append {size} B", rate, "msgs/s", f"{total / elapsed / 1e6:,.0f} MB/s")
    bench.report(
        f"append {size} B, limit by copying",
        done / limit,
        "msgs/s",
        f"the store takes {elapsed / limit:.1f} times as long",
    )


async def bench_read(bench: Bench, size: int, at_once: int = 32) -> None:
    """A consumer that reads everything, 32 messages at a time."""
    count = bench.count(smoke=2_000, full=400_000)
    with bench.directory() as folder:
        sent = messages(size, 1_000)
        for inner in sent:
            inner.queue_id = 0
        async with MessageStore(StoreConfig(store_path_root_dir=str(folder))) as store:
            for number in range(count):
                store.append(sent[number % len(sent)])
            rounds = bench.count(smoke=1, full=5)
            found = total = 0
            began = time.process_time()
            for _ in range(rounds):
                offset = 0
                while offset < count:
                    result = store.get(TOPIC, 0, offset, at_once, PIECE, None)
                    found += result.message_count
                    total += result.size
                    offset = result.next_offset
            elapsed = time.process_time() - began
            assert found == count * rounds
    bench.report(
        f"read {size} B, {at_once} at a time",
        found / elapsed,
        "msgs/s",
        f"{total / elapsed / 1e6:,.0f} MB/s",
    )


def fill_and_die(folder: Path, total: int) -> None:
    """Fill a store in another process, which ends without closing it."""
    child = os.fork()
    if child == 0:

        async def fill() -> None:
            store = MessageStore(StoreConfig(store_path_root_dir=str(folder)))
            await store.open()
            sent = messages(1_024, 1_000)
            while store.max_physical_offset < total:
                for inner in sent:
                    store.append(inner)
                await asyncio.sleep(0)
            store._write_checkpoint()  # as it is once a second
            os._exit(0)

        try:
            asyncio.run(fill())
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0


async def bench_recovery(bench: Bench) -> None:
    """From opening a store whose process was killed to the first message taken."""
    sizes = [8] if bench.is_smoke else [64, 512, 2_048, 5_120]
    for size_mb in sizes:
        with bench.directory() as folder:
            fill_and_die(folder, size_mb << 20)
            began = time.perf_counter()
            store = MessageStore(StoreConfig(store_path_root_dir=str(folder)))
            await store.open()
            assert store.append(messages(128, 1)[0]).is_stored
            elapsed = time.perf_counter() - began
            assert store.recovery is not None
            read = store.recovery.end - store.recovery.start
            await store.close()
        bench.report(
            f"recovery of {size_mb:,} MB", elapsed * 1000, "ms", f"{read / 1e6:,.1f} MB read"
        )


async def bench_queues(bench: Bench) -> None:
    """Opening a store with very many queues, and using a few of them."""
    count = bench.count(smoke=100, full=20_000)
    with bench.directory() as folder:
        config = StoreConfig(store_path_root_dir=str(folder))
        body = bytes(128)
        async with MessageStore(config) as store:
            began = time.perf_counter()
            for number in range(count):
                store.append(
                    MessageInner(topic=f"topic{number // 8}", queue_id=number % 8, body=body)
                )
            bench.report(
                f"first message of {count:,} queues",
                (time.perf_counter() - began) * 1e6 / count,
                "us each",
            )
            began = time.perf_counter()
            for number in range(count):
                store.append(
                    MessageInner(topic=f"topic{number // 8}", queue_id=number % 8, body=body)
                )
            bench.report(
                f"second message of {count:,} queues",
                (time.perf_counter() - began) * 1e6 / count,
                "us each",
            )
            for _ in range(bench.count(smoke=10, full=80)):  # what comes after, elsewhere
                store.append(MessageInner(topic="busy", queue_id=0, body=bytes(100_000)))
        began = time.perf_counter()
        store = MessageStore(config)
        await store.open()
        assert store.append(MessageInner(topic="topic0", queue_id=0, body=body)).queue_offset == 2
        elapsed = time.perf_counter() - began
        mapped = store._queues.mapped_count
        await store.close()
    bench.report(f"open with {count:,} queues", elapsed * 1000, "ms", f"{mapped} files mapped")


async def run(bench: Bench, only: list[str]) -> None:
    kind = "compiled" if is_compiled(append) else "not compiled"
    print(f"store, {kind}")
    if "append" in only:
        await bench_append(bench, 128)
        await bench_append(bench, 1_024)
    if "read" in only:
        await bench_read(bench, 128)
        await bench_read(bench, 1_024)
    if "recovery" in only:
        await bench_recovery(bench)
    if "queues" in only:
        await bench_queues(bench)


def main() -> None:
    parts = ["append", "read", "recovery", "queues"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small, to see that it runs")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--dir", type=Path, default=None, help="where files are made")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.dir))
    try:
        asyncio.run(run(Bench(options.smoke, folder), options.only))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

"""Columns for replicas: a master and a slave of one broker name, one of them Java's or none.

messages of every kind are sent to a SYNC_MASTER that waits for its slave
the logs are compared byte by byte, the slave's tables with what was done
the master is killed with SIGKILL and its directory deleted
the slave serves every acknowledged message, at the same place
the slave's directory is started as a master, and goes on
"""

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from peers import java
from peers.outcomes import Column, Outcome, Outcomes
from peers.servers import Cluster, Server
from rocketq.aio import Message, run
from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import encode_properties
from rocketq.message.record.batch import encode_batch
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, RemotingClient, RequestCode, ResponseCode
from rocketq.remoting.bodies.offsets import DelayOffsetWrapper
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import (
    ConsumerSendMsgBack,
    CreateTopic,
    EndTransaction,
    PullMessage,
    PullMessageResponse,
    QueryConsumerOffset,
    QueryConsumerOffsetResponse,
    QueryMessage,
    SendMessageResponse,
    SendMessageV2,
    UpdateConsumerOffset,
)

T = TypeVar("T")

TOPIC = "Replicated"
GROUP = "ReplicatedGroup"
QUEUES = 4
COUNT = int(os.environ.get("ROCKETQ_PEERS_REPLICATED", "100000"))
IN_FLIGHT = 256
WITHIN_S = 150.0
COMMIT = 8
HALF = 4
SETTINGS = {
    "inSyncReplicas": "2",
    "slaveReadEnable": "true",
    "slaveTimeout": "20000",
    "syncFlushTimeout": "20000",
    "brokerIP2": "127.0.0.1",
    "mappedFileSizeCommitLog": str(16 << 20),
    "defaultTopicQueueNums": str(QUEUES),
}


@dataclass(slots=True)
class Sent:
    """What was acknowledged: where it lies, and what it is."""

    places: dict[tuple[int, int], bytes] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    not_ok: int = 0

    def note(self, reply: Command, bodies: Sequence[bytes]) -> None:
        if reply.code != ResponseCode.SUCCESS:
            self.not_ok += 1
            return
        answer = reply.header(SendMessageResponse)
        for number, body in enumerate(bodies):
            self.places[answer.queue_id, answer.queue_offset + number] = body


async def until(what: str, condition: Callable[[], Awaitable[T]], within_s: float = WITHIN_S) -> T:
    deadline = time.monotonic() + within_s
    while True:
        try:
            result = await condition()
        except (RemotingError, OSError):
            result = None
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s:.0f} s in vain for {what}")
        await asyncio.sleep(0.1)


class Talk:
    """Requests to one broker."""

    def __init__(self, client: RemotingClient, address: str) -> None:
        self.client = client
        self.address = address

    async def call(self, request: Command) -> Command:
        return await self.client.call(self.address, request, 30.0)

    def send_request(
        self, body: bytes, queue_id: int, properties: dict[str, str], *, sys_flag: int = 0
    ) -> Command:
        return Command.request(self.send_header(queue_id, properties, sys_flag), body)

    def send_header(
        self, queue_id: int, properties: dict[str, str], sys_flag: int = 0
    ) -> SendMessageV2:
        return SendMessageV2(
            producer_group="ReplicatedProducer",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=QUEUES,
            queue_id=queue_id,
            sys_flag=sys_flag,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties=encode_properties(properties).decode(),
            reconsume_times=0,
            unit_mode=False,
            batch=False,
        )

    async def table(self) -> dict[str, str]:
        reply = await self.call(Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        return KVTable.decode(reply.body).table

    async def pull(self, queue_id: int, offset: int, topic: str = TOPIC) -> Command:
        return await self.call(
            Command.request(
                PullMessage(
                    consumer_group=GROUP,
                    topic=topic,
                    queue_id=queue_id,
                    queue_offset=offset,
                    max_msg_nums=32,
                    sys_flag=4,
                    commit_offset=0,
                    suspend_timeout_millis=0,
                    subscription="*",
                    sub_version=0,
                    expression_type="TAG",
                )
            )
        )

    async def read_queue(self, queue_id: int, end: int) -> dict[tuple[int, int], MessageExt]:
        found: dict[tuple[int, int], MessageExt] = {}
        at = 0
        while at < end:
            reply = await self.pull(queue_id, at)
            if reply.code == ResponseCode.SUCCESS:
                for message in decode_records(reply.body):
                    found[queue_id, message.queue_offset] = message
            following = reply.header(PullMessageResponse).next_begin_offset
            if reply.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY):
                raise AssertionError(f"pull of {queue_id} at {at}: {reply.code} {reply.remark}")
            if following <= at:
                await asyncio.sleep(0.1)
            at = following
        return found

    async def offset(self) -> int:
        header = QueryConsumerOffset(consumer_group=GROUP, topic=TOPIC, queue_id=0)
        reply = await self.call(Command.request(header))
        if reply.code != ResponseCode.SUCCESS:
            return -1
        return int(reply.header(QueryConsumerOffsetResponse).offset or 0)

    async def has_key(self, key: str) -> bool:
        header = QueryMessage(
            topic=TOPIC, key=key, max_num=8, begin_timestamp=0, end_timestamp=1 << 61
        )
        reply = await self.call(Command.request(header))
        return reply.code == ResponseCode.SUCCESS

    async def delays(self) -> dict[int, int]:
        reply = await self.call(Command.request(RequestCode.GET_ALL_DELAY_OFFSET))
        return DelayOffsetWrapper.decode(reply.body).offset_table


async def fill(master: Talk) -> Sent:
    """Messages of all kinds, each acknowledged."""
    sent = Sent()
    create = CreateTopic(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
    await master.call(Command.request(create))
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def plain(number: int) -> None:
        async with limit:
            body = f"plain-{number:06d}".encode() + b"." * (number % 90)
            properties = {"UNIQ_KEY": f"U{number}", "KEYS": f"key-{number}", "WAIT": "true"}
            request = master.send_request(body, number % QUEUES, properties)
            sent.note(await master.call(request), [body])

    async def batch(number: int) -> None:
        async with limit:
            bodies = [f"batch-{number}-{each}".encode() for each in range(20)]
            header = replace(master.send_header(number % QUEUES, {"WAIT": "true"}), batch=True)
            messages = encode_batch([Message(TOPIC, body) for body in bodies])
            request = Command.request(header, messages)
            request.code = RequestCode.SEND_BATCH_MESSAGE
            sent.note(await master.call(request), bodies)

    async with asyncio.TaskGroup() as tasks:
        for number in range(COUNT * 4 // 5):
            tasks.create_task(plain(number))
        for number in range(COUNT // 100):
            tasks.create_task(batch(number))
    sent.keys = [f"key-{number}" for number in (0, COUNT // 2, COUNT * 4 // 5 - 1)]
    for number in range(20):
        late = {"UNIQ_KEY": f"D{number}", "DELAY": "1", "WAIT": "true"}
        await master.call(master.send_request(b"delayed-%d" % number, 0, late))
    later = {"UNIQ_KEY": "L", "DELAY": "5", "WAIT": "true"}  # a minute: waits when the master dies
    await master.call(master.send_request(b"delayed-long", 0, later))
    for number in range(10):
        half = {
            "UNIQ_KEY": f"T{number}",
            "TRAN_MSG": "true",
            "PGROUP": "ReplicatedProducer",
            "WAIT": "true",
        }
        reply = await master.call(
            master.send_request(b"transaction-%d" % number, 1, half, sys_flag=HALF)
        )
        answer = reply.header(SendMessageResponse)
        if number % 2 == 0:
            decision = EndTransaction(
                producer_group="ReplicatedProducer",
                tran_state_table_offset=answer.queue_offset,
                commit_log_offset=int(answer.msg_id[-16:], 16),
                commit_or_rollback=COMMIT,
                msg_id=answer.msg_id,
                transaction_id=f"T{number}",
            )
            await master.call(Command.request(decision))
    found = await master.pull(0, 0)
    for message in decode_records(found.body)[:5]:
        back = ConsumerSendMsgBack(
            offset=message.physical_offset, group=GROUP, delay_level=1, max_reconsume_times=16
        )
        await master.call(Command.request(back))
    commit = UpdateConsumerOffset(consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=77)
    await master.call(Command.request(commit))
    return sent


def log_files(store: Path) -> dict[str, Path]:
    return {path.name: path for path in (store / "commitlog").iterdir() if path.stat().st_size}


def compare_logs(master: Path, slave: Path, end: int) -> Outcome:
    """Every byte of the slave's files up to the end of the log."""
    theirs, ours = log_files(master), log_files(slave)
    size = 16 << 20
    compared = 0
    for name, path in sorted(ours.items()):
        start = int(name)
        if start >= end:
            continue
        if name not in theirs:
            return Outcome(False, f"the master has no file {name}")
        length = min(size, end - start)
        if path.read_bytes()[:length] != theirs[name].read_bytes()[:length]:
            return Outcome(False, f"file {name} differs")
        compared += length
    return Outcome(compared == end, f"{compared} of {end} bytes" if compared != end else "")


async def trial(cluster: Cluster, namesrv: Server, master_side: str, slave_side: str) -> Outcomes:
    """All rows of one pair."""
    found: dict[str, Outcome] = {}
    start = partial(member, cluster, namesrv)
    master_server = start(master_side, 0, brokerRole="SYNC_MASTER")
    slave_server = start(slave_side, 1, brokerRole="SLAVE")
    client = RemotingClient()
    try:
        master, slave = Talk(client, master_server.address), Talk(client, slave_server.address)

        async def is_followed() -> bool:
            header = master.send_request(b"hello", 0, {"UNIQ_KEY": "H", "WAIT": "true"})
            return (await master.call(header)).code == ResponseCode.SUCCESS

        await until("a slave that acknowledges", is_followed)
        sent = await fill(master)
        found["all sends acknowledged"] = Outcome(sent.not_ok == 0, f"{sent.not_ok} were not")

        async def delivered() -> bool:
            return (await master.delays()).get(1, 0) >= 20

        await until("delayed messages", delivered)

        async def is_equal() -> bool:
            theirs, ours = await master.table(), await slave.table()
            return theirs["commitLogMaxOffset"] == ours["commitLogMaxOffset"]

        await until("equal ends", is_equal)
        end = int((await master.table())["commitLogMaxOffset"])
        found["logs equal byte by byte"] = compare_logs(
            cluster.folder / "store-a0", cluster.folder / "store-a1", end
        )

        async def offsets_copied() -> bool:
            return await slave.offset() == 77

        async def delays_copied() -> bool:
            return (await slave.delays()).get(1, 0) >= 20

        found["offsets of groups copied"] = await outcome("offsets", offsets_copied)
        found["progress of delays copied"] = await outcome("delays", delays_copied)
        ends = {
            queue_id: 1 + max(at for where, at in sent.places if where == queue_id)
            for queue_id in range(QUEUES)
        }
        master_server.crash()
        shutil.rmtree(cluster.folder / "store-a0")
        found["slave serves all that was acknowledged"] = await served(slave, sent, ends)
        missing = [key for key in sent.keys if not await slave.has_key(key)]
        found["slave finds keys"] = Outcome(not missing, f"{missing}")
        slave_server.stop()
        promoted = start(slave_side, 1, brokerRole="ASYNC_MASTER", brokerId="0")
        await client.close()
        client = RemotingClient()
        as_master = Talk(client, promoted.address)
        found["slave's directory as master"] = await goes_on(as_master, sent, ends)
    finally:
        await client.close()
    return found


async def outcome(what: str, condition: Callable[[], Awaitable[bool]]) -> Outcome:
    try:
        await until(what, condition)
    except AssertionError as failure:
        return Outcome(False, str(failure))
    return Outcome(True)


async def served(talk: Talk, sent: Sent, ends: dict[int, int]) -> Outcome:
    try:
        found: dict[tuple[int, int], MessageExt] = {}
        for queue_id, end in ends.items():
            found |= await talk.read_queue(queue_id, end)
    except (AssertionError, RemotingError) as failure:
        return Outcome(False, str(failure))
    lost = [place for place in sent.places if place not in found]
    wrong = [
        place for place, body in sent.places.items() if place in found and found[place].body != body
    ]
    return Outcome(not lost and not wrong, f"lost {len(lost)}, wrong {len(wrong)}: {lost[:3]}")


async def goes_on(talk: Talk, sent: Sent, ends: dict[int, int]) -> Outcome:
    """It takes messages behind the old ones, knows the group, and delivers what still waits."""
    before = await served(talk, sent, ends)
    if not before.ok:
        return before
    if await talk.offset() != 77:
        return Outcome(False, f"the group stands at {await talk.offset()}")
    reply = await talk.call(talk.send_request(b"new", 3, {"UNIQ_KEY": "N", "WAIT": "true"}))
    if reply.code != ResponseCode.SUCCESS:
        return Outcome(False, f"a send is answered {reply.code}: {reply.remark}")
    if reply.header(SendMessageResponse).queue_offset < ends[3]:
        return Outcome(False, "an offset was given twice")

    async def is_delivered() -> bool:
        return (await talk.delays()).get(5, 0) >= 1

    return await outcome("a message delayed over the death of its master", is_delivered)


def member(cluster: Cluster, namesrv: Server, side: str, number: int, **settings: str) -> Server:
    name = f"a{number}"
    values = SETTINGS | {"brokerName": "broker-a", "brokerId": str(number)} | settings
    values["haListenPort"] = str(cluster.port(name) + 1)
    if side == "rocketq":
        return cluster.rocketq_broker(name, namesrv, **values)
    return cluster.java_broker(name, namesrv, side, **values)


def replicated(master_side: str, slave_side: str, folder: Path, rows: Sequence[str]) -> Outcomes:
    with Cluster(folder) as cluster:
        namesrv = cluster.rocketq_namesrv()
        found = run(trial(cluster, namesrv, master_side, slave_side))
    return {f"replicas: {name}": each for name, each in found.items()}


ROCKETQ = "rocketq"
COLUMNS = [
    Column(
        "replicas-rocketq",
        "replicas rocketq → rocketq",
        partial(replicated, ROCKETQ, ROCKETQ),
    ),
    Column(
        "replicas-java-master",
        "replicas Java 5.5.0 → rocketq",
        partial(replicated, java.V5, ROCKETQ),
    ),
    Column(
        "replicas-java-slave",
        "replicas rocketq → Java 5.5.0",
        partial(replicated, ROCKETQ, java.V5),
    ),
    Column(
        "replicas-java-4-master",
        "replicas Java 4.9.7 → rocketq",
        partial(replicated, java.V4, ROCKETQ),
    ),
]

"""What clients do: the SDK's own producers and consumers.

producers     number their messages; some wait for a level's time or for one of their own
transactors   send messages in transactions, and know what became of each
consumers     share queues; some messages they refuse once, some always
poppers       take messages with receipts, and leave some of them to come again
observer      asks again and again how far the group of consumers is
"""

import asyncio
import random
from typing import Any, Final

from rocketq.aio import (
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    SendResult,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from rocketq.common.errors import RocketqError
from rocketq.message.ids import parse_offset_message_id
from rocketq.remoting import Command, RemotingClient, ResponseCode
from rocketq.remoting.headers import QueryConsumerOffset, QueryConsumerOffsetResponse
from simulation.cluster import Cluster
from simulation.history import Delivery, Kind, Popped, Progress, Send
from simulation.plan import Plan, Shape
from simulation.process import Process

ORDERS: Final = "orders"
REMINDERS: Final = "reminders"
PAYMENTS: Final = "payments"
TOPICS: Final = (ORDERS, REMINDERS, PAYMENTS)
GROUP: Final = "billing"
POP_GROUP: Final = "packing"
MAX_RETRIES: Final = 2
INVISIBLE_S: Final = 10.0

_LEVELS_S: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


class Workload:
    """The main programs of clients, which may all run several times."""

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self.is_over = False
        self._cluster = cluster
        self._history = cluster.history
        self._plan = plan
        self._lives: dict[str, int] = {}
        self._refused: set[str] = set()
        self._left: set[str] = set()

    def _begin(self, process: Process) -> tuple[str, dict[str, Any]]:
        """The name of a client in this life, and what all clients are told."""
        life = self._lives[process.name] = self._lives.get(process.name, 0) + 1
        name = f"{process.name}.{life}"
        options = {
            "namesrv": self._cluster.namesrv,
            "instance_name": name,
            "client_ip": process.host.address,
        }
        return name, options

    # Producing

    async def produce(self, process: Process) -> None:
        """Send one message after the other; each life of a producer counts for itself."""
        chance = self._cluster.chance
        name, options = self._begin(process)
        async with Producer("ordering", **options) as producer:
            number = 0
            while not self.is_over:
                await self._pause()
                number += 1
                key = f"{name}-{number}"
                body = key.encode() + b"." * chance.choice((0, 0, 100, 3000))
                sort = chance.random()
                if sort < 0.85:
                    message, kind, delay_s = Message(ORDERS, body, keys=[key]), Kind.PLAIN, 0.0
                elif sort < 0.93:
                    level = chance.randint(1, 4)
                    message = Message(REMINDERS, body, keys=[key], delay_level=level)
                    kind, delay_s = Kind.LEVEL, _LEVELS_S[level - 1]
                else:
                    delay_s = round(chance.uniform(0.5, 8.0), 3)
                    message = Message(REMINDERS, body, keys=[key], delay=delay_s)
                    kind = Kind.TIMED
                send = self._history.begin(name, key, self._now_s, kind)
                send.delay_s = delay_s
                try:
                    result = await producer.send(message, key=name)
                except RocketqError as error:
                    send.error = repr(error)
                else:
                    self._note_sent(send, result)
                send.ended_s = self._now_s

    async def transact(self, process: Process) -> None:
        """Send messages in transactions. What is decided is kept where no crash takes it."""
        name, options = self._begin(process)
        decisions = self._history.decisions
        producer = TransactionProducer("paying", **options)

        @producer.on_check
        async def check(message: MessageExt) -> TransactionState:
            # Nobody knows of it: whoever sent it died before anything was decided.
            is_committed = decisions.setdefault(message.keys[0], False)
            return TransactionState.COMMIT if is_committed else TransactionState.ROLLBACK

        async def decide(message: Message, argument: object) -> TransactionState:
            key = message.keys[0]
            sort = hash_of(key) % 5
            is_committed = decisions.setdefault(key, sort in (0, 1, 2))
            if sort in (2, 3):
                return TransactionState.UNKNOWN  # the broker has to ask
            return TransactionState.COMMIT if is_committed else TransactionState.ROLLBACK

        async with producer:
            number = 0
            while not self.is_over:
                await self._pause(4)
                number += 1
                key = f"{name}-{number}"
                send = self._history.begin(name, key, self._now_s, Kind.TRANSACTION)
                message = Message(PAYMENTS, key.encode(), keys=[key])
                try:
                    result = await producer.send_in_transaction(message, execute=decide)
                except RocketqError as error:
                    send.error = repr(error)
                else:
                    self._note_sent(send, result)
                send.ended_s = self._now_s
            await asyncio.Event().wait()  # the broker may still ask

    def _note_sent(self, send: Send, result: SendResult) -> None:
        send.status = result.status.name
        host, _, position = parse_offset_message_id(result.offset_msg_id)
        send.log_spot = (host, position)
        if send.kind is Kind.PLAIN:
            send.spot = (result.queue, result.queue_offset)
            if send.is_acknowledged:
                lacking = self._cluster.lacks(send.key, position)
                self._history.not_copied += [(send.key, name) for name in lacking]

    # Consuming

    async def consume(self, process: Process) -> None:
        """Take messages, refuse some of them once and some for ever."""
        name, options = self._begin(process)
        consumer = PushConsumer(
            GROUP,
            topics=TOPICS,
            consume_from="first",
            max_reconsume_times=MAX_RETRIES,
            **options,
        )

        @consumer.listener
        async def on_message(message: MessageExt) -> bool:
            key = message.keys[0]
            is_taken = not is_poison(key)
            if hash_of(key) % 13 == 0 and key not in self._refused:
                self._refused.add(key)
                is_taken = False
            self._history.look_at_body(key, message.body)
            if self._plan.shape is Shape.ELECTED:
                lacking = self._cluster.lacks(key, message.physical_offset)
                self._history.read_too_soon += [(key, each) for each in lacking]
            if hash_of(key) % 5 == 0:
                await asyncio.sleep(0.5)  # work takes time, in which a consumer may die
            self._history.deliveries.append(
                Delivery(
                    key,
                    self._now_s,
                    name,
                    (message.queue, message.queue_offset),
                    message.reconsume_times,
                    is_taken,
                )
            )
            return is_taken

        async with consumer:
            await asyncio.Event().wait()  # until it is killed, or the run ends

    async def pop(self, process: Process) -> None:
        """Receive messages, and acknowledge all but some, which come again."""
        name, options = self._begin(process)
        async with SimpleConsumer(
            POP_GROUP, topics=ORDERS, consume_from="first", invisible_s=INVISIBLE_S, **options
        ) as consumer:
            while True:
                try:
                    messages = await consumer.receive(max_messages=8, wait_s=5)
                except RocketqError:
                    await asyncio.sleep(1)
                    continue
                popped = [Popped(each.keys[0], self._now_s, name) for each in messages]
                self._history.pops += popped
                for message, pop in zip(messages, popped, strict=True):
                    await self._take(consumer, message, pop)

    async def _take(self, consumer: SimpleConsumer, message: MessageExt, popped: Popped) -> None:
        key = popped.key
        self._history.look_at_body(key, message.body)
        if hash_of(key) % 11 == 0 and key not in self._left:
            self._left.add(key)
            return
        popped.may_be_acked = True  # as soon as it is asked for, also by one that dies meanwhile
        try:
            await consumer.ack(message)
        except RocketqError:
            return
        popped.acked_s = self._now_s

    # Looking on

    async def observe(self, process: Process) -> None:
        """Ask how far the group is."""
        broker = self._plan.broker_names[0]
        address = f"{self._cluster.host(broker).address}:10911"
        client = RemotingClient()
        while True:
            await asyncio.sleep(1.0)
            for queue_id in range(self._plan.queues):
                request = QueryConsumerOffset(consumer_group=GROUP, topic=ORDERS, queue_id=queue_id)
                asked_s = self._now_s
                try:
                    reply = await client.call(address, Command.request(request), 3.0)
                except RocketqError:
                    continue
                if reply.code == ResponseCode.SUCCESS:
                    offset = reply.header(QueryConsumerOffsetResponse).offset
                    self._history.progress.append(
                        Progress(broker, ORDERS, queue_id, asked_s, self._now_s, offset)
                    )

    @property
    def _now_s(self) -> float:
        return self._cluster.loop.time()

    async def _pause(self, times: float = 1.0) -> None:
        chance: random.Random = self._cluster.chance
        await asyncio.sleep(chance.expovariate(1 / (self._plan.pause_s * times)))


def is_poison(key: str) -> bool:
    """Whether nobody can do anything with a message."""
    return hash_of(key) % 31 == 0


def hash_of(key: str) -> int:
    """The same number for the same key, in every run."""
    return sum(byte * (at + 1) for at, byte in enumerate(key.encode()))

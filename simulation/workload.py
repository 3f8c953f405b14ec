"""What clients do: the SDK's own producers and consumers."""

import asyncio
from typing import Final

from rocketq.aio import Message, MessageExt, Producer, PushConsumer
from rocketq.common.errors import RocketqError
from simulation.cluster import NAMESRV, Cluster
from simulation.history import Delivery
from simulation.process import Process

TOPIC: Final = "orders"
GROUP: Final = "billing"


class Workload:
    """Producers that number their messages, and consumers that note what they get."""

    def __init__(self, cluster: Cluster, pause_s: float) -> None:
        self.is_over = False
        self._cluster = cluster
        self._pause_s = pause_s
        self._lives: dict[str, int] = {}
        self._refused: set[str] = set()

    async def produce(self, process: Process) -> None:
        """Send one message after the other; each life of a producer counts for itself."""
        loop, chance, history = self._cluster.loop, self._cluster.chance, self._cluster.history
        life = self._lives[process.name] = self._lives.get(process.name, 0) + 1
        name = f"{process.name}.{life}"
        async with Producer(
            "ordering", namesrv=NAMESRV, instance_name=name, client_ip=process.host.address
        ) as producer:
            number = 0
            while not self.is_over:
                await asyncio.sleep(chance.expovariate(1 / self._pause_s))
                number += 1
                key = f"{name}-{number}"
                body = key.encode() + b"." * chance.choice((0, 0, 100, 3000))
                send = history.begin(name, key, loop.time())
                try:
                    result = await producer.send(Message(TOPIC, body, keys=[key]), key=name)
                except RocketqError as error:
                    send.error = repr(error)
                else:
                    send.status = result.status.name
                    send.spot = (result.queue, result.queue_offset)
                    if send.is_acknowledged and not self._cluster.is_on_slave(key, result):
                        history.not_on_slave.append(key)
                send.ended_s = loop.time()

    async def consume(self, process: Process) -> None:
        """Take messages, refuse some of them once."""
        loop, history = self._cluster.loop, self._cluster.history
        life = self._lives[process.name] = self._lives.get(process.name, 0) + 1
        name = f"{process.name}.{life}"
        consumer = PushConsumer(
            GROUP,
            namesrv=NAMESRV,
            topics=TOPIC,
            instance_name=name,
            client_ip=process.host.address,
            consume_from="first",
        )

        @consumer.listener
        async def on_message(message: MessageExt) -> bool:
            key = message.keys[0]
            is_taken = not (hash_of(key) % 13 == 0 and key not in self._refused)
            if not is_taken:
                self._refused.add(key)
            history.deliveries.append(
                Delivery(
                    key,
                    loop.time(),
                    name,
                    (message.queue, message.queue_offset),
                    message.reconsume_times,
                    is_taken,
                )
            )
            return is_taken

        async with consumer:
            await asyncio.Event().wait()  # until it is killed, or the run ends


def hash_of(key: str) -> int:
    """The same number for the same key, in every run."""
    return sum(byte * (at + 1) for at, byte in enumerate(key.encode()))

import asyncio

from rocketq.client.producer.result import SendResult
from rocketq.client.producer.send_frames import SendTemplate
from rocketq.client.producer.sender import Delivery, QueueChoice
from rocketq.message.ids import UniqueIds
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.wire.command import Command

class Lane:
    connection: Connection
    template: SendTemplate
    queue: MessageQueue
    def __init__(
        self, connection: Connection, template: SendTemplate, queue: MessageQueue
    ) -> None: ...

class Ring:
    def __init__(self, lanes: list[Lane], turn: int) -> None: ...

class QuickSend:
    lane: Lane
    future: asyncio.Future[SendResult]
    opaque: int
    topic: str
    msg_id: str
    head: bytes
    body: bytes
    choice: QueueChoice | None
    deadline: float
    def leave(self) -> None: ...
    def complete(self, response: Command) -> None: ...
    def fail(self, error: Exception) -> None: ...
    def expire(self) -> None: ...

class SendPath:
    delivery: Delivery
    pending: set[asyncio.Future[SendResult]]
    def __init__(
        self, delivery: Delivery, ids: UniqueIds, *, budget_s: float, plain_below: int
    ) -> None: ...
    def open(self, topic: str, ring: Ring) -> None: ...
    def close(self) -> None: ...
    def send(self, message: Message) -> asyncio.Future[SendResult] | None: ...
    def start(
        self,
        lane: Lane,
        topic: str,
        body: bytes,
        properties: bytes,
        sys_flag: int,
        flag: int,
        born_ms: int,
        msg_id: str,
        choice: QueueChoice | None,
    ) -> asyncio.Future[SendResult] | None: ...

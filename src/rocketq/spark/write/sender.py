"""Sends encoded batches ahead of their answers, and again where that can help.

    send    ──▶ request ──▶ request ──▶ request ──▶     broker
    wait    ◀── answer  ◀── answer  ◀──────────────

All of it happens on the thread of the task: a request is handed to the kernel, and its answer is
looked for when so many are under way. Only routes are asked for on the loop of a client.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.rpc import rejected
from rocketq.client.cluster.signing import signing_hooks
from rocketq.client.errors import BrokerUnknown, ClientError, NoRoute
from rocketq.common.buffers import Buffer
from rocketq.common.errors import RocketqError
from rocketq.message.names import AUTO_CREATE_TOPIC, wrap_namespace
from rocketq.message.properties.codec import PropertyName, append_property, get_property
from rocketq.message.queue import MessageQueue
from rocketq.message.record.batch import split_batch
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import SendMessageV2
from rocketq.remoting.wire.command import Command
from rocketq.spark.options import SinkOptions
from rocketq.spark.wire.broker_socket import BrokerSocket, EncryptedSocket
from rocketq.spark.wire.client import client_config
from rocketq.spark.wire.retry import Retry
from rocketq.spark.write.once.attempt import Attempt
from rocketq.spark.write.once.lease import Fenced

logger = logging.getLogger(__name__)

TAKEN: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)
NEW_TOPIC_QUEUES: Final = 4


def keyed_parts(body: Buffer) -> Iterator[tuple[str, bytes]]:
    """The messages of a batch's body, each with its unique key."""
    data, at = bytes(body), 0
    for _, _, properties in split_batch(data):
        size = int.from_bytes(data[at : at + 4], "big")
        key = get_property(bytes(properties), PropertyName.UNIQUE_KEY.encode()) or b""
        yield key.decode(), data[at : at + size]
        at += size


class SendRefused(RocketqError):
    """A broker did not take a batch, however often it was asked."""


class NobodyThere(ClientError):
    """The NameServers know of no broker at all: the cluster is being started again."""

    retriable = True


@dataclass(slots=True, eq=False)
class Batch:
    """Rows for a queue; where that is not `is_fixed`, another one will do."""

    queue: MessageQueue
    body: Buffer
    count: int
    is_fixed: bool
    delay_level: int = 0
    address: str = ""  # whom it was sent to
    opaque: int | None = None  # of the request, while it is under way
    is_taken: bool = False
    is_doubtful: bool = False  # it was sent, and nobody knows whether it was stored


class BatchSender:
    """The sends of one task. Belongs to its thread; `client` finds the brokers.

    With `attempt` what is in doubt is looked for in the topic before it is sent again.
    """

    waits_for_order = True
    """Whether what has to stay in order is sent one request after another."""
    plain_socket = BrokerSocket

    def __init__(
        self, client: ClientInstance, options: SinkOptions, attempt: Attempt | None = None
    ) -> None:
        self._client = client
        self._attempt = attempt
        self._options = options
        self._namespace = options.connection.namespace
        self._hooks = signing_hooks(client_config(options.connection))
        self._masters: dict[str, str | None] = {}
        self._sockets: dict[str, BrokerSocket] = {}
        self._under_way: deque[Batch] = deque()
        self._waited_for: tuple[Batch, ...] = ()
        self._answers: dict[int, Command] = {}  # those that came before they were waited for

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a topic has for writing."""
        retry = Retry(self._options.connection.retry_within_s)
        while True:
            try:
                return loop_thread().run(self._queues(wrap_namespace(self._namespace, topic)))
            except RocketqError as error:
                retry.wait(error)

    def send(self, batch: Batch) -> None:
        """Send a batch; failures show when it is waited for, here or later."""
        self._post(batch)
        self._under_way.append(batch)
        while len(self._under_way) > self._options.max_pending:
            self.wait(self._under_way.popleft())

    def wait(self, batch: Batch) -> None:
        """Return when the broker has taken the batch, however often that has to be tried."""
        retry: Retry | None = None
        self._waited_for = (batch,)
        while not batch.is_taken:
            try:
                self._take_answer(batch)
            except Fenced:
                raise
            except RocketqError as error:
                retry = retry or Retry(self._options.connection.retry_within_s)
                try:
                    retry.wait(error)
                except RocketqError:
                    raise SendRefused(
                        f"{batch.count} rows for topic {batch.queue.topic!r}, "
                        f"{batch.queue.broker_name} queue {batch.queue.queue_id}, were not taken "
                        f"after {retry.attempts} attempts: {error}"
                    ) from error
                loop_thread().run(self._redirect(batch))

    def collect(self) -> None:
        """Take in the answers that have come by now.

        To be called before each piece of work: rows may come slowly, and brokers close connections
        that rest, with what was not read of them.
        """
        for address, connection in list(self._sockets.items()):
            try:
                while connection.has_answer():
                    self._note(connection.receive())
            except RemotingError as error:
                logger.info("%s", error)
                self._disconnect(address)

    def finish(self) -> None:
        """Wait for every answer; the first failure is raised."""
        while self._under_way:
            self.wait(self._under_way.popleft())

    def close(self) -> None:
        """Leave the brokers, and whatever they have not answered."""
        for connection in self._sockets.values():
            connection.close()

    # One request

    def _take_answer(self, batch: Batch) -> None:
        if batch.is_doubtful and self._attempt is not None:
            self._disconnect(batch.address)
        if batch.opaque is None:
            self._request(batch)
            if batch.is_taken:
                return
        opaque = batch.opaque
        assert opaque is not None
        try:
            while (answer := self._answers.pop(opaque, None)) is None:
                self._note(self._sockets[batch.address].receive())
        except RemotingError:
            batch.opaque, batch.is_doubtful = None, True
            self._disconnect(batch.address)
            raise
        batch.opaque = None
        if answer.code not in TAKEN:
            batch.is_doubtful = True
            raise rejected(answer, batch.address, RequestCode.SEND_BATCH_MESSAGE)
        if answer.code != ResponseCode.SUCCESS:
            code = ResponseCode(answer.code).name
            logger.warning("%s took a batch with %s", batch.address, code)
        batch.is_taken = True
        self._taken(batch, answer)
        batch.body = b""

    def _taken(self, batch: Batch, answer: Command) -> None:
        """What a broker said of a batch that it has taken."""

    def _note(self, answer: Command) -> None:
        self._answers[answer.opaque] = answer

    def _post(self, batch: Batch) -> None:
        """Send the request ahead of its turn."""
        try:
            self._request(batch)
        except Fenced:
            raise
        except RocketqError as error:
            logger.info("%s: %s", batch.queue, error)

    def _request(self, batch: Batch) -> None:
        address = self._masters.get(batch.queue.broker_name)
        if address is None:
            raise BrokerUnknown(batch.queue.broker_name)
        request = self._encoded(batch)
        is_new = address not in self._sockets
        connection = self._connected(address)
        if self._attempt is not None:
            if is_new:
                # Whoever lost a connection may have lost its lease with it.
                try:
                    self._clear_doubt(self._attempt, batch.queue.topic, batch.queue.broker_name)
                except RocketqError:
                    self._disconnect(address)
                    raise
                if batch.is_taken:
                    return
            self._attempt.check(batch.queue.broker_name)
        try:
            connection.send(request)
        except RemotingError:
            batch.is_doubtful = True
            self._disconnect(address)
            raise
        batch.address, batch.opaque = address, request.opaque

    def connect(self, queues: Iterable[MessageQueue]) -> None:
        """Have a connection to each of these queues' brokers."""
        retry = Retry(self._options.connection.retry_within_s)
        for queue in queues:
            while True:
                address = self._masters.get(queue.broker_name)
                try:
                    if address is None:
                        raise BrokerUnknown(queue.broker_name)
                    self._connected(address)
                    break
                except RocketqError as error:
                    retry.wait(error)
                    loop_thread().run(self._refresh(queue))

    def _connected(self, address: str) -> BrokerSocket:
        connection = self._sockets.get(address)
        if connection is None:
            timeout_s = self._options.connection.timeout_s
            tls = self._options.connection.tls
            connection = (
                self.plain_socket(address, self._hooks, timeout_s)
                if tls is None
                else EncryptedSocket(address, self._hooks, timeout_s, tls)
            )
            self._sockets[address] = connection
        return connection

    def _disconnect(self, address: str) -> None:
        """What was on its way there is sent again when its turn comes."""
        connection = self._sockets.pop(address, None)
        if connection is not None:
            connection.close()
        for batch in self._under_way:
            if batch.address == address and batch.opaque not in self._answers:
                batch.is_doubtful |= batch.opaque is not None
                batch.opaque = None

    def _clear_doubt(self, attempt: Attempt, topic: str, broker_name: str) -> None:
        """Find out which of the batches in doubt were stored; what was not is to be sent."""
        stored = attempt.stored(topic, broker_name)
        for batch in [*self._under_way, *self._waited_for]:
            queue = batch.queue
            if batch.is_doubtful and (queue.topic, queue.broker_name) == (topic, broker_name):
                left = [part for key, part in keyed_parts(batch.body) if key not in stored]
                batch.body, batch.count = b"".join(left), len(left)
                batch.is_doubtful, batch.is_taken = False, not left

    def _encoded(self, batch: Batch) -> Command:
        code, properties, flag, body = RequestCode.SEND_BATCH_MESSAGE, "", 0, batch.body
        if batch.delay_level > 0:
            ((flag, part, raw),) = split_batch(body)
            code, body = RequestCode.SEND_MESSAGE_V2, bytes(part)
            level = str(batch.delay_level).encode()
            properties = append_property(bytes(raw), PropertyName.DELAY.encode(), level).decode()
        header = SendMessageV2(
            producer_group=wrap_namespace(self._namespace, self._options.producer_group),
            topic=batch.queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=NEW_TOPIC_QUEUES,
            queue_id=batch.queue.queue_id,
            sys_flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=code == RequestCode.SEND_BATCH_MESSAGE,
            broker_name=batch.queue.broker_name,
        )
        return Command.request(header, body, code=code)

    # Routes, on the loop

    async def _queues(self, topic: str) -> tuple[MessageQueue, ...]:
        try:
            queues = (await self._client.routes.publish_info(topic)).queues
        except NoRoute as error:
            if (await self._client.api.cluster_info()).broker_addr_table:
                raise  # there are brokers, and none of them has this topic or makes it
            raise NobodyThere(str(error)) from error
        self._note_masters(queues)
        return queues

    async def _redirect(self, batch: Batch) -> None:
        """Ask where the queue is now, and choose another one if it may be."""
        queue = batch.queue
        queues = await self._refresh(queue)
        # Where rows must not come twice, a batch stays where somebody can look for it.
        if queues and not batch.is_fixed and self._attempt is None:
            others = [each for each in queues if each.broker_name != queue.broker_name]
            among = others or queues
            batch.queue = among[time.monotonic_ns() // 1_000_000 % len(among)]

    async def _refresh(self, queue: MessageQueue) -> tuple[MessageQueue, ...]:
        """The queues of that topic as they are now."""
        try:
            await self._client.routes.refresh(queue.topic)
        except RocketqError as error:
            logger.info("no new route to %s: %s", queue.topic, error)
        known = self._client.routes.known_publish_info(queue.topic)
        queues = () if known is None else known.queues
        self._note_masters((queue, *queues))
        return queues

    def _note_masters(self, queues: tuple[MessageQueue, ...]) -> None:
        for name in {queue.broker_name for queue in queues}:
            self._masters[name] = self._client.routes.master(name)

"""Pulls an offset range of one queue, ahead of whoever uses it.

The next request is always under way while the last answer is being worked on. A rocketq broker
answers with as many bytes as it is asked for, so one request after another keeps it busy. A
Java broker answers with 32 messages at a time whatever it is asked: there the range is cut into
tiles of the size it gives, and many tiles are asked for at once.

    asked    [---------- until the end ----------]       one request, continued where it ended
    asked    [--][--][--][--][--][--]                    tiles, answers in any order
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from rocketq.client.cluster.routes import BrokerAddress
from rocketq.client.cluster.rpc import PullResponse, rejected
from rocketq.client.cluster.signing import signing_hooks
from rocketq.client.errors import ClientError, NoRoute
from rocketq.common.buffers import Buffer
from rocketq.common.errors import RocketqError
from rocketq.message.flags import PullFlag
from rocketq.message.names import TOOLS_CONSUMER_GROUP, wrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers import PullMessage
from rocketq.remoting.wire.command import Command
from rocketq.spark.options import SourceOptions
from rocketq.spark.read.data_loss import DataLoss, raise_or_warn
from rocketq.spark.wire.broker_socket import BrokerSocket, EncryptedSocket
from rocketq.spark.wire.client import client_config
from rocketq.spark.wire.retry import Retry

logger = logging.getLogger(__name__)

_MESSAGES_ASKED_FOR: Final = 16_384
_SMALL_ANSWER: Final = 64
"""A broker that gives no more than this while there is more has a limit of its own."""
_TILES_UNDER_WAY: Final = 24
_OFFSET_RESET: Final = "OFFSET_RESET"
_LEADS_ON: Final = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
_ANSWERS: Final = (*_LEADS_ON, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)


@dataclass(slots=True)
class _Asked:
    """A request under way: messages from `offset` on, wanted up to `until`."""

    offset: int
    until: int
    opaque: int | None = None  # of the request, once it is sent


class RangePull:
    """The messages of one queue from `start` to `end`, as the broker stores them."""

    def __init__(
        self,
        find_broker: Callable[[], BrokerAddress],
        options: SourceOptions,
        queue: MessageQueue,
        start: int,
        end: int,
    ) -> None:
        """`find_broker` asks the NameServers where the queue is now."""
        self._find_broker = find_broker
        self._options = options
        self._queue = queue
        self._start = start  # what is below was told to be lost
        self._end = end
        self._hooks = signing_hooks(client_config(options.connection))
        self._asked: deque[_Asked] = deque()
        self._answers: dict[int, Command] = {}  # those that came before their turn
        self._connection: BrokerSocket | None = None
        self._is_slave = False

    def bodies(self) -> Iterator[tuple[Buffer, int, int]]:
        """Records in order, with the offsets they are wanted for: neighbours may be in them."""
        try:
            yield from self._bodies()
        finally:
            self._disconnect()

    def _bodies(self) -> Iterator[tuple[Buffer, int, int]]:
        at, tile = self._end, 0  # what is behind `at` is still to be cut into tiles
        if self._start < self._end:
            self._asked.append(_Asked(self._start, self._end))
        is_first = True
        while self._asked:
            asked = self._asked[0]
            answer = self._answer(asked)
            self._asked.popleft()
            found = answer.next_offset - asked.offset
            if is_first and self._is_small(answer, found) and answer.next_offset < self._end:
                at, tile = answer.next_offset, max(found, 1)
                asked.until = at
            is_first = False
            if answer.next_offset < min(asked.until, self._end):
                self._asked.appendleft(_Asked(answer.next_offset, asked.until))
            while at < self._end and len(self._asked) < _TILES_UNDER_WAY:
                self._asked.append(_Asked(at, min(at + tile, self._end)))
                at += tile
            self._send_new()
            if len(answer.body):
                yield answer.body, asked.offset, min(answer.next_offset, asked.until)

    def _is_small(self, answer: PullResponse, found: int) -> bool:
        return found <= _SMALL_ANSWER and len(answer.body) < self._options.pull_bytes // 2

    # One answer

    def _answer(self, asked: _Asked) -> PullResponse:
        """The answer to a request, however often it takes within the time for that."""
        retry = Retry(self._options.connection.retry_within_s)
        while True:
            try:
                return self._checked(asked, self._received(asked))
            except RocketqError as error:
                # The driver has found the topic: when nobody serves it now, somebody will.
                retry.wait(error, is_passing=isinstance(error, NoRoute))
                self._disconnect()

    def _received(self, asked: _Asked) -> PullResponse:
        if asked.opaque is None:
            self._connect()
            self._send(asked)
        connection, opaque = self._connection, asked.opaque
        assert connection is not None
        assert opaque is not None
        while (answer := self._answers.pop(opaque, None)) is None:
            received = connection.receive()
            self._answers[received.opaque] = received
        if answer.code not in _ANSWERS:
            raise rejected(answer, connection.address, RequestCode.PULL_MESSAGE)
        ext = answer.ext_fields
        response = PullResponse(
            answer.code,
            int(ext["nextBeginOffset"]),
            int(ext["minOffset"]),
            int(ext["maxOffset"]),
            int(ext["suggestWhichBrokerId"]),
            answer.body,
            answer.remark or "",
        )
        if response.code == ResponseCode.PULL_OFFSET_MOVED and response.remark == _OFFSET_RESET:
            # Somebody has set the group's offset, and the broker says so once. What is read
            # here is not a matter of the group.
            asked.opaque = None
            return self._received(asked)
        if self._is_slave and response.code not in _LEADS_ON:
            raise SlaveBehind(self._queue, asked.offset)
        return response

    def _checked(self, asked: _Asked, answer: PullResponse) -> PullResponse:
        """The answer, if it leads on; what is missing is reported or passed over."""
        offset = asked.offset
        if answer.code == ResponseCode.SUCCESS and answer.next_offset > offset:
            return answer
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and answer.next_offset > offset:
            return answer._replace(body=b"")
        if answer.code == ResponseCode.PULL_OFFSET_MOVED and answer.next_offset > offset:
            until = min(answer.next_offset, self._end)
            if until > self._start:
                start = max(offset, self._start)
                self._lost(start, until, f"the queue now begins at {answer.min_offset}")
                self._start = until
            return answer._replace(body=b"")
        if offset < self._end:
            self._lost(offset, self._end, f"the queue now ends at {answer.max_offset}")
            self._end = offset
        return answer._replace(body=b"", next_offset=asked.until)

    def _lost(self, start: int, end: int, why: str) -> None:
        """Say it once: of many requests under way, all find the same gap."""
        raise_or_warn(DataLoss(self._queue, start, end, why), fails=self._options.fail_on_data_loss)

    # The connection

    def _connect(self) -> None:
        if self._connection is None:
            broker = self._find_broker()
            timeout_s = self._options.connection.timeout_s
            tls = self._options.connection.tls
            self._connection = (
                BrokerSocket(broker.address, self._hooks, timeout_s)
                if tls is None
                else EncryptedSocket(broker.address, self._hooks, timeout_s, tls)
            )
            self._is_slave = broker.is_slave

    def _disconnect(self) -> None:
        """Forget the connection and what was on its way; it is asked for again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._answers.clear()
        for asked in self._asked:
            asked.opaque = None

    def _send_new(self) -> None:
        """Send what has not been sent, ahead of its turn; a failure shows when it is waited for."""
        try:
            for asked in self._asked:
                if asked.opaque is None and self._connection is not None:
                    self._send(asked)
        except RocketqError as error:
            logger.info("%s: %s", self._queue, error)
            self._disconnect()

    def _send(self, asked: _Asked) -> None:
        sql, namespace = self._options.sql, self._options.connection.namespace
        header = PullMessage(
            consumer_group=wrap_namespace(namespace, self._options.group or TOOLS_CONSUMER_GROUP),
            topic=self._queue.topic,
            queue_id=self._queue.queue_id,
            queue_offset=asked.offset,
            max_msg_nums=min(asked.until - asked.offset, _MESSAGES_ASKED_FOR),
            sys_flag=PullFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=self._options.tags if sql is None else sql,
            sub_version=0,
            expression_type="TAG" if sql is None else "SQL92",
            max_msg_bytes=self._options.pull_bytes,
            broker_name=self._queue.broker_name,
        )
        request = Command.request(header)
        assert self._connection is not None
        self._connection.send(request)
        asked.opaque = request.opaque


class BrokerAway(ClientError):
    """The broker of a queue has left the route."""

    retriable = True

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(
            f"broker {queue.broker_name!r} is out of reach, so queue {queue.queue_id} of topic "
            f"{queue.topic!r} waits"
        )


class SlaveBehind(ClientError):
    """The master is away, and its slave does not have the message yet."""

    retriable = True

    def __init__(self, queue: MessageQueue, offset: int) -> None:
        super().__init__(
            f"the slave of {queue.broker_name!r} does not have message {offset} of topic "
            f"{queue.topic!r}, queue {queue.queue_id} yet"
        )

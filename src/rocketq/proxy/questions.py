"""What brokers ask of clients, passed on over Telemetry.

    CHECK_TRANSACTION_STATE     what became of a half message: a command to some producer of its
                                topic, whose answer is an EndTransaction
    GET_CONSUMER_RUNNING_INFO   a stack trace, where one is wanted
    CONSUME_MESSAGE_DIRECTLY    a message to consume, and how that went

The last two are answered with a number on them.
"""

import asyncio
import itertools
import logging
from typing import Any, Final

from rocketq.common.clock import Clock
from rocketq.message.message import MessageExt
from rocketq.message.properties.codec import PropertyName
from rocketq.message.record.reader import decode_record
from rocketq.proxy.adapter.handles import TransactionHandle
from rocketq.proxy.adapter.incoming import grpc_message
from rocketq.proxy.cluster import Cluster
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.sessions import Session, Sessions
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketq.remoting.headers.to_client import ConsumeMessageDirectly, GetConsumerRunningInfo
from rocketq.remoting.headers.transaction import CheckTransactionState

logger = logging.getLogger(__name__)

_TRIES: Final = 3
_RESULTS: Final = {
    pb.OK: "CR_SUCCESS",
    pb.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    pb.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}


class Questions:
    """For one proxy. Belongs to the event loop."""

    def __init__(self, config: ProxyConfig, sessions: Sessions, clock: Clock) -> None:
        self._config = config
        self._sessions = sessions
        self._clock = clock
        self._cluster: Cluster | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._turn = 0

    def ask_through(self, cluster: Cluster) -> None:
        """Whose brokers ask."""
        self._cluster = cluster

    def handlers(self) -> Handlers:
        return {
            RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            # Members of a group share its queues by popping: nobody has to be told.
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: lambda request, connection: None,
        }

    # Transactions

    def _check_transaction(self, request: Command, connection: Connection) -> None:
        header = request.header(CheckTransactionState)
        record = decode_record(bytes(request.body))
        broker_name = header.broker_name or self._broker_at(connection)
        message_id = record.get_property(PropertyName.UNIQUE_KEY) or header.msg_id or ""
        if not broker_name or not message_id:
            logger.warning("a question about a transaction that names no broker or message")
            return
        handle = TransactionHandle(
            broker_name,
            header.tran_state_table_offset,
            header.commit_log_offset,
            message_id,
            was_asked=True,
        )
        topic = record.get_property(PropertyName.PRODUCER_GROUP) or record.topic
        command = pb.TelemetryCommand()
        recover = command.recover_orphaned_transaction_command
        recover.message.CopyFrom(grpc_message(record, record.topic, self._clock.now_ms()))
        recover.transaction_id = handle.encode()
        if not self._tell_a_producer(connection.attributes.get("client_id"), topic, command):
            logger.info("no producer of %s is there to decide %s", topic, message_id)

    def _tell_a_producer(self, client_id: str | None, topic: str, command: Any) -> bool:
        """The one whose connection was chosen, else any other of the topic."""
        asked = self._sessions.get(client_id) if client_id is not None else None
        if asked is not None and asked.send(command):
            return True
        producers = self._sessions.producers(topic)
        self._turn += 1
        for number in range(min(_TRIES, len(producers))):
            if producers[(self._turn + number) % len(producers)].send(command):
                return True
        return False

    def _broker_at(self, connection: Connection) -> str:
        if self._cluster is None:
            return ""
        if self._cluster.own is not None and "client_id" in connection.attributes:
            return self._cluster.own.name
        for name, address in self._cluster.masters.items():
            if address == connection.peer_address:
                return name
        return ""

    # Questions with a number

    async def _running_info(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetConsumerRunningInfo)
        session = self._session(connection, header.client_id)
        if not header.jstack_enable:
            info = ConsumerRunningInfo(
                properties={
                    "PROP_CLIENT_VERSION": session.settings.user_agent.version,
                    "PROP_CONSUME_TYPE": "CONSUME_POP",
                }
            )
            return request.reply(body=info.encode())
        command = pb.TelemetryCommand()
        number = self._number()
        command.print_thread_stack_trace_command.nonce = number
        answer = await self._answer(session, command, number)
        trace = answer.thread_stack_trace.thread_stack_trace
        return request.reply(body=ConsumerRunningInfo(jstack=trace).encode())

    async def _consume_directly(self, request: Command, connection: Connection) -> Command:
        header = request.header(ConsumeMessageDirectly)
        session = self._session(connection, header.client_id or "")
        record: MessageExt = decode_record(bytes(request.body))
        command = pb.TelemetryCommand()
        number = self._number()
        command.verify_message_command.nonce = number
        command.verify_message_command.message.CopyFrom(
            grpc_message(record, record.topic, self._clock.now_ms())
        )
        began = self._clock.monotonic()
        answer = await self._answer(session, command, number)
        result = ConsumeMessageDirectlyResult(
            consume_result=_RESULTS.get(answer.status.code, "CR_THROW_EXCEPTION"),
            remark="from gRPC client",
            spent_time_mills=round((self._clock.monotonic() - began) * 1000),
        )
        return request.reply(body=result.encode())

    def _session(self, connection: Connection, client_id: str) -> Session:
        known = connection.attributes.get("client_id") or client_id
        session = self._sessions.get(known)
        if session is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"client {known} is not there")
        return session

    def _number(self) -> str:
        return str(next(self._numbers))

    async def _answer(self, session: Session, command: Any, number: str) -> Any:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            if not session.send(command):
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR, f"client {session.client_id} cannot be reached"
                )
            async with asyncio.timeout(self._config.grpc_proxy_relay_request_timeout_in_seconds):
                return await waiting
        except TimeoutError:
            raise RequestRejected(
                ResponseCode.SYSTEM_BUSY, f"client {session.client_id} does not answer"
            ) from None
        finally:
            del self._waiting[number]

    def answered(self, command: Any) -> None:
        """A client answers; what nobody asked is passed over."""
        kind = command.WhichOneof("command")
        waiting = self._waiting.get(getattr(command, kind).nonce)
        if waiting is not None and not waiting.done():
            waiting.set_result(command)

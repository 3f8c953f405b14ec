"""Transactional sends: a message and a local transaction succeed or fail together.

    producer                          broker
    send half message   ────▶         stored, not visible
    run the local transaction
    commit or roll back ────▶         made visible, or dropped
                        ◀────         nothing heard for a while? check the transaction
    answer              ────▶

The local transaction and the check are functions of the application, `async` or plain;
plain ones run in a thread. Both return a `TransactionState`; None, or an exception, means
that it is not known yet, and the broker will ask again. Any producer of the group may be
asked, so the check must look where all of them can see (a database, not a variable).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, Unpack

from rocketq.client.callbacks import check_takes, comes_from_outside, tell
from rocketq.client.errors import InvalidSettings, MissingListener
from rocketq.client.hooks import EndTransactionContext
from rocketq.client.options import explained_by
from rocketq.client.producer.options import ProducerConfig, ProducerOptions
from rocketq.client.producer.producer import Producer
from rocketq.client.producer.result import SendResult, SendStatus
from rocketq.common.errors import RocketqError
from rocketq.message.flags import SysFlag
from rocketq.message.ids import parse_offset_message_id
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import unwrap_namespace, wrap_namespace
from rocketq.message.properties.codec import PropertyName
from rocketq.remoting.headers import CheckTransactionState, EndTransaction

logger = logging.getLogger(__name__)

_CHECKS_AT_A_TIME: Final = 32
_CHECKS_WAITING: Final = 2000


class TransactionState(Enum):
    """What became of a local transaction."""

    COMMIT = SysFlag.TRANSACTION_COMMIT
    ROLLBACK = SysFlag.TRANSACTION_ROLLBACK
    UNKNOWN = SysFlag.TRANSACTION_NONE
    """Not known yet: the broker will ask again."""

    @property
    def wire_name(self) -> str:
        """As RocketMQ's traces spell it."""
        return {"COMMIT": "COMMIT_MESSAGE", "ROLLBACK": "ROLLBACK_MESSAGE"}.get(self.name, "UNKNOW")


Outcome: TypeAlias = TransactionState | None
LocalTransaction: TypeAlias = Callable[[Message, Any], Outcome | Awaitable[Outcome]]
TransactionCheck: TypeAlias = Callable[[MessageExt], Outcome | Awaitable[Outcome]]

L = TypeVar("L", bound=LocalTransaction)
C = TypeVar("C", bound=TransactionCheck)


class TransactionSendResult(SendResult):
    """The receipt of a half message, and what was decided about it."""

    __slots__ = ("state",)

    def __init__(self, sent: SendResult, transaction_id: str, state: TransactionState) -> None:
        super().__init__(
            sent.status,
            sent.msg_id,
            sent.offset_msg_id,
            sent.queue,
            sent.queue_offset,
            transaction_id=transaction_id,
            region_id=sent.region_id,
            trace_on=sent.trace_on,
        )
        self.state = state


class HalfMessage(NamedTuple):
    """A message stored at a broker and not yet decided about."""

    message: Message
    wire_topic: str
    sent: SendResult

    @property
    def is_safe(self) -> bool:
        """Whether the local transaction may run; otherwise roll it back."""
        return self.sent.status is SendStatus.SEND_OK


class TransactionProducer(Producer):
    """A producer whose messages become visible when a local transaction commits.

    producer = TransactionProducer("orders", namesrv="127.0.0.1:9876")

    @producer.on_execute
    async def pay(message: Message, order: Order) -> TransactionState:
        await database.execute(...)
        return TransactionState.COMMIT

    @producer.on_check
    async def paid(message: MessageExt) -> TransactionState:
        known = await database.find(message.msg_id)
        return TransactionState.COMMIT if known else TransactionState.UNKNOWN
    """

    @explained_by(ProducerConfig)
    def __init__(
        self,
        group: str,
        *,
        execute: LocalTransaction | None = None,
        check: TransactionCheck | None = None,
        topics: Iterable[str] = (),
        threads: int = 8,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Make a producer; nothing is sent before `start`.

        group: names the application; brokers ask any of its members about transactions.
        execute: the local transaction; or use the decorator `on_execute`.
        check: looks up what became of a transaction; or use the decorator `on_check`.
        topics: whose brokers may ask before anything is sent, beside those that create topics.
        threads: how many plain functions may run at a time.
        """
        super().__init__(group, **options)
        if threads < 1:
            raise InvalidSettings(f"threads must be at least 1, not {threads}")
        if isinstance(topics, str):
            topics = (topics,)
        namespace = self.config.namespace
        self._announced = {
            self.config.template_topic,
            *(wrap_namespace(namespace, topic) for topic in topics),
        }
        self._execute: LocalTransaction | None = None
        self._check: TransactionCheck | None = None
        if execute is not None:
            self.on_execute(execute)
        if check is not None:
            self.on_check(check)
        self._threads = ThreadPoolExecutor(threads, "rocketq-transaction")
        self._checks: set[asyncio.Task[None]] = set()
        self._check_places = asyncio.Semaphore(_CHECKS_AT_A_TIME)

    def on_execute(self, function: L) -> L:
        """Decorator: the local transaction, called with (message, argument)."""
        check_takes(function, "message", "argument", what="a local transaction")
        self._execute = function
        return function

    def on_check(self, function: C) -> C:
        """Decorator: looks up what became of a message's transaction."""
        check_takes(function, "message", what="a transaction check")
        self._check = function
        return function

    def announced_topics(self) -> Iterable[str]:
        """Whose brokers have to know of this producer: they may ask what an earlier one left."""
        return self._announced

    async def start(self) -> None:
        """Get ready; brokers must know the group before they can ask it."""
        if self._check is None:
            raise MissingListener(
                f"{self} needs a check (check=..., or @producer.on_check): brokers ask it about "
                "transactions whose end they did not hear of"
            )
        await super().start()

    async def close(self) -> None:
        """Finish checks under way, then as every producer."""
        if self._checks:
            await asyncio.wait(list(self._checks))
        await super().close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def send_in_transaction(
        self,
        message: Message,
        argument: Any = None,
        *,
        execute: LocalTransaction | None = None,
        timeout_s: float | None = None,
    ) -> TransactionSendResult:
        """Send a half message, run the local transaction, settle the message.

        The message gets its unique key (`message.unique_key`, the transaction id) before the
        transaction runs, so that it can be written down with it. When the half message
        cannot be sent safely, the transaction is not run and the message is rolled back.
        """
        local = self.local_transaction(execute)
        half = await self.send_half(message, timeout_s=timeout_s)
        if half.is_safe:
            state, failure = await self._outcome(local, message, argument)
        else:
            state, failure = TransactionState.ROLLBACK, None
        return await self.settle(half, state, failure=failure)

    async def send_half(self, message: Message, *, timeout_s: float | None = None) -> HalfMessage:
        """The first step alone: a message stored, and visible to nobody before `settle`."""
        self._started()
        half = Message.of(message.topic, message.body, dict(message.properties), message.flag)
        half.delay_level = 0
        half.properties[PropertyName.TRANSACTION_PREPARED] = "true"
        half.properties[PropertyName.PRODUCER_GROUP] = self.group
        outgoing = self._preparation.single(half)
        message.unique_key = outgoing.msg_id
        # Before the broker can ask about a message it has to know whom to ask.
        await self._introduce(outgoing.topic)
        sent = await self._sender.start(outgoing, None, timeout_s)
        if sent.status is not SendStatus.SEND_OK:
            logger.warning("half message %s is not safe: %s", sent.msg_id, sent.status.name)
        return HalfMessage(message, outgoing.topic, sent)

    async def settle(
        self, half: HalfMessage, state: TransactionState, *, failure: str | None = None
    ) -> TransactionSendResult:
        """The last step alone: make a half message visible, or drop it."""
        sent = half.sent
        transaction_id = sent.transaction_id or sent.msg_id
        _, _, physical_offset = parse_offset_message_id(sent.offset_msg_id)
        header = EndTransaction(
            producer_group=self.group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=state.value,
            msg_id=sent.msg_id,
            transaction_id=transaction_id,
            topic=half.wire_topic,
            broker_name=sent.queue.broker_name,
        )
        address = self._started().routes.master(sent.queue.broker_name)
        await self._tell(address, header, state, half.message, failure)
        return TransactionSendResult(sent, transaction_id, state)

    def local_transaction(self, execute: LocalTransaction | None) -> LocalTransaction:
        """The function to run: the one given, or the one registered."""
        local = execute or self._execute
        if local is None:
            raise MissingListener(
                f"{self} has no local transaction: pass execute=..., or use @producer.on_execute"
            )
        return local

    # Checks

    def check_transaction(
        self, header: CheckTransactionState, message: MessageExt, address: str
    ) -> None:
        """A broker asks: look it up, in the background, and answer that broker."""
        if len(self._checks) >= _CHECKS_WAITING:
            logger.warning("too many transaction checks at a time: %s is left", message.msg_id)
            return
        task = asyncio.create_task(self._answer_check(header, message, address))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _answer_check(
        self, header: CheckTransactionState, message: MessageExt, address: str
    ) -> None:
        assert self._check is not None
        message.topic = unwrap_namespace(self.config.namespace, message.topic)
        try:
            async with self._check_places:
                state, failure = await self._outcome(self._check, message)
        except BaseException as error:
            if comes_from_outside(error):
                raise
            logger.exception("the check of transaction %s failed", header.transaction_id)
            state, failure = TransactionState.UNKNOWN, repr(error)
        answer = EndTransaction(
            producer_group=self.group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=state.value,
            from_transaction_check=True,
            msg_id=message.unique_key or header.msg_id or "",
            transaction_id=header.transaction_id,
            topic=message.topic,
            broker_name=header.broker_name,
        )
        await self._tell(address, answer, state, message, failure)

    # Inside

    async def _outcome(
        self, function: Callable[..., Any], *arguments: Any
    ) -> tuple[TransactionState, str | None]:
        """Run a function of the application; what it says, and its failure if it fails."""
        try:
            if inspect.iscoroutinefunction(function):
                state = await function(*arguments)
            else:
                loop = asyncio.get_running_loop()
                state = await loop.run_in_executor(self._threads, function, *arguments)
                if inspect.isawaitable(state):
                    state = await state
        except (Exception, asyncio.CancelledError) as error:
            if comes_from_outside(error):
                raise
            logger.exception("a transaction's outcome is not known")
            return TransactionState.UNKNOWN, f"{type(error).__name__}: {error}"
        if state is None:
            return TransactionState.UNKNOWN, None
        if not isinstance(state, TransactionState):
            logger.error("a transaction returned %r, which is no TransactionState", state)
            return TransactionState.UNKNOWN, f"returned {state!r}"
        return state, None

    async def _tell(
        self,
        address: str | None,
        header: EndTransaction,
        state: TransactionState,
        message: Message,
        failure: str | None,
    ) -> None:
        """Tell the broker; when that fails it will ask."""
        instance = self._instance
        assert instance is not None
        try:
            if address is None:
                raise RocketqError(f"the address of broker {header.broker_name} is not known")
            await instance.api.end_transaction(address, header, remark=failure)
        except RocketqError as error:
            logger.warning("transaction %s not settled yet: %s", header.msg_id, error)
            return
        context = EndTransactionContext(
            group=self.group,
            message=message,
            address=address,
            msg_id=header.msg_id,
            transaction_id=header.transaction_id or "",
            state=state.wire_name,
            from_check=header.from_transaction_check,
            namespace=self.config.namespace,
        )
        hooks = list(self.config.end_transaction_hooks)
        if self._trace is not None:
            hooks.append(self._trace.end_transaction)
        for hook in hooks:
            tell("an end-transaction hook failed", hook, context)

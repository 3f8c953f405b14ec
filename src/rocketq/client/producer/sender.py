"""Gets one request's worth of messages to a broker: attempts, retries, one time budget.

The common case takes the short way (`send_path.py`), without a task. Whatever is out of the
ordinary (route not known, connection not open, a hook that wants to look, a failed attempt)
is done step by step in a task here.

All attempts share `send_timeout_s`. A failed attempt is followed by one on another broker;
what a broker refuses for good is raised at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.routes import PublishInfo
from rocketq.client.cluster.rpc import rejected
from rocketq.client.errors import BrokerUnknown, ClientError, SendFailed, SendTimeout
from rocketq.client.hooks import SendContext, SendHook, run_after, run_before
from rocketq.client.producer.latency_faults import LatencyFaults
from rocketq.client.producer.options import ProducerConfig
from rocketq.client.producer.outgoing import Outgoing
from rocketq.client.producer.quick_send import Lane, QuickSend, Ring, SendPath
from rocketq.client.producer.result import SendResult, SendStatus
from rocketq.client.producer.selectors import QueueRotation
from rocketq.client.producer.send_frames import SendTemplate
from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.common.errors import RocketqError
from rocketq.message.ids import UniqueIds
from rocketq.message.message import Message
from rocketq.message.names import unwrap_namespace
from rocketq.message.properties.codec import decode_properties
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.errors import ConnectFailed, ConnectionLost, RequestTimeout
from rocketq.remoting.headers import SendMessageV2
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.frame import FrameSplitter

logger = logging.getLogger(__name__)

QueueChoice: TypeAlias = Callable[[PublishInfo], MessageQueue]

_STATUS = {status.value: status for status in SendStatus}
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5


class NotStored(ClientError):
    """A broker took the message, but less safely than it should (with retry_when_not_stored)."""

    retriable = True

    def __init__(self, result: SendResult) -> None:
        super().__init__(f"the broker answered {result.status.name}")
        self.result = result


class Sending:
    """One send through all its attempts."""

    __slots__ = (
        "budget_s",
        "choice",
        "deadline",
        "failures",
        "outgoing",
        "pause_s",
        "retries",
    )

    def __init__(
        self, outgoing: Outgoing, choice: QueueChoice | None, budget_s: float, deadline: float
    ) -> None:
        self.outgoing = outgoing
        self.choice = choice
        self.budget_s = budget_s
        self.deadline = deadline
        self.failures: list[tuple[str, RocketqError]] = []
        self.retries = 0
        self.pause_s = _FIRST_PAUSE_S


class Delivery:
    """The way from a producer to the brokers. Belongs to one producer."""

    def __init__(
        self, instance: ClientInstance, config: ProducerConfig, group: str, ids: UniqueIds
    ) -> None:
        self._instance = instance
        self._config = config
        self._group = group
        self.loop = asyncio.get_running_loop()
        self._faults = LatencyFaults(clock=instance.clock) if config.avoid_slow_brokers else None
        self._rotation = QueueRotation(faults=self._faults)
        self._hooks = list(config.send_hooks)
        self._filters = tuple(config.send_filters)
        self._lanes: dict[tuple[MessageQueue, int], Lane] = {}
        largest = config.max_message_size + 1
        compressed = largest if config.compress_above is None else config.compress_above
        self.path = SendPath(
            self, ids, budget_s=config.send_timeout_s, plain_below=min(largest, compressed)
        )
        # The short way shows nobody anything, and looks at no clock but the system's.
        self._is_watched = (
            bool(self._hooks or self._filters or self._faults or config.attempt_timeout_s)
            or instance.clock is not SYSTEM_CLOCK
        )
        self.close = instance.routes.on_change(self._routes_changed)

    @property
    def pending(self) -> set[asyncio.Future[SendResult]]:
        """Sends that have not come to their end."""
        return self.path.pending

    def add_hook(self, hook: SendHook) -> None:
        """Show another hook every send from now on."""
        self._hooks.append(hook)
        self._is_watched = True
        self.path.close()

    def _routes_changed(self, topic: str) -> None:
        self._lanes.clear()
        self.path.close()

    # ----------------------------------------------------------- the short way

    def start(
        self, outgoing: Outgoing, choice: QueueChoice | None, timeout_s: float | None
    ) -> asyncio.Future[SendResult]:
        """Send; the future gets the result, or the error that ended all attempts."""
        budget_s = self._config.send_timeout_s if timeout_s is None else timeout_s
        sending = Sending(outgoing, choice, budget_s, self.loop.time() + budget_s)
        if not self._is_watched and timeout_s is None:
            future = self._start_quickly(sending)
            if future is not None:
                return future
        task = self.loop.create_task(self._attempts(sending))
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)
        return task

    def _start_quickly(self, sending: Sending) -> asyncio.Future[SendResult] | None:
        outgoing = sending.outgoing
        info = self._instance.routes.known_publish_info(outgoing.topic)
        if info is None or not info.queues or info.borrowed:
            return None
        lane = self._lane(self._choose(sending, info), outgoing.code)
        if lane is None:
            return None
        if sending.choice is None and outgoing.code == RequestCode.SEND_MESSAGE_V2:
            self._open_path(outgoing.message.topic, info)
        return self.path.start(
            lane,
            outgoing.message.topic,
            outgoing.body,
            outgoing.properties,
            outgoing.sys_flag,
            outgoing.flag,
            outgoing.born_ms,
            outgoing.msg_id,
            sending.choice,
        )

    def _open_path(self, topic: str, info: PublishInfo) -> None:
        """Let a topic's further messages take the short way, if all its lanes are open."""
        lanes = []
        for queue in info.queues:
            lane = self._lane(queue, RequestCode.SEND_MESSAGE_V2)
            if lane is None:
                return
            lanes.append(lane)
        self.path.open(topic, Ring(lanes, self._rotation.turn_of(info.topic)))

    def _lane(self, queue: MessageQueue, code: int) -> Lane | None:
        """The open way to a queue; None where one has to wait for it."""
        lane = self._lanes.get((queue, code))
        if lane is not None and not lane.connection.is_closing:
            return lane
        address = self._instance.routes.master(queue.broker_name)
        if address is None:
            return None
        if self._config.vip_channel:
            address = vip_address(address)
        connection = self._instance.remoting.connection_to(address)
        if connection is None or connection.has_hooks:
            return None
        template = SendTemplate(
            code,
            self._group,
            queue.topic,
            self._config.template_topic,
            self._config.template_queues,
            queue.queue_id,
            queue.broker_name,
        )
        lane = self._lanes[queue, code] = Lane(connection, template, self._as_user_sees(queue))
        return lane

    def answered(self, quick: QuickSend, response: Command) -> None:
        """A quick send got an answer that is not simply yes, or one that nobody wants."""
        future = quick.future
        if future.done():
            self.pending.discard(future)
            return
        connection = quick.lane.connection
        try:
            result = send_result(
                quick.msg_id,
                quick.lane.queue,
                response,
                connection.peer_address,
                # A frame begins with two words and `{"code":310,`.
                int(quick.head[16:19]),
            )
            if self._config.retry_when_not_stored and not result.is_ok:
                raise NotStored(result)
        except RocketqError as error:
            self.go_on(quick, error)
            return
        self.pending.discard(future)
        future.set_result(result)

    def go_on(self, quick: QuickSend, error: RocketqError) -> None:
        """A quick send came to nothing: try again in a task, or give up."""
        future = quick.future
        if future.done() or not error.retriable:
            self.pending.discard(future)
            if not future.done():
                future.set_exception(error)
            return
        outgoing = outgoing_of(quick)
        sending = Sending(outgoing, quick.choice, self._config.send_timeout_s, quick.deadline)
        sending.failures.append((quick.lane.queue.broker_name, error))
        task = self.loop.create_task(self._attempts(sending))
        task.add_done_callback(lambda done: self._went_on(future, done))
        future.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)

    def _went_on(self, future: asyncio.Future[SendResult], done: asyncio.Task[SendResult]) -> None:
        self.pending.discard(future)
        if future.done():
            return
        if done.cancelled():
            future.cancel()
        elif (error := done.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    # ----------------------------------------------------------- step by step

    async def _attempts(self, sending: Sending) -> SendResult:
        """Try until it is done, refused, or there is no time or attempt left."""
        outgoing = sending.outgoing
        while True:
            if sending.failures and not await self._may_retry(sending):
                return self._given_up(sending)
            if self.loop.time() >= sending.deadline:
                return self._given_up(sending)
            info = await self._publish_info(sending)
            queue = self._choose(sending, info)
            try:
                result = await self._attempt(sending, queue)
                if self._config.retry_when_not_stored and not result.is_ok:
                    raise NotStored(result)
            except RocketqError as error:
                if not error.retriable:
                    raise
                logger.debug("send to %s failed: %s", queue, error)
                sending.failures.append((queue.broker_name, error))
                continue
            if info.borrowed:
                # This message has created the topic: its own route can be had now.
                self._instance.refresh_route_soon(outgoing.topic)
            return result

    async def _may_retry(self, sending: Sending) -> bool:
        """Whether another attempt is allowed after the last failure; waits if it should."""
        if self._config.retries == 0:
            return False
        broker_name, error = sending.failures[-1]
        if isinstance(error, ConnectFailed | BrokerUnknown):
            # Nothing was sent. Other brokers are tried at once; when there is none, this one
            # may come back while there is time.
            topic = sending.outgoing.topic
            self._instance.refresh_route_soon(topic)
            info = self._instance.routes.known_publish_info(topic)
            if info is None or all(queue.broker_name == broker_name for queue in info.queues):
                return await self._may_wait(sending)
        sending.retries += 1
        return sending.retries <= self._config.retries

    def _given_up(self, sending: Sending) -> SendResult:
        topic = sending.outgoing.message.topic
        if not sending.failures:
            raise SendTimeout(topic, sending.budget_s)
        _, error = sending.failures[-1]
        if isinstance(error, NotStored):
            return error.result
        elapsed_s = self.loop.time() - sending.deadline + sending.budget_s
        raise SendFailed(topic, sending.failures, elapsed_s) from error

    async def _attempt(self, sending: Sending, queue: MessageQueue) -> SendResult:
        outgoing = sending.outgoing
        address = self.address_of(queue.broker_name)
        began = self.loop.time()
        context = self._begin(outgoing, queue, address)
        try:
            request = self._request(outgoing, queue)
            reply = await self._instance.remoting.call(address, request, self._limit_s(sending))
            result = send_result(
                outgoing.msg_id, self._as_user_sees(queue), reply, address, outgoing.code
            )
        except RocketqError as error:
            if self._faults is not None:
                unreachable = isinstance(error, ConnectFailed | ConnectionLost | RequestTimeout)
                self._faults.failed(queue.broker_name, reachable=not unreachable)
            if context is not None:
                self._end(context, began, error=error)
            raise
        if self._faults is not None:
            self._faults.answered(queue.broker_name, (self.loop.time() - began) * 1000)
        if context is not None:
            self._end(context, began, result=result)
        return result

    async def send_oneway(self, outgoing: Outgoing, choice: QueueChoice | None) -> None:
        """Hand a message to the connection, and hope."""
        budget_s = self._config.send_timeout_s
        sending = Sending(outgoing, choice, budget_s, self.loop.time() + budget_s)
        info = await self._publish_info(sending)
        queue = self._choose(sending, info)
        address = self.address_of(queue.broker_name)
        request = self._request(outgoing, queue)
        context = self._begin(outgoing, queue, address)
        await self._instance.remoting.call_oneway(address, request)
        if info.borrowed:
            self._instance.refresh_route_soon(outgoing.topic)
        if context is not None:
            run_after(self._hooks, context)

    def _limit_s(self, sending: Sending) -> float:
        """How long this attempt may take."""
        limit_s = self._config.attempt_timeout_s
        if limit_s is None:
            return sending.deadline - self.loop.time() if sending.failures else sending.budget_s
        left_s = sending.deadline - self.loop.time()
        return min(left_s, limit_s) if sending.retries < self._config.retries else left_s

    # ---------------------------------------------------------------- queues

    async def _publish_info(self, sending: Sending) -> PublishInfo:
        """Where the topic's queues are; asks until it is known or the time is up."""
        topic = sending.outgoing.topic
        routes = self._instance.routes
        info = routes.known_publish_info(topic)
        if info is not None and info.queues:
            return info
        while True:
            try:
                async with asyncio.timeout_at(sending.deadline):
                    return await routes.publish_info(
                        topic,
                        template=self._config.template_topic,
                        template_queues=self._config.template_queues,
                    )
            except TimeoutError:
                raise SendTimeout(sending.outgoing.message.topic, sending.budget_s) from None
            except RocketqError as error:
                if not error.retriable or not await self._may_wait(sending):
                    raise

    async def _may_wait(self, sending: Sending) -> bool:
        """Wait a moment for somebody to come back; False when there is no time for it."""
        left_s = sending.deadline - self.loop.time()
        if self._config.retries == 0 or left_s <= sending.pause_s:
            return False
        await asyncio.sleep(sending.pause_s)
        sending.pause_s = min(sending.pause_s * 2, _LONGEST_PAUSE_S)
        return True

    def _choose(self, sending: Sending, info: PublishInfo) -> MessageQueue:
        choice = sending.choice
        if choice is not None:
            queue = choice(info)
            # The order of its messages hangs on the queue: a retry stays there.
            sending.choice = lambda info: queue
            return queue
        failures = sending.failures
        return self._rotation.next_queue(
            info.topic, info.queues, avoid_broker=failures[-1][0] if failures else None
        )

    def address_of(self, broker_name: str) -> str:
        """Where to send for a broker name."""
        address = self._instance.routes.master(broker_name)
        if address is None:
            raise BrokerUnknown(broker_name)
        return vip_address(address) if self._config.vip_channel else address

    def _as_user_sees(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=unwrap_namespace(self._config.namespace, queue.topic))

    def _request(self, outgoing: Outgoing, queue: MessageQueue) -> Command:
        header = SendMessageV2(
            producer_group=self._group,
            topic=outgoing.topic,
            default_topic=self._config.template_topic,
            default_topic_queue_nums=self._config.template_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=outgoing.born_ms,
            flag=outgoing.flag,
            properties=outgoing.properties.decode(),
            reconsume_times=0,
            unit_mode=False,
            batch=outgoing.code == RequestCode.SEND_BATCH_MESSAGE,
            broker_name=queue.broker_name,
        )
        return Command.request(header, outgoing.body, code=outgoing.code)

    # ----------------------------------------------------------------- hooks

    def _begin(self, outgoing: Outgoing, queue: MessageQueue, address: str) -> SendContext | None:
        if not self._hooks and not self._filters:
            return None
        context = SendContext(
            group=self._group,
            message=outgoing.message,
            queue=self._as_user_sees(queue),
            address=address,
            msg_id=outgoing.msg_id,
            body_size=len(outgoing.body),
            message_type=outgoing.message_type,
            namespace=self._config.namespace,
            began_ms=self._instance.clock.now_ms(),
        )
        for check in self._filters:
            check(context)
        run_before(self._hooks, context)
        return context

    def _end(
        self,
        context: SendContext,
        began: float,
        *,
        result: SendResult | None = None,
        error: BaseException | None = None,
    ) -> None:
        context.result = result
        context.error = error
        context.elapsed_ms = (self.loop.time() - began) * 1000
        run_after(self._hooks, context)


def outgoing_of(quick: QuickSend) -> Outgoing:
    """What a quick send was about, out of its frame."""
    (request,) = FrameSplitter().feed(quick.head + quick.body)
    header = request.header(SendMessageV2)
    properties = (header.properties or "").encode()
    return Outgoing(
        request.code,
        header.topic,
        quick.body,
        properties,
        message=Message.of(quick.topic, quick.body, decode_properties(properties), header.flag),
        msg_id=quick.msg_id,
        born_ms=header.born_timestamp,
        sys_flag=header.sys_flag,
        flag=header.flag,
    )


def send_result(
    msg_id: str,
    queue: MessageQueue,
    reply: Command,
    address: str,
    code: int,
) -> SendResult:
    """The broker's answer as a receipt; raises what it refused."""
    status = _STATUS.get(reply.code)
    if status is None:
        raise rejected(reply, address, code)
    ext = reply.ext_fields
    queue_id = int(ext.get("queueId", "0"))
    if queue_id != queue.queue_id:  # the broker chose
        queue = queue._replace(queue_id=queue_id)
    return SendResult(
        status,
        msg_id,
        ext.get("msgId", ""),
        queue,
        int(ext.get("queueOffset", "0")),
        transaction_id=ext.get("transactionId", ""),
        region_id=ext.get("MSG_REGION", ""),
        trace_on=ext.get("TRACE_ON") != "false",
        recall_handle=ext.get("recallHandle", ""),
    )


def vip_address(address: str) -> str:
    """The broker's second port, which serves no pulls."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"

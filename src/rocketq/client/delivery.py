"""Gets one request's worth of messages to a broker: attempts, retries, one time budget.

The common case takes no task: a queue is chosen, the frame written, and the answer completes
the caller's future. Whatever is out of the ordinary (route not known, connection not open,
a hook that wants to look, a failed attempt) goes on in a task that does the same step by step.

All attempts share `send_timeout_s`. A failed attempt is followed by one on another broker;
what a broker refuses for good is raised at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rocketq.client.api import rejected
from rocketq.client.errors import BrokerUnknown, SendFailed, SendTimeout
from rocketq.client.hooks import SendContext, run_after, run_before
from rocketq.client.instance import ClientInstance
from rocketq.client.latency_faults import LatencyFaults
from rocketq.client.outgoing import Outgoing
from rocketq.client.producer_config import ProducerConfig
from rocketq.client.routes import PublishInfo
from rocketq.client.selectors import QueueRotation
from rocketq.client.send_result import SendResult, SendStatus
from rocketq.common.errors import RocketqError
from rocketq.message.names import unwrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.command import Command
from rocketq.remoting.errors import ConnectFailed, ConnectionLost, RequestTimeout
from rocketq.remoting.headers import SendMessageResponse, SendMessageV2

logger = logging.getLogger(__name__)

QueueChoice = Callable[[PublishInfo], MessageQueue]

_STATUS = {status.value: status for status in SendStatus}
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5


class Delivery:
    """The way from a producer to the brokers. Belongs to one producer."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig, group: str) -> None:
        self._instance = instance
        self._config = config
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._faults = LatencyFaults(clock=instance.clock) if config.avoid_slow_brokers else None
        self._rotation = QueueRotation(faults=self._faults)
        self.hooks = list(config.send_hooks)
        self._filters = tuple(config.send_filters)
        self._tasks: set[asyncio.Task[SendResult]] = set()

    # ---------------------------------------------------------------- sending

    def start(
        self, outgoing: Outgoing, choice: QueueChoice | None, timeout_s: float | None
    ) -> asyncio.Future[SendResult]:
        """Send; the future gets the result, or the error that ended all attempts."""
        task = self._loop.create_task(self.send(outgoing, choice, timeout_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def send(
        self, outgoing: Outgoing, choice: QueueChoice | None, timeout_s: float | None
    ) -> SendResult:
        """Send, and wait for the answer."""
        budget_s = self._config.send_timeout_s if timeout_s is None else timeout_s
        return await self._attempts(outgoing, choice, budget_s)

    async def send_oneway(self, outgoing: Outgoing, choice: QueueChoice | None) -> None:
        """Hand a message to the connection, and hope."""
        info = await self._publish_info(outgoing.topic, self._config.send_timeout_s)
        queue = self._choose(info, choice, None)
        address = self.address_of(queue.broker_name)
        request = self._request(outgoing, queue)
        context = self._begin(outgoing, queue, address)
        await self._instance.remoting.call_oneway(address, request)
        if context is not None:
            run_after(self.hooks, context)

    async def _attempts(
        self, outgoing: Outgoing, choice: QueueChoice | None, budget_s: float
    ) -> SendResult:
        config = self._config
        began = self._loop.time()
        deadline = began + budget_s
        failures: list[tuple[str, BaseException]] = []
        counted = 0
        pause_s = _FIRST_PAUSE_S
        while True:
            left_s = deadline - self._loop.time()
            if left_s <= 0:
                break
            info = await self._publish_info(outgoing.topic, left_s)
            last_broker = failures[-1][0] if failures else None
            queue = self._choose(info, choice, last_broker)
            if choice is not None:
                # The order of its messages hangs on the queue: a retry stays there.
                choice = _always(queue)
            try:
                result = await self._attempt(outgoing, queue, deadline, counted)
            except RocketqError as error:
                if not error.retriable:
                    raise
                failures.append((queue.broker_name, error))
                logger.debug("send to %s failed: %s", queue, error)
            else:
                if info.borrowed:
                    # This message has created the topic: its own route can be had now.
                    self._refresh_soon(outgoing.topic)
                if result.is_ok or not config.retry_when_not_stored or counted >= config.retries:
                    return result
                failures.append((queue.broker_name, SendFailed(outgoing.topic, [], 0.0)))
            if config.retries == 0:
                break
            if isinstance(failures[-1][1], ConnectFailed | BrokerUnknown):
                # Nothing was sent. Other brokers are tried at once; when there is none, this
                # one may come back while there is time.
                self._refresh_soon(outgoing.topic)
                if not _has_other(info, queue.broker_name):
                    await asyncio.sleep(min(pause_s, max(deadline - self._loop.time(), 0)))
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                    continue
            counted += 1
            if counted > config.retries:
                break
        if not failures:
            raise SendTimeout(outgoing.message.topic, budget_s)
        raise SendFailed(outgoing.message.topic, failures, self._loop.time() - began) from failures[
            -1
        ][1]

    async def _attempt(
        self, outgoing: Outgoing, queue: MessageQueue, deadline: float, attempt: int
    ) -> SendResult:
        address = self.address_of(queue.broker_name)
        began = self._loop.time()
        timeout_s = deadline - began
        limit_s = self._config.attempt_timeout_s
        if limit_s is not None and attempt < self._config.retries:
            timeout_s = min(timeout_s, limit_s)
        context = self._begin(outgoing, queue, address)
        try:
            request = self._request(outgoing, queue)
            reply = await self._instance.remoting.call(address, request, timeout_s)
            result = self._result(outgoing, queue, reply, address)
        except RocketqError as error:
            if self._faults is not None:
                unreachable = isinstance(error, ConnectFailed | ConnectionLost | RequestTimeout)
                self._faults.failed(queue.broker_name, reachable=not unreachable)
            if context is not None:
                self._end(context, began, error=error)
            raise
        if self._faults is not None:
            self._faults.answered(queue.broker_name, (self._loop.time() - began) * 1000)
        if context is not None:
            self._end(context, began, result=result)
        return result

    # ---------------------------------------------------------------- queues

    async def _publish_info(self, topic: str, left_s: float) -> PublishInfo:
        info = self._instance.routes.known_publish_info(topic)
        if info is not None and info.queues:
            return info
        try:
            async with asyncio.timeout(left_s):
                return await self._instance.routes.publish_info(
                    topic,
                    template=self._config.template_topic,
                    template_queues=self._config.template_queues,
                )
        except TimeoutError:
            raise SendTimeout(topic, self._config.send_timeout_s) from None

    def _choose(
        self, info: PublishInfo, choice: QueueChoice | None, last_broker: str | None
    ) -> MessageQueue:
        if choice is not None:
            return choice(info)
        return self._rotation.next_queue(info.topic, info.queues, avoid_broker=last_broker)

    def address_of(self, broker_name: str) -> str:
        """Where to send for a broker name."""
        address = self._instance.routes.master(broker_name)
        if address is None:
            raise BrokerUnknown(broker_name)
        return vip_address(address) if self._config.vip_channel else address

    def _refresh_soon(self, topic: str) -> None:
        self._instance.refresh_route_soon(topic)

    # ---------------------------------------------------------------- frames

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

    def _result(
        self, outgoing: Outgoing, queue: MessageQueue, reply: Command, address: str
    ) -> SendResult:
        status = _STATUS.get(reply.code)
        if status is None:
            raise rejected(reply, address, outgoing.code)
        header = reply.header(SendMessageResponse)
        return SendResult(
            status,
            outgoing.msg_id,
            header.msg_id,
            MessageQueue(
                unwrap_namespace(self._config.namespace, queue.topic),
                queue.broker_name,
                header.queue_id,
            ),
            header.queue_offset,
            transaction_id=header.transaction_id or "",
            region_id=header.region_id or "",
            trace_on=header.trace_on != "false",
            recall_handle=header.recall_handle or "",
        )

    # ----------------------------------------------------------------- hooks

    def _begin(self, outgoing: Outgoing, queue: MessageQueue, address: str) -> SendContext | None:
        if not self.hooks and not self._filters:
            return None
        context = SendContext(
            group=self._group,
            message=outgoing.message,
            queue=queue,
            address=address,
            msg_id=outgoing.msg_id,
            body_size=len(outgoing.body),
            message_type=outgoing.message_type,
            namespace=self._config.namespace,
            began_ms=self._instance.clock.now_ms(),
        )
        for check in self._filters:
            check(context)
        run_before(self.hooks, context)
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
        context.elapsed_ms = (self._loop.time() - began) * 1000
        run_after(self.hooks, context)

    async def finish(self, within_s: float) -> None:
        """Wait until every send under way has come to its end."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=within_s)


def vip_address(address: str) -> str:
    """The broker's second port, which serves no pulls."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"


def _always(queue: MessageQueue) -> QueueChoice:
    return lambda info: queue


def _has_other(info: PublishInfo, broker_name: str) -> bool:
    return any(queue.broker_name != broker_name for queue in info.queues)

"""The long way of a send: attempts one after the other, within one time budget.

Whatever is out of the ordinary is done here, step by step, in a task: the route is not known,
the connection not open, a hook wants to look, an earlier attempt has failed.

All attempts share `send_timeout_s`. A failed attempt is followed by one on another broker;
what a broker refuses for good is raised at once. Where there is no other broker, one that is
away or not the master any more is waited for as long as there is time: it may come back, or
another be elected in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.routes import PublishInfo
from rocketq.client.cluster.rpc import rejected
from rocketq.client.errors import (
    BrokerRejected,
    BrokerUnknown,
    ClientError,
    SendFailed,
    SendTimeout,
)
from rocketq.client.hooks import SendContext, SendHook, run_after, run_before
from rocketq.client.producer.latency_faults import LatencyFaults
from rocketq.client.producer.options import ProducerConfig
from rocketq.client.producer.outgoing import Outgoing
from rocketq.client.producer.result import SendResult, SendStatus, receipt
from rocketq.client.producer.selectors import QueueChoice, QueueRotation
from rocketq.common.errors import RocketqError
from rocketq.message.names import unwrap_namespace
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.errors import ConnectFailed, ConnectionLost, RequestTimeout
from rocketq.remoting.headers import SendMessageV2
from rocketq.remoting.wire.command import Command

logger = logging.getLogger(__name__)

_STATUS: Final = {status.value: status for status in SendStatus}
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.5


def _is_no_master(error: RocketqError) -> bool:
    """Whether a broker refused a message because it is a slave, or does not know what it is."""
    if not isinstance(error, BrokerRejected):
        return False
    if error.code == ResponseCode.SERVICE_NOT_AVAILABLE:
        return True
    return error.code == ResponseCode.SYSTEM_BUSY and "[REJECTREQUEST]" in error.remark


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


class Attempts:
    """The attempts of one producer. Belongs to its loop."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig, group: str) -> None:
        self._instance = instance
        self._config = config
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._faults = LatencyFaults(clock=instance.clock) if config.avoid_slow_brokers else None
        self.rotation = QueueRotation(faults=self._faults)
        self._hooks = list(config.send_hooks)
        self._filters = tuple(config.send_filters)
        self._change = asyncio.Event()

    @property
    def are_watched(self) -> bool:
        """Whether somebody looks at each attempt, or measures it."""
        config = self._config
        return bool(self._hooks or self._filters or self._faults or config.attempt_timeout_s)

    def add_hook(self, hook: SendHook) -> None:
        """Show another hook every attempt from now on."""
        self._hooks.append(hook)

    def sending(
        self, outgoing: Outgoing, choice: QueueChoice | None, timeout_s: float | None = None
    ) -> Sending:
        """A send that begins now."""
        budget_s = self._config.send_timeout_s if timeout_s is None else timeout_s
        return Sending(outgoing, choice, budget_s, self._loop.time() + budget_s)

    def routes_changed(self) -> None:
        """Whoever waits for a broker to come back may find it now."""
        self._change.set()
        self._change = asyncio.Event()

    # One after the other

    async def run(self, sending: Sending) -> SendResult:
        """Try until it is done, refused, or there is no time or attempt left."""
        outgoing = sending.outgoing
        while True:
            if sending.failures and not await self._may_retry(sending):
                return self._given_up(sending)
            if self._loop.time() >= sending.deadline:
                return self._given_up(sending)
            info = await self._publish_info(sending)
            queue = self.choose(sending, info)
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
        if isinstance(error, ConnectFailed | BrokerUnknown) or _is_no_master(error):
            # Nothing was stored for good. Other brokers are tried at once; when there is none,
            # this one may come back while there is time.
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
        elapsed_s = self._loop.time() - sending.deadline + sending.budget_s
        raise SendFailed(topic, sending.failures, elapsed_s) from error

    async def _attempt(self, sending: Sending, queue: MessageQueue) -> SendResult:
        outgoing = sending.outgoing
        address = self.address_of(queue.broker_name)
        began = self._loop.time()
        context = self._begin(outgoing, queue, address)
        try:
            request = self._request(outgoing, queue)
            reply = await self._instance.remoting.call(address, request, self._limit_s(sending))
            result = send_result(
                outgoing.msg_id, self.as_user_sees(queue), reply, address, outgoing.code
            )
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

    async def send_oneway(self, outgoing: Outgoing, choice: QueueChoice | None) -> None:
        """Hand a message to the connection, and hope."""
        sending = self.sending(outgoing, choice)
        info = await self._publish_info(sending)
        queue = self.choose(sending, info)
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
            return sending.deadline - self._loop.time() if sending.failures else sending.budget_s
        left_s = sending.deadline - self._loop.time()
        return min(left_s, limit_s) if sending.retries < self._config.retries else left_s

    # Queues

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
        left_s = sending.deadline - self._loop.time()
        if self._config.retries == 0 or left_s <= sending.pause_s:
            return False
        self._instance.refresh_route_soon(sending.outgoing.topic)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(sending.pause_s):
                await self._change.wait()
        sending.pause_s = min(sending.pause_s * 2, _LONGEST_PAUSE_S)
        return True

    def choose(self, sending: Sending, info: PublishInfo) -> MessageQueue:
        """The queue of the next attempt."""
        choice = sending.choice
        if choice is not None:
            queue = choice(info)
            # The order of its messages hangs on the queue: a retry stays there.
            sending.choice = lambda info: queue
            return queue
        failures = sending.failures
        return self.rotation.next_queue(
            info.topic, info.queues, avoid_broker=failures[-1][0] if failures else None
        )

    def address_of(self, broker_name: str) -> str:
        """Where to send for a broker name."""
        address = self.known_address_of(broker_name)
        if address is None:
            raise BrokerUnknown(broker_name)
        return address

    def known_address_of(self, broker_name: str) -> str | None:
        """The same; None where no master is known."""
        address = self._instance.routes.master(broker_name)
        if address is None or not self._config.vip_channel:
            return address
        return vip_address(address)

    def as_user_sees(self, queue: MessageQueue) -> MessageQueue:
        """The queue under its topic's name without a namespace."""
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

    # Hooks

    def _begin(self, outgoing: Outgoing, queue: MessageQueue, address: str) -> SendContext | None:
        if not self._hooks and not self._filters:
            return None
        context = SendContext(
            group=self._group,
            message=outgoing.message,
            queue=self.as_user_sees(queue),
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
        context.elapsed_ms = (self._loop.time() - began) * 1000
        run_after(self._hooks, context)


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
    return receipt(status, msg_id, queue, reply.ext_fields)


def vip_address(address: str) -> str:
    """The broker's second port, which serves no pulls."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"

"""The way from a producer to the brokers: short where it can be, long where it must.

start ──▶ QuickSends (quick_send.py)   one frame, one future: known route, open connection,
              │                        nobody watching
              │ not simply answered with yes
              ▼
          Attempts (attempts.py)       step by step in a task: routes, retries, hooks
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.routes import PublishInfo
from rocketq.client.hooks import SendHook
from rocketq.client.producer.attempts import Attempts, NotStored, Sending, send_result
from rocketq.client.producer.options import ProducerConfig
from rocketq.client.producer.outgoing import Outgoing
from rocketq.client.producer.quick_send import Lane, QuickSend, QuickSends, Ring
from rocketq.client.producer.result import SendResult
from rocketq.client.producer.selectors import QueueChoice
from rocketq.client.producer.silence import SilenceWatch
from rocketq.common.clock import SYSTEM_CLOCK
from rocketq.common.errors import RocketqError
from rocketq.message.ids import UniqueIds
from rocketq.message.message import Message
from rocketq.message.properties.codec import decode_properties
from rocketq.message.queue import MessageQueue
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers import SendMessageV2
from rocketq.remoting.hot.send import SendTemplate
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.frame import FrameSplitter

_LaneKey: TypeAlias = tuple[MessageQueue, int]


class Sender:
    """Sends for one producer, and belongs to it."""

    def __init__(
        self, instance: ClientInstance, config: ProducerConfig, group: str, ids: UniqueIds
    ) -> None:
        self._instance = instance
        self._config = config
        self._group = group
        self._loop = asyncio.get_running_loop()
        self.attempts = Attempts(instance, config, group)
        self._lanes: dict[_LaneKey, Lane] = {}
        largest = config.max_message_size + 1
        compressed = largest if config.compress_above is None else config.compress_above
        self.quick = QuickSends(
            self._loop,
            ids,
            self._take_over,
            budget_s=config.send_timeout_s,
            plain_below=min(largest, compressed),
        )
        # The short way calls no hook, and looks at no clock but the system's.
        self._is_watched = self.attempts.are_watched or instance.clock is not SYSTEM_CLOCK
        self._forget_routes = instance.routes.on_change(self._routes_changed)
        self._watch = SilenceWatch(instance, self.quick.pending, self.attempts.known_address_of)

    def close(self) -> None:
        """Nothing is sent any more."""
        self._watch.stop()
        self._forget_routes()

    @property
    def pending(self) -> set[asyncio.Future[SendResult]]:
        """Sends that have not come to their end."""
        return self.quick.pending

    def add_hook(self, hook: SendHook) -> None:
        """Show another hook every send from now on."""
        self.attempts.add_hook(hook)
        self._is_watched = True
        self.quick.close()

    def _routes_changed(self, topic: str) -> None:
        self._lanes.clear()
        self.quick.close()
        self._watch.leave_old_masters()
        self.attempts.routes_changed()

    def start(
        self, outgoing: Outgoing, choice: QueueChoice | None, timeout_s: float | None
    ) -> asyncio.Future[SendResult]:
        """Send; the future gets the result, or the error that ended all attempts."""
        sending = self.attempts.sending(outgoing, choice, timeout_s)
        if not self._is_watched and timeout_s is None:
            future = self._start_quickly(sending)
            if future is not None:
                return future
        task = self._loop.create_task(self.attempts.run(sending))
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)
        return task

    # The short way

    def _start_quickly(self, sending: Sending) -> asyncio.Future[SendResult] | None:
        outgoing = sending.outgoing
        info = self._instance.routes.known_publish_info(outgoing.topic)
        if info is None or not info.queues or info.borrowed:
            return None
        lane = self._lane(self.attempts.choose(sending, info), outgoing.code)
        if lane is None:
            return None
        if sending.choice is None and outgoing.code == RequestCode.SEND_MESSAGE_V2:
            self._open_quick(outgoing.message.topic, info)
        return self.quick.start(
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

    def _open_quick(self, topic: str, info: PublishInfo) -> None:
        """Let a topic's further messages take the short way, if all its lanes are open."""
        lanes = []
        for queue in info.queues:
            lane = self._lane(queue, RequestCode.SEND_MESSAGE_V2)
            if lane is None:
                return
            lanes.append(lane)
        self.quick.open(topic, Ring(lanes, self.attempts.rotation.turn_of(info.topic)))

    def _lane(self, queue: MessageQueue, code: int) -> Lane | None:
        """The open way to a queue; None where one has to wait for it."""
        lane = self._lanes.get((queue, code))
        if lane is not None and not lane.connection.is_closing:
            return lane
        address = self.attempts.known_address_of(queue.broker_name)
        if address is None:
            return None
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
        lane = Lane(connection, code, template, self.attempts.as_user_sees(queue))
        self._lanes[queue, code] = lane
        return lane

    # From the short way to the long one

    def _take_over(self, quick: QuickSend, outcome: Command | RocketqError) -> None:
        """Deal with an answer that is not simply yes, or that nobody wants any more."""
        future = quick.future
        if future.done():
            self.pending.discard(future)
            return
        try:
            if isinstance(outcome, RocketqError):
                raise outcome
            result = self._result_of(quick, outcome)
        except RocketqError as error:
            self._retry(quick, error)
            return
        self.pending.discard(future)
        future.set_result(result)

    def _result_of(self, quick: QuickSend, response: Command) -> SendResult:
        lane = quick.lane
        address = lane.connection.peer_address
        result = send_result(quick.msg_id, lane.queue, response, address, lane.code)
        if self._config.retry_when_not_stored and not result.is_ok:
            raise NotStored(result)
        return result

    def _retry(self, quick: QuickSend, error: RocketqError) -> None:
        """Try again in a task, or give up."""
        future = quick.future
        if not error.retriable:
            self.pending.discard(future)
            future.set_exception(error)
            return
        sending = Sending(
            outgoing_of(quick), quick.choice, self._config.send_timeout_s, quick.deadline
        )
        sending.failures.append((quick.lane.queue.broker_name, error))
        task = self._loop.create_task(self.attempts.run(sending))
        task.add_done_callback(lambda done: self._retried(future, done))
        future.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)

    def _retried(self, future: asyncio.Future[SendResult], done: asyncio.Task[SendResult]) -> None:
        self.pending.discard(future)
        if future.done():
            return
        if done.cancelled():
            future.cancel()
        elif (error := done.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())


def outgoing_of(quick: QuickSend) -> Outgoing:
    """What a quick send was about, out of its frame."""
    (request,) = FrameSplitter().feed(quick.head + quick.body)
    header = request.header(SendMessageV2)
    properties = (header.properties or "").encode()
    return Outgoing(
        quick.lane.code,
        header.topic,
        quick.body,
        properties,
        message=Message.of(quick.topic, quick.body, decode_properties(properties), header.flag),
        msg_id=quick.msg_id,
        born_ms=header.born_timestamp,
        sys_flag=header.sys_flag,
        flag=header.flag,
    )

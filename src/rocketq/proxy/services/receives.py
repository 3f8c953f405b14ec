"""ReceiveMessage, and what consumers do with what they received."""

import asyncio
import logging
from typing import Any, Final, NamedTuple

from rocketq.client.consumer.pop.popped import popped_messages
from rocketq.client.consumer.pop.receipt import PopReceipt
from rocketq.common.clock import Clock
from rocketq.filter import FilterError
from rocketq.filter.tags import TagFilter, parse_tags
from rocketq.message.message import MessageExt
from rocketq.message.queue import MessageQueue
from rocketq.proxy.adapter import checks
from rocketq.proxy.adapter.handles import UNKNOWN_POSITION, ReceiptHandle
from rocketq.proxy.adapter.incoming import fill_message
from rocketq.proxy.adapter.queues import readable_brokers, resource
from rocketq.proxy.calls import Call, Rpcs
from rocketq.proxy.cluster import CALL_S, Cluster
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.popped import PoppedMessages
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import OK, Refused, common_status, refusal_for, refusal_of
from rocketq.proxy.renewals import Renewals
from rocketq.proxy.sessions import Session, Sessions
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers.pop import PopMessage, PopMessageResponse

logger = logging.getLogger(__name__)

_ALL_QUEUES: Final = -1
_MOST_PER_POP: Final = 32
_MARGIN_S: Final = 0.2
_DEFAULT_TIMEOUT_S: Final = 3.0
_OLD_VERSION: Final = "5.0.3"
_TAG: Final = "TAG"
_SQL: Final = "SQL92"
_NOTHING: Final = frozenset({int(ResponseCode.PULL_NOT_FOUND), int(ResponseCode.POLLING_TIMEOUT)})


class _Filter:
    """What a receive asks for."""

    def __init__(self, expression: Any) -> None:
        self.tags: TagFilter | None = None
        if expression.type == pb.SQL:
            self.type, self.text = _SQL, expression.expression
            return
        self.type, self.text = _TAG, expression.expression.strip() or "*"
        try:
            self.tags = parse_tags(self.text)
        except FilterError as error:
            raise Refused(pb.ILLEGAL_FILTER_EXPRESSION, str(error)) from None

    def wants(self, message: MessageExt) -> bool:
        """Brokers compare hashes of tags; two tags may have the same."""
        return self.tags is None or self.tags.matches_tag(message.tags)


class _Received(NamedTuple):
    """A message, and what its client is given to hold."""

    message: MessageExt
    handle: ReceiptHandle


class ReceiveService:
    """Pops for clients, and passes on what they say about popped messages."""

    def __init__(
        self,
        config: ProxyConfig,
        cluster: Cluster,
        sessions: Sessions,
        popped: PoppedMessages,
        renewals: Renewals,
        rpcs: Rpcs,
        clock: Clock,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._sessions = sessions
        self._popped = popped
        self._renewals = renewals
        self._rpcs = rpcs
        self._clock = clock
        self._turn = 0
        self._waiting = 0

    def add_to(self, rpcs: Rpcs) -> None:
        rpcs.streaming("ReceiveMessage", self._receive, self._refuse)
        rpcs.unary("AckMessage", self._ack)
        rpcs.unary("ChangeInvisibleDuration", self._change)
        rpcs.unary("ForwardMessageToDeadLetterQueue", self._forward)

    # Receiving

    async def _receive(self, request: Any, call: Call) -> None:
        if self._waiting >= self._config.max_waiting_receives:
            raise Refused(pb.TOO_MANY_REQUESTS, "too many receives are waiting")
        session = self._sessions.get(call.client_id)
        poll_ms = self._poll_ms(request, call, session)
        group = checks.group_of(request.group)
        topic_name = checks.topic_of(request.message_queue.topic)
        invisible_ms = self._invisible_ms(request)
        filter = _Filter(request.filter_expression)
        topic = await self._cluster.topic(topic_name)
        broker = self._broker(topic.route, request.message_queue.broker.name)
        config = await self._cluster.group(group)
        is_in_order = config is not None and config.consume_message_orderly
        header = PopMessage(
            consumer_group=group,
            topic=topic_name,
            queue_id=_ALL_QUEUES,
            max_msg_nums=min(request.batch_size, _MOST_PER_POP),
            invisible_time=invisible_ms,
            poll_time=poll_ms,
            born_time=0,
            init_mode=1,
            exp_type=filter.type,
            exp=filter.text,
            order=is_in_order,
            attempt_id=request.attempt_id or None,
            broker_name=broker,
        )
        if request.batch_size <= 0:
            await self._sleep(poll_ms)
            self._answer(call, _nothing("no new message"))
            return
        reply = await self._pop(call, broker, header, poll_ms, group)
        if reply.code in _NOTHING:
            self._answer(call, _nothing("no new message"))
            return
        if reply.code != ResponseCode.SUCCESS:
            raise refusal_of(reply)
        queue = MessageQueue(topic_name, broker, _ALL_QUEUES)
        found = popped_messages(reply.body, reply.header(PopMessageResponse), queue, group)
        most = 1 + (16 if config is None else config.retry_max_times)
        messages = self._wanted(found, filter, most, group, topic_name, call)
        await self._deliver(messages, group, topic_name, call, request.auto_renew)

    def _poll_ms(self, request: Any, call: Call, session: Session | None) -> int:
        """How long to wait: what the client wants, within its deadline and our limits."""
        config = self._config
        least = config.grpc_client_consumer_min_long_polling_timeout_millis
        most = config.grpc_client_consumer_max_long_polling_timeout_millis
        left_s = call.remaining_s(asyncio.get_running_loop().time())
        left_ms = most + 5_000 if left_s is None else round(left_s * 1000)
        if request.HasField("long_polling_timeout"):
            wanted = checks.milliseconds(request.long_polling_timeout)
        else:
            timeout_s = _DEFAULT_TIMEOUT_S
            if session is not None and session.settings.HasField("request_timeout"):
                timeout_s = checks.milliseconds(session.settings.request_timeout) / 1000
            wanted = left_ms - round(timeout_s * 500)
        wanted = min(max(wanted, least), most)
        if wanted > left_ms:
            if left_ms < least:
                version = call.metadata.get("x-mq-client-version", "")
                code = pb.BAD_REQUEST if version < _OLD_VERSION else pb.ILLEGAL_POLLING_TIME
                raise Refused(code, f"a deadline of {left_ms} ms is too short to wait")
            wanted = left_ms
        # The answer has to be there before the client gives up.
        return max(min(wanted, left_ms - round(_MARGIN_S * 1000)), 0)

    def _invisible_ms(self, request: Any) -> int:
        config = self._config
        if request.auto_renew and config.enable_proxy_auto_renew:
            return config.default_invisible_time_mills
        wanted = checks.milliseconds(request.invisible_duration)
        least, most = config.min_invisible_time_mills_for_recv, config.max_invisible_time_mills
        if not least <= wanted <= most:
            raise Refused(
                pb.ILLEGAL_INVISIBLE_TIME,
                f"an invisible time of {wanted} ms; it lies between {least} and {most}",
            )
        return wanted

    def _broker(self, route: Any, wanted: str) -> str:
        brokers = readable_brokers(route)
        if not brokers:
            raise Refused(pb.FORBIDDEN, "no readable queue")
        if any(data.broker_name == wanted for data in brokers):
            return wanted
        self._turn += 1
        return brokers[self._turn % len(brokers)].broker_name

    async def _sleep(self, poll_ms: int) -> None:
        self._waiting += 1
        try:
            await asyncio.sleep(poll_ms / 1000)
        finally:
            self._waiting -= 1

    async def _pop(
        self, call: Call, broker: str, header: PopMessage, poll_ms: int, group: str
    ) -> Command:
        """The broker's answer. If the client goes away meanwhile, what comes is given back."""
        asking = asyncio.ensure_future(
            self._cluster.ask(broker, Command.request(header), poll_ms / 1000 + CALL_S, call=call)
        )
        self._waiting += 1
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(lambda done: self._nobody_waits(done, broker, header))
            raise
        finally:
            self._waiting -= 1

    def _nobody_waits(
        self, asked: "asyncio.Future[Command]", broker: str, header: PopMessage
    ) -> None:
        if asked.cancelled() or asked.exception() is not None:
            return
        reply = asked.result()
        if reply.code == ResponseCode.SUCCESS:
            queue = MessageQueue(header.topic, broker, _ALL_QUEUES)
            answer = reply.header(PopMessageResponse)
            messages = popped_messages(reply.body, answer, queue, header.consumer_group)
            received = [_Received(message, _handle_of(message)) for message in messages]
            self._give_back(received, header.consumer_group, header.topic)

    def _wanted(
        self,
        found: list[MessageExt],
        filter: _Filter,
        most_attempts: int,
        group: str,
        topic: str,
        call: Call,
    ) -> list["_Received"]:
        """Without messages of other tags, and without those that were tried too often."""
        wanted = []
        for message in found:
            handle = _handle_of(message)
            if not filter.wants(message):
                self._rpcs.start(self._popped.quietly(self._popped.ack(handle, group, topic)))
            elif message.reconsume_times >= most_attempts:
                self._rpcs.start(
                    self._popped.quietly(self._popped.forward(handle, group, topic, message.msg_id))
                )
            else:
                wanted.append(_Received(message, handle))
        return wanted

    async def _deliver(
        self, messages: list["_Received"], group: str, topic: str, call: Call, auto_renew: bool
    ) -> None:
        session = self._sessions.get(call.client_id)
        is_renewed = auto_renew and self._config.enable_proxy_auto_renew
        if not messages:
            self._answer(call, _nothing("no match message"))
            return
        if is_renewed and session is None:
            # Nobody would renew them, or notice that the client is gone.
            self._give_back(messages, group, topic)
            self._answer(call, _nothing("no new message"))
            return
        now_ms = self._clock.now_ms()
        stream = call.stream
        stream.send(pb.ReceiveMessageResponse(status=OK).SerializeToString())
        sent = 0
        name = resource(topic)
        try:
            for message, handle in messages:
                if stream.is_over:
                    break
                response = pb.ReceiveMessageResponse()
                made = response.message
                fill_message(made, message, name, now_ms, str(handle))
                stream.send(response.SerializeToString())
                await stream.drained()
                sent += 1
                if is_renewed and session is not None and not stream.is_over:
                    self._renewals.add(
                        session,
                        group,
                        topic,
                        handle,
                        made.system_properties.message_id,
                        message.reconsume_times,
                    )
        finally:
            if stream.is_over:
                sent -= 1 if sent else 0
            if sent < len(messages):
                self._give_back(messages[sent:], group, topic)
        self._end(call)

    def _give_back(self, messages: list["_Received"], group: str, topic: str) -> None:
        for _, handle in messages:
            self._rpcs.start(
                self._popped.quietly(
                    self._popped.change(
                        handle,
                        group,
                        topic,
                        self._config.invisible_time_millis_when_clear,
                        suspend=True,
                    )
                )
            )

    def _refuse(self, call: Call, status: Any) -> None:
        self._answer(call, status)

    def _answer(self, call: Call, status: Any) -> None:
        call.stream.send(pb.ReceiveMessageResponse(status=status).SerializeToString())
        self._end(call)

    def _end(self, call: Call) -> None:
        last = pb.ReceiveMessageResponse()
        checks.set_milliseconds(last.delivery_timestamp, self._clock.now_ms())
        call.stream.send(last.SerializeToString())

    # Acknowledging

    async def _ack(self, request: Any, call: Call) -> Any:
        topic = checks.topic_of(request.topic)
        group = checks.group_of(request.group)
        if not request.entries:
            raise Refused(pb.BAD_REQUEST, "nothing is acknowledged")
        statuses: list[Any] = [OK] * len(request.entries)
        handles: dict[int, ReceiptHandle] = {}
        for number, entry in enumerate(request.entries):
            try:
                checks.refuse_lite(entry.lite_topic)
                handles[number] = await self._newest(
                    entry.receipt_handle, group, entry.message_id, call
                )
            except Refused as error:
                statuses[number] = error.status
        failures = await self._popped.ack_all(list(handles.values()), group, topic, call)
        for number, failure in zip(handles, failures, strict=True):
            if failure is not None:
                statuses[number] = refusal_for(failure).status
        return pb.AckMessageResponse(
            status=common_status(statuses),
            entries=[
                pb.AckMessageResultEntry(
                    message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
                )
                for entry, status in zip(request.entries, statuses, strict=True)
            ],
        )

    async def _newest(self, text: str, group: str, message_id: str, call: Call) -> ReceiptHandle:
        """The handle that counts now, and that is renewed no longer."""
        handle = ReceiptHandle.decode(text)
        if handle is None:
            raise Refused(pb.INVALID_RECEIPT_HANDLE, "this is no receipt handle")
        if self._renewals.holds(call.client_id):
            newest = await self._renewals.take(call.client_id, group, message_id, handle)
            handle = newest or handle
        if handle.is_expired(self._clock.now_ms()):
            raise Refused(pb.INVALID_RECEIPT_HANDLE, "the receipt handle has expired")
        return handle

    async def _change(self, request: Any, call: Call) -> Any:
        try:
            topic = checks.topic_of(request.topic)
            group = checks.group_of(request.group)
            checks.refuse_lite(request.lite_topic)
            invisible_ms = checks.milliseconds(request.invisible_duration)
            most = self._config.max_invisible_time_mills
            if not 0 <= invisible_ms <= most:
                raise Refused(
                    pb.ILLEGAL_INVISIBLE_TIME,
                    f"an invisible time of {invisible_ms} ms; it lies between 0 and {most}",
                )
            handle = await self._newest(request.receipt_handle, group, request.message_id, call)
            renewed = await self._popped.change(
                handle, group, topic, invisible_ms, suspend=request.suspend, call=call
            )
        except (Refused, RemotingError) as error:
            # Clients take the handle before they look at the status.
            return pb.ChangeInvisibleDurationResponse(
                status=refusal_for(error).status, receipt_handle=request.receipt_handle
            )
        return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=str(renewed))

    async def _forward(self, request: Any, call: Call) -> Any:
        topic = checks.topic_of(request.topic)
        group = checks.group_of(request.group)
        checks.refuse_lite(request.lite_topic)
        handle = await self._newest(request.receipt_handle, group, request.message_id, call)
        if handle.log_position == UNKNOWN_POSITION:
            raise Refused(pb.INVALID_RECEIPT_HANDLE, "the receipt handle names no position")
        await self._popped.forward(handle, group, topic, request.message_id, call)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=OK)


def _handle_of(message: MessageExt) -> ReceiptHandle:
    return ReceiptHandle(PopReceipt.of(message), message.physical_offset)


def _nothing(text: str) -> Any:
    return pb.Status(code=pb.MESSAGE_NOT_FOUND, message=text)

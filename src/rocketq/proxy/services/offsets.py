"""PullMessage and the offsets of groups: RPCs that RocketMQ's own proxy leaves out."""

import asyncio
from typing import Any, Final

from rocketq.common.clock import Clock
from rocketq.message.flags import PullFlag
from rocketq.message.record.reader import decode_records
from rocketq.proxy.adapter import checks
from rocketq.proxy.adapter.incoming import grpc_message
from rocketq.proxy.calls import Call, Rpcs
from rocketq.proxy.cluster import CALL_S, Cluster
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import OK, Refused, refusal_of
from rocketq.remoting import Command, ResponseCode
from rocketq.remoting.headers.offsets import (
    GetMaxOffset,
    GetMaxOffsetResponse,
    GetMinOffset,
    QueryConsumerOffset,
    QueryConsumerOffsetResponse,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketq.remoting.headers.pull import PullMessage, PullMessageResponse

_MOST_MESSAGES: Final = 1_024
_MARGIN_MS: Final = 200
_NOTHING: Final = frozenset(
    {int(ResponseCode.PULL_NOT_FOUND), int(ResponseCode.PULL_RETRY_IMMEDIATELY)}
)


class OffsetService:
    """Queues and offsets by their numbers, as brokers have them."""

    def __init__(self, config: ProxyConfig, cluster: Cluster, clock: Clock) -> None:
        self._config = config
        self._cluster = cluster
        self._clock = clock

    def add_to(self, rpcs: Rpcs) -> None:
        rpcs.streaming("PullMessage", self._pull, self._refuse)
        rpcs.unary("UpdateOffset", self._update)
        rpcs.unary("GetOffset", self._get)
        rpcs.unary("QueryOffset", self._query)

    # Pulling

    async def _pull(self, request: Any, call: Call) -> None:
        group = checks.group_of(request.group)
        topic, broker, queue_id = await self._queue(request.message_queue)
        if request.offset < 0:
            raise Refused(pb.ILLEGAL_OFFSET, f"an offset of {request.offset}")
        poll_ms = self._poll_ms(request, call)
        expression = request.filter_expression
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if poll_ms > 0 else 0)
        header = PullMessage(
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            queue_offset=request.offset,
            max_msg_nums=min(max(request.batch_size, 1), _MOST_MESSAGES),
            sys_flag=flags,
            commit_offset=0,
            suspend_timeout_millis=poll_ms,
            subscription=expression.expression or "*",
            sub_version=0,
            expression_type="SQL92" if expression.type == pb.SQL else "TAG",
            broker_name=broker,
        )
        reply = await self._cluster.ask(
            broker, Command.request(header), poll_ms / 1000 + CALL_S, call=call
        )
        stream = call.stream
        if reply.code == ResponseCode.SUCCESS:
            stream.send(pb.PullMessageResponse(status=OK).SerializeToString())
            now_ms = self._clock.now_ms()
            for record in decode_records(reply.body):
                message = grpc_message(record, topic, now_ms)
                stream.send(pb.PullMessageResponse(message=message).SerializeToString())
                await stream.drained()
        elif reply.code in _NOTHING:
            self._refuse(call, pb.Status(code=pb.MESSAGE_NOT_FOUND, message="no new message"))
        elif reply.code == ResponseCode.PULL_OFFSET_MOVED:
            text = f"there is nothing at offset {request.offset}"
            self._refuse(call, pb.Status(code=pb.ILLEGAL_OFFSET, message=text))
        else:
            raise refusal_of(reply)
        next_offset = reply.header(PullMessageResponse).next_begin_offset
        stream.send(pb.PullMessageResponse(next_offset=next_offset).SerializeToString())

    def _poll_ms(self, request: Any, call: Call) -> int:
        most = self._config.grpc_client_consumer_max_long_polling_timeout_millis
        wanted = min(max(checks.milliseconds(request.long_polling_timeout), 0), most)
        left_s = call.remaining_s(asyncio.get_running_loop().time())
        if left_s is not None:
            wanted = min(wanted, round(left_s * 1000) - _MARGIN_MS)
        return max(wanted, 0)

    def _refuse(self, call: Call, status: Any) -> None:
        call.stream.send(pb.PullMessageResponse(status=status).SerializeToString())

    async def _queue(self, queue: Any) -> tuple[str, str, int]:
        name = checks.topic_of(queue.topic)
        topic = await self._cluster.topic(name)
        for data in topic.route.queue_datas:
            if data.broker_name == queue.broker.name:
                most = max(data.read_queue_nums, data.write_queue_nums)
                if 0 <= queue.id < most:
                    return name, data.broker_name, queue.id
        raise Refused(pb.BAD_REQUEST, f"topic {name} has no queue {queue.id} at that broker")

    # Offsets

    async def _update(self, request: Any, call: Call) -> Any:
        group = checks.group_of(request.group)
        topic, broker, queue_id = await self._queue(request.message_queue)
        if request.offset < 0:
            raise Refused(pb.ILLEGAL_OFFSET, f"an offset of {request.offset}")
        header = UpdateConsumerOffset(
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            commit_offset=request.offset,
            broker_name=broker,
        )
        reply = await self._cluster.ask(broker, Command.request(header), call=call)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal_of(reply)
        return pb.UpdateOffsetResponse(status=OK)

    async def _get(self, request: Any, call: Call) -> Any:
        group = checks.group_of(request.group)
        topic, broker, queue_id = await self._queue(request.message_queue)
        header = QueryConsumerOffset(
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            set_zero_if_not_found=False,
            broker_name=broker,
        )
        reply = await self._cluster.ask(broker, Command.request(header), call=call)
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            raise Refused(pb.OFFSET_NOT_FOUND, f"group {group} has no offset there")
        if reply.code != ResponseCode.SUCCESS:
            raise refusal_of(reply)
        offset = reply.header(QueryConsumerOffsetResponse).offset
        return pb.GetOffsetResponse(status=OK, offset=offset)

    async def _query(self, request: Any, call: Call) -> Any:
        topic, broker, queue_id = await self._queue(request.message_queue)
        header: GetMinOffset | GetMaxOffset | SearchOffset
        if request.query_offset_policy == pb.BEGINNING:
            header = GetMinOffset(topic=topic, queue_id=queue_id, broker_name=broker)
        elif request.query_offset_policy == pb.END:
            header = GetMaxOffset(topic=topic, queue_id=queue_id, broker_name=broker)
        else:
            header = SearchOffset(
                topic=topic,
                queue_id=queue_id,
                timestamp=checks.milliseconds(request.timestamp),
                broker_name=broker,
            )
        reply = await self._cluster.ask(broker, Command.request(header), call=call)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal_of(reply)
        offset = reply.header(GetMaxOffsetResponse).offset
        return pb.QueryOffsetResponse(status=OK, offset=offset)

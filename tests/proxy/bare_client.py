"""A bare client of gRPC: what an official client does, call by call, and nothing by itself."""

import asyncio
import itertools
import time
from typing import Any

import grpc
import grpc.aio

from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.protocol.pool import SERVICE

_ids = itertools.count(1)


class Client:
    """What an official client does, call by call."""

    def __init__(self, target: str, client_id: str | None = None, **metadata: str) -> None:
        self.target = target
        self.client_id = client_id or f"test@1@{next(_ids)}@x"
        self.metadata = {
            "x-mq-client-id": self.client_id,
            "x-mq-language": "PYTHON",
            "x-mq-client-version": "5.1.2",
            "x-mq-protocol": "v2",
            **{name.replace("_", "-"): value for name, value in metadata.items()},
        }
        self.channel = grpc.aio.insecure_channel(
            target, options=[("grpc.max_receive_message_length", -1)]
        )
        host, port = target.rsplit(":", 1)
        self.endpoints = pb.Endpoints(scheme=pb.IPv4)
        self.endpoints.addresses.add(host=host, port=int(port))

    def _metadata(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.metadata.items() if value]

    async def call(self, rpc: str, request: Any, timeout_s: float | None = 30.0) -> Any:
        request_class, response_class = pb.rpcs[rpc]
        assert isinstance(request, request_class)
        method = self.channel.unary_unary(
            f"/{SERVICE}/{rpc}",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        return await method(request, timeout=timeout_s, metadata=self._metadata())

    def stream(self, rpc: str, request: Any, timeout_s: float | None = 25.0) -> Any:
        request_class, response_class = pb.rpcs[rpc]
        method = self.channel.unary_stream(
            f"/{SERVICE}/{rpc}",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        return method(request, timeout=timeout_s, metadata=self._metadata())

    async def close(self) -> None:
        await self.channel.close()

    # Sending

    def message(self, topic: str, body: bytes = b"body", **system: Any) -> Any:
        message = pb.Message(topic=pb.Resource(name=topic), body=body)
        message.system_properties.message_id = system.pop("message_id", f"id-{next(_ids)}")
        message.user_properties.update(system.pop("user", {}))
        if "deliver_ms" in system:
            message.system_properties.delivery_timestamp.FromMilliseconds(system.pop("deliver_ms"))
        for name, value in system.items():
            if isinstance(value, list):
                getattr(message.system_properties, name).extend(value)
            else:
                setattr(message.system_properties, name, value)
        return message

    async def send(self, topic: str, body: bytes = b"body", **system: Any) -> Any:
        request = pb.SendMessageRequest(messages=[self.message(topic, body, **system)])
        return await self.call("SendMessage", request)

    # Receiving

    def receive_request(self, topic: str, group: str, **more: Any) -> Any:
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=group),
            message_queue=pb.MessageQueue(topic=pb.Resource(name=topic)),
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            batch_size=more.pop("batch_size", 32),
        )
        invisible_s = more.pop("invisible_s", 10.0)
        if invisible_s is not None:
            request.invisible_duration.FromMilliseconds(round(invisible_s * 1000))
        poll_s = more.pop("poll_s", 0.5)
        if poll_s is not None:
            request.long_polling_timeout.FromMilliseconds(round(poll_s * 1000))
        expression = more.pop("expression", None)
        if expression is not None:
            request.filter_expression.expression = expression
        for name, value in more.items():
            setattr(request, name, value)
        return request

    async def receive(self, topic: str, group: str, **more: Any) -> "Received":
        timeout_s = more.pop("timeout_s", 25.0)
        request = self.receive_request(topic, group, **more)
        return Received([each async for each in self.stream("ReceiveMessage", request, timeout_s)])

    async def receive_all(self, topic: str, group: str, count: int, **more: Any) -> list[Any]:
        """So many messages, however many receives that takes."""
        found: list[Any] = []
        while len(found) < count:
            received = await self.receive(topic, group, **more)
            assert received.code in (pb.OK, pb.MESSAGE_NOT_FOUND), received.status
            found += received.messages
            assert received.messages or received.code == pb.MESSAGE_NOT_FOUND
        return found

    async def ack(self, topic: str, group: str, *messages: Any) -> Any:
        request = pb.AckMessageRequest(group=pb.Resource(name=group), topic=pb.Resource(name=topic))
        for message in messages:
            if isinstance(message, str):
                request.entries.add(message_id="id", receipt_handle=message)
            else:
                request.entries.add(
                    message_id=message.system_properties.message_id,
                    receipt_handle=message.system_properties.receipt_handle,
                )
        return await self.call("AckMessage", request)

    async def change(
        self, topic: str, group: str, handle: str, invisible_s: float, message_id: str = "id"
    ) -> Any:
        request = pb.ChangeInvisibleDurationRequest(
            group=pb.Resource(name=group),
            topic=pb.Resource(name=topic),
            receipt_handle=handle,
            message_id=message_id,
        )
        request.invisible_duration.FromMilliseconds(round(invisible_s * 1000))
        return await self.call("ChangeInvisibleDuration", request)

    # Telemetry

    def telemetry(self, timeout_s: float | None = None) -> Any:
        request_class, response_class = pb.rpcs["Telemetry"]
        method = self.channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        return method(timeout=timeout_s, metadata=self._metadata())

    def producer_settings(self, *topics: str) -> Any:
        settings = pb.Settings(client_type=pb.PRODUCER, access_point=self.endpoints)
        settings.publishing.topics.extend([pb.Resource(name=topic) for topic in topics])
        settings.request_timeout.FromSeconds(3)
        return settings

    def consumer_settings(self, group: str, *topics: str, client_type: int | None = None) -> Any:
        settings = pb.Settings(
            client_type=client_type or pb.PUSH_CONSUMER, access_point=self.endpoints
        )
        settings.subscription.group.name = group
        for topic in topics:
            entry = settings.subscription.subscriptions.add()
            entry.topic.name = topic
            entry.expression.type = pb.TAG
            entry.expression.expression = "*"
        settings.request_timeout.FromSeconds(3)
        return settings

    async def introduce(self, settings: Any) -> "Introduced":
        """Open a stream and say who this is; the stream stays open."""
        stream = self.telemetry()
        await stream.write(pb.TelemetryCommand(settings=settings))
        answer = await stream.read()
        assert answer.status.code == pb.OK, answer
        return Introduced(stream, answer.settings)


class Introduced:
    """A client's stream and the settings it was answered."""

    def __init__(self, stream: Any, settings: Any) -> None:
        self.stream = stream
        self.settings = settings

    async def next(self, within_s: float = 30.0) -> Any:
        async with asyncio.timeout(within_s):
            return await self.stream.read()


class Received:
    """The elements of a receive, which must come in their order."""

    def __init__(self, elements: list[Any]) -> None:
        kinds = [each.WhichOneof("content") for each in elements]
        assert kinds == ["status", *["message"] * (len(kinds) - 2), "delivery_timestamp"], kinds
        self.status = elements[0].status
        self.messages = [each.message for each in elements[1:-1]]
        self.delivered_at = elements[-1].delivery_timestamp

    @property
    def code(self) -> int:
        return int(self.status.code)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


def now_ms() -> int:
    return round(time.time() * 1000)

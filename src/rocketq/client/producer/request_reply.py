"""Request-reply over topics: a message out, its answer back to the client that asked.

    requester                        broker                        replier
    send, CORRELATION_ID,  ────▶     stores, adds CLUSTER  ────▶   consumes,
    REPLY_TO_CLIENT, TTL                                           reply_to(request, body)
    326 to that client     ◀────     finds the client      ◀────   sends to CLUSTER_REPLY_TOPIC

The answer travels over the requester's own connection to that broker, so requester and
replier must reach the same one.
"""

from __future__ import annotations

import asyncio
import uuid

from rocketq.client.errors import InvalidMessage
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import reply_topic
from rocketq.message.properties.codec import PropertyName

REPLY_TYPE = "reply"


class PendingReplies:
    """The requests of one client instance that have no answer yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}

    def expect(self) -> tuple[str, asyncio.Future[MessageExt]]:
        """A new correlation id, and where its answer will be."""
        correlation_id = str(uuid.uuid4())
        future: asyncio.Future[MessageExt] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return correlation_id, future

    def forget(self, correlation_id: str) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.pop(correlation_id, None)

    def arrived(self, reply: MessageExt) -> bool:
        """Hand an answer to whoever waits; False when nobody does (it came too late)."""
        correlation_id = reply.properties.get(PropertyName.CORRELATION_ID, "")
        future = self._waiting.pop(correlation_id, None)
        if future is None or future.done():
            return False
        future.set_result(reply)
        return True

    def close(self, error: BaseException) -> None:
        """Tell everybody still waiting why there will be no answer."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()


def reply_to(request: MessageExt, body: bytes) -> Message:
    """The answer to a request message, ready to be sent by any producer.

    async def on_question(question: MessageExt) -> None:
        await producer.send(reply_to(question, b"42"))
    """
    cluster = request.properties.get(PropertyName.CLUSTER)
    correlation_id = request.properties.get(PropertyName.CORRELATION_ID)
    if not cluster or not correlation_id:
        raise InvalidMessage(
            f"message {request.msg_id} is no request: it lacks the property "
            f"{PropertyName.CLUSTER if not cluster else PropertyName.CORRELATION_ID}"
        )
    properties: dict[str, str] = {
        PropertyName.MESSAGE_TYPE: REPLY_TYPE,
        PropertyName.CORRELATION_ID: correlation_id,
    }
    for name in (PropertyName.REPLY_TO_CLIENT, PropertyName.TTL):
        value = request.properties.get(name)
        if value:
            properties[name] = value
    return Message.of(reply_topic(cluster), body, properties)


def is_reply(message: Message) -> bool:
    """Whether a message has to go out as an answer (request 325)."""
    return message.properties.get(PropertyName.MESSAGE_TYPE) == REPLY_TYPE

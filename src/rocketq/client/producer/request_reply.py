"""Request-reply over topics: a message out, its answer back to the client that asked.

    requester                        broker                        replier
    send, CORRELATION_ID,  ────▶     stores, adds CLUSTER  ────▶   consumes,
    REPLY_TO_CLIENT, TTL                                           reply_to(request, body)
    326 to that client     ◀────     finds the client      ◀────   sends to CLUSTER_REPLY_TOPIC

The answer travels over the requester's own connection to that broker, so requester and
replier must reach the same one.
"""

from __future__ import annotations

from typing import Final

from rocketq.client.errors import InvalidMessage
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import reply_topic
from rocketq.message.properties.codec import PropertyName

REPLY_TYPE: Final = "reply"


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

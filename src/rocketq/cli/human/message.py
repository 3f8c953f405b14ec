"""`rocketq message`: find a message, and what became of it."""

from typing import Annotated

from rocketq.admin import messages
from rocketq.admin.errors import AdminError
from rocketq.cli.admin.command import Report
from rocketq.cli.commands import Argument, Option
from rocketq.cli.human.tables import TopicName, commands, listed
from rocketq.cli.messages.send import send
from rocketq.cli.messages.tail import tail
from rocketq.cli.messages.text import body_of, data_of, text_of
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.message.message import MessageExt

MessageId = Annotated[str, Argument(metavar="ID", help="The id that `send` printed, or any id.")]


async def get(api: BrokerApi, topic: TopicName, message_id: MessageId) -> Report:
    """A message by its id: all of it."""
    message = await _found(api, topic, message_id)
    data = data_of(message)
    shown_below = ("body", "bodyBase64", "properties")
    lines = [f"{name}: {value}" for name, value in data.items() if name not in shown_below]
    lines += [f"  {name}={value}" for name, value in sorted(message.properties.items())]
    return Report(data, [*lines, "", body_of(message)])


async def find(
    api: BrokerApi,
    topic: TopicName,
    key: Annotated[str, Argument(metavar="KEY", help="One of its keys.")],
    count: Annotated[
        int, Option("-c", "--count", metavar="N", minimum=1, help="At most N messages.")
    ] = 64,
) -> Report:
    """The messages with a key."""
    found = await messages.by_key(api, topic, key, max_count=count)
    return Report([data_of(each) for each in found], [text_of(each) for each in found])


async def track(api: BrokerApi, topic: TopicName, message_id: MessageId) -> Report:
    """Which groups have consumed a message."""
    message = await _found(api, topic, message_id)
    found = [
        (each.group, each.kind.value, each.reason) for each in await messages.track(api, message)
    ]
    return listed(("group", "state", "why"), found)


async def _found(api: BrokerApi, topic: str, message_id: str) -> MessageExt:
    message = await messages.by_id(api, topic, message_id)
    if message is None:
        raise AdminError(f"there is no message {message_id} in {topic}")
    return message


run = commands(
    "Find a message, and what became of it.",
    {"get": get, "find": find, "track": track},
    {"tail": tail, "send": send},
)

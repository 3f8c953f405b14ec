"""Objects in, objects out."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rocketq.client.errors import InvalidState
from rocketq.client.extras.template import (
    CONTENT_TYPE,
    Template,
    encode_payload,
    message_of,
    payload_of,
)
from rocketq.message.message import MessageExt
from rocketq.message.record.writer import new_record
from rocketq.testing import LocalBroker
from tests.client.conftest import BrokerUnderTest
from tests.client.consuming import QUICK
from tests.waiting import eventually


class Order(BaseModel):
    id: int
    total: float = 0.0


@dataclass
class Refund:
    order_id: int
    reason: str


def stored(body: bytes) -> MessageExt:
    return MessageExt(new_record(b"t", body))


@pytest.mark.parametrize(
    ("payload", "body", "kind"),
    [
        (b"raw", b"raw", "application/octet-stream"),
        ("täxt", "täxt".encode(), "text/plain;charset=UTF-8"),
        (Order(id=1, total=2.5), b'{"id":1,"total":2.5}', "application/json"),
        (Refund(1, "late"), b'{"order_id":1,"reason":"late"}', "application/json"),
        ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
    ],
)
def test_objects_become_bodies_and_objects_again(payload: Any, body: bytes, kind: str) -> None:
    assert encode_payload(payload) == (body, kind)
    assert payload_of(stored(body), type(payload)) == payload


def test_a_listener_may_ask_for_the_message_itself() -> None:
    message = stored(b"x")
    assert payload_of(message, MessageExt) is message
    assert payload_of(stored(b'{"a":1}'), Any) == {"a": 1}


def test_a_destination_is_a_topic_and_perhaps_a_tag() -> None:
    message = message_of("orders:paid", "x", keys="42", headers={"shop": "7"}, order_by="42")
    assert (message.topic, message.tags, message.keys) == ("orders", "paid", ["42"])
    assert message.get_property("shop") == "7"
    assert message.get_property(CONTENT_TYPE) == "text/plain;charset=UTF-8"
    assert message.sharding_key == "42"
    assert message_of("orders", "x", delay_level=3).delay_level == 3
    assert message_of("orders", "x").tags is None


async def test_listeners_get_what_they_ask_for(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    template = Template(broker.new_group(), namesrv=broker.namesrv)
    orders: list[Order] = []
    refunds: list[Refund] = []

    @template.listener(
        topic=topic, group=broker.new_group(), tag="order", consume_from="first", **QUICK
    )
    async def on_order(order: Order) -> None:
        orders.append(order)

    @template.listener(
        topic=topic, group=broker.new_group(), tag="refund", consume_from="first", **QUICK
    )
    def on_refund(refund: Refund) -> None:
        refunds.append(refund)

    async with template:
        await template.send(f"{topic}:order", Order(id=1))
        await template.send_soon(f"{topic}:order", Order(id=2))
        await template.send_oneway(f"{topic}:refund", Refund(1, "late"))
        await template.send_all(f"{topic}:order", [Order(id=3), Order(id=4)])
        await eventually(lambda: len(orders) == 4 and len(refunds) == 1, "all messages")
    assert {order.id for order in orders} == {1, 2, 3, 4}
    assert refunds == [Refund(1, "late")]


async def test_what_a_listener_returns_is_the_reply(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    template = Template(broker.new_group(), namesrv=broker.namesrv)

    @template.listener(topic=topic, group=broker.new_group(), consume_from="first", **QUICK)
    async def price(order: Order) -> Order:
        return Order(id=order.id, total=order.id * 2)

    async with template:
        reply = await template.request(topic, Order(id=21), Order, timeout_s=20)
    assert reply == Order(id=21, total=42)


async def test_a_listener_that_raises_gets_the_message_again(broker: BrokerUnderTest) -> None:
    topic = await broker.new_topic()
    template = Template(broker.new_group(), namesrv=broker.namesrv)
    attempts: list[int] = []

    @template.listener(topic=topic, group=broker.new_group(), consume_from="first", **QUICK)
    async def failing(message: MessageExt) -> None:
        attempts.append(message.reconsume_times)
        if len(attempts) == 1:
            raise RuntimeError("not yet")

    async with template:
        await template.send(topic, "x")
        await eventually(lambda: len(attempts) == 2, "the second attempt")
    assert attempts == [0, 1]


async def test_it_is_started_once(broker: BrokerUnderTest) -> None:
    template = Template(broker.new_group(), namesrv=broker.namesrv)
    async with template.lifespan():
        with pytest.raises(InvalidState, match="already"):
            await template.start()
    await template.close()
    async with template:  # and may be started again
        pass


def test_a_listener_takes_the_payload() -> None:
    template = Template("p", namesrv="ns:1")

    def takes_nothing() -> None: ...

    template.listener(topic="t", group="g")(takes_nothing)
    with pytest.raises(InvalidState, match="takes nothing"):
        asyncio.run(template.start())


def test_run_serves_until_it_is_told_to_stop(local_broker: LocalBroker, tmp_path: Path) -> None:
    topic = local_broker.create_topic()
    script = f"""
        from rocketq.aio import Template
        template = Template("p", namesrv="{local_broker.namesrv}")
        @template.listener(topic="{topic}", group="g-run", consume_from="first")
        async def listen(text: str):
            print(text, flush=True)
        template.run()
        print("stopped")
    """
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        from rocketq import Message, Producer

        with Producer("q", namesrv=local_broker.namesrv) as producer:
            producer.send(Message(topic, b"hello"))
        assert process.stdout is not None
        assert process.stdout.readline() == "hello\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "stopped\n"
        assert process.wait(30) == 0

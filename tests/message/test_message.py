"""Messages as users see them."""

import copy
import pickle
import struct
from array import array
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rocketq.message import InvalidProperty, Message, MessageExt, MessageQueue
from rocketq.message.names import InvalidName
from rocketq.message.properties.codec import encode_properties
from rocketq.message.record.reader import decode_record
from rocketq.message.record.writer import new_record


def stored(properties: dict[str, str], body: bytes = b"body") -> MessageExt:
    return decode_record(
        new_record(b"orders", body, encode_properties(properties), queue_id=2, queue_offset=9),
        broker_name="broker-a",
    )


def test_a_message_is_made_of_keywords() -> None:
    message = Message(
        "orders",
        b"body",
        tags="paid",
        keys=["42", "43"],
        properties={"shop": "7"},
        delay_level=3,
        sharding_key="customer-1",
        flag=12,
        wait_store_ok=False,
    )
    assert (message.topic, message.body, message.flag) == ("orders", b"body", 12)
    assert message.properties == {
        "shop": "7",
        "TAGS": "paid",
        "KEYS": "42 43",
        "DELAY": "3",
        "__SHARDINGKEY": "customer-1",
        "WAIT": "false",
    }
    assert (message.tags, message.keys, message.delay_level) == ("paid", ["42", "43"], 3)
    assert message.sharding_key == "customer-1"
    assert not message.wait_store_ok


def test_a_bare_message_has_no_properties() -> None:
    message = Message("orders", b"body")
    assert message.properties == {}
    assert (message.tags, message.keys, message.delay_level) == (None, [], 0)
    assert message.wait_store_ok
    assert message.unique_key is None
    assert message.encoded_properties() == b""


def test_timers_are_properties_too() -> None:
    assert Message("t", b"", delay_ms=1500).properties == {"TIMER_DELAY_MS": "1500"}
    assert Message("t", b"", deliver_at_ms=99).properties == {"TIMER_DELIVER_MS": "99"}
    assert Message("t", b"", delay=1.5).properties == {"TIMER_DELAY_MS": "1500"}
    assert Message("t", b"", delay=timedelta(minutes=1)).properties == {"TIMER_DELAY_MS": "60000"}
    assert Message("t", b"", deliver_at=99).properties == {"TIMER_DELIVER_MS": "99"}
    assert Message("t", b"", priority=3).properties == {"_SYS_MSG_PRIORITY_": "3"}


def test_a_time_reads_as_it_was_set() -> None:
    noon = datetime(2031, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    message = Message("t", b"", deliver_at=noon)
    assert message.deliver_at == noon
    assert message.deliver_at_ms == int(noon.timestamp() * 1000)
    assert Message("t", b"", deliver_at=noon.replace(tzinfo=None)).deliver_at == noon.replace(
        tzinfo=None
    ).astimezone(UTC)
    assert Message("t", b"", delay=2).delay == timedelta(seconds=2)
    assert Message("t", b"", priority=0).priority == 0
    bare = Message("t", b"")
    assert (bare.delay, bare.delay_ms, bare.deliver_at, bare.priority) == (None, None, None, None)


def test_a_message_has_one_time() -> None:
    message = Message("t", b"", delay_level=3)
    message.delay = 5
    assert message.properties == {"TIMER_DELAY_MS": "5000"}
    message.deliver_at = 7
    assert message.properties == {"TIMER_DELIVER_MS": "7"}
    message.delay_level = 2
    assert message.properties == {"DELAY": "2"}
    message.delay_level = 0
    assert message.properties == {}
    with pytest.raises(InvalidProperty, match="one time"):
        Message("t", b"", delay=1, deliver_at=99)
    with pytest.raises(InvalidProperty, match="one time"):
        Message("t", b"", delay_level=1, delay_ms=5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay": -1},
        {"delay": float("inf")},
        {"delay": float("nan")},
        {"delay": timedelta.max},
        {"delay_ms": -1},
        {"deliver_at": datetime(1969, 1, 1, tzinfo=UTC)},
        {"deliver_at": 2**62},
        {"priority": -1},
        {"priority": 2**31},
    ],
)
def test_a_wrong_number_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidProperty):
        Message("t", b"", **wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"delay": "5"}, {"delay_ms": 1.5}, {"deliver_at": "now"}, {"priority": "high"}],
)
def test_a_wrong_kind_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Message("t", b"", **wrong)


def test_numbers_that_are_none_are_passed_over() -> None:
    properties = {"TIMER_DELAY_MS": "soon", "TIMER_DELIVER_MS": "9" * 18, "_SYS_MSG_PRIORITY_": ""}
    message = Message.of("t", b"", properties)
    assert (message.delay, message.deliver_at, message.priority) == (None, None, None)


def test_attributes_can_be_taken_back() -> None:
    message = Message("t", b"", tags="a", keys="k", delay_level=1, wait_store_ok=False)
    message.tags = None
    message.keys = []
    message.delay_level = 0
    message.wait_store_ok = True
    message.sharding_key = None
    assert message.properties == {}


def test_one_key_may_be_given_as_text() -> None:
    assert Message("t", b"", keys="42").keys == ["42"]


@pytest.mark.parametrize("body", [bytearray(b"body"), memoryview(b"body")])
def test_bodies_become_bytes(body: bytearray | memoryview) -> None:
    message = Message("t", body)
    assert type(message.body) is bytes
    assert message.body == b"body"


def test_text_is_no_body() -> None:
    with pytest.raises(TypeError, match="encode the text"):
        Message("t", "text")  # type: ignore[arg-type]


def test_the_names_of_the_system_are_refused() -> None:
    with pytest.raises(InvalidProperty):
        Message("t", b"", properties={"TAGS": "a"})
    message = Message("t", b"")
    with pytest.raises(InvalidProperty):
        message.put_user_property("UNIQ_KEY", "mine")
    message.put_user_property("shop", "7")
    assert message.get_property("shop") == "7"


def test_the_callers_properties_are_not_kept() -> None:
    own = {"shop": "7"}
    Message("t", b"", properties=own).tags = "a"
    assert own == {"shop": "7"}


def test_a_stored_message_reads_what_it_is_asked_for() -> None:
    message = stored({"TAGS": "paid", "KEYS": "a b", "UNIQ_KEY": "id"})
    assert message.tags == "paid"
    assert message.keys == ["a", "b"]
    assert message.msg_id == "id"
    assert message.transaction_id == "id"
    assert message.get_property("other") is None
    assert message.queue == MessageQueue("orders", "broker-a", 2)
    assert isinstance(message, Message)


def test_without_unique_key_the_id_is_that_of_the_place() -> None:
    message = stored({})
    assert message.msg_id == message.offset_msg_id == "7F000001000000000000000000000000"


def test_a_client_may_change_a_stored_message_in_memory() -> None:
    message = stored({"TAGS": "paid", "RETRY_TOPIC": "orders"})
    message.topic = "elsewhere"
    message.body = b"other"
    message.reconsume_times = 5
    message.flag = 9
    message.properties["CONSUME_START_TIME"] = "1"
    message.properties.pop("TAGS")
    assert (message.topic, message.body, message.reconsume_times) == ("elsewhere", b"other", 5)
    assert message.flag == 9
    assert message.get_property("CONSUME_START_TIME") == "1"
    assert message.tags is None
    assert message.raw_topic == b"orders", "the record stays as it was"


def test_parts_are_decoded_once() -> None:
    message = stored({"TAGS": "paid"})
    assert message.body is message.body
    assert message.properties is message.properties
    assert message.topic is message.topic


@pytest.mark.parametrize("duplicate", [copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_messages_can_be_copied_and_pickled(duplicate: object) -> None:
    assert callable(duplicate)
    sent = duplicate(Message("orders", b"body", tags="paid"))
    assert (sent.topic, sent.body, sent.tags) == ("orders", b"body", "paid")
    received = duplicate(stored({"TAGS": "paid"}))
    assert (received.topic, received.body, received.tags) == ("orders", b"body", "paid")
    assert (received.queue_offset, received.broker_name) == (9, "broker-a")


def test_a_body_is_never_printed() -> None:
    assert repr(Message("t", b"secret")) == "Message(topic='t', body=<6 bytes>, properties={})"
    assert "secret" not in repr(stored({}, body=b"secret"))


@pytest.mark.parametrize("junk", [b"", b"junk", bytes(40), b"\xff" * 87])
@pytest.mark.parametrize("name", ["raw_topic", "raw_properties", "raw_body", "reconsume_times"])
def test_junk_handed_in_as_a_record_fails(junk: bytes, name: str) -> None:
    with pytest.raises((IndexError, struct.error)):
        getattr(MessageExt(junk), name)


def test_queues_sort_by_topic_broker_and_number() -> None:
    queues = [
        MessageQueue("b", "x", 0),
        MessageQueue("a", "y", 10),
        MessageQueue("a", "y", 9),
        MessageQueue("a", "x", 11),
    ]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]
    assert str(queues[0]) == "b@x:0"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("orders", {"a": 1}), "a body is bytes, not a dict: encode it first"),
        (("orders", 5), "a body is bytes, not an int"),
        (("orders", "text"), "encode the text first"),
        ((b"orders", b"x"), "a topic is a text, not a bytes"),
    ],
)
def test_wrong_types_are_named_at_once(arguments: tuple[Any, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        Message(*arguments)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tags": 5}, "tags is one tag, a text, not 5"),
        ({"keys": 5}, "keys are texts"),
        ({"keys": [5]}, "keys are texts"),
        ({"properties": {"shop": 7}}, "'shop' has the value 7"),
        ({"delay_level": "1"}, "delay_level is a number"),
    ],
)
def test_wrong_types_of_options_are_named_at_once(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        Message("orders", b"x", **options)


def test_a_message_needs_a_topic() -> None:
    with pytest.raises(InvalidName, match="needs a topic"):
        Message("", b"x")


@pytest.mark.parametrize("body", [bytearray(b"abc"), memoryview(b"abc"), array("B", b"abc")])
def test_a_body_may_be_anything_with_bytes(body: Any) -> None:
    assert Message("orders", body).body == b"abc"

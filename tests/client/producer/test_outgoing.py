"""What becomes of a message before it is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.client.errors import InvalidMessage
from rocketq.client.producer.options import ProducerConfig
from rocketq.client.producer.outgoing import Preparation, can_batch
from rocketq.client.producer.request_reply import reply_to
from rocketq.client.trace import records as trace_records
from rocketq.common.clock import ManualClock
from rocketq.message.compression import decompress
from rocketq.message.message import Message, MessageExt
from rocketq.message.names import InvalidName
from rocketq.message.properties.codec import PropertyName, decode_properties
from rocketq.message.record.batch import split_batch
from rocketq.message.record.writer import new_record
from rocketq.remoting.codes import RequestCode

CLOCK = ManualClock()


def preparation(**options: object) -> Preparation:
    return Preparation(ProducerConfig(namesrv="ns:1", **options), CLOCK)  # type: ignore[arg-type]


def test_the_callers_message_is_left_as_it_was() -> None:
    message = Message("t", b"x" * 5000, tags="a")
    properties = dict(message.properties)
    outgoing = preparation(namespace="shop").single(message)
    assert message.properties == properties
    assert message.topic == "t"
    assert message.body == b"x" * 5000
    assert outgoing.topic == "shop%t"
    assert len(outgoing.body) < 5000


def test_every_message_gets_an_id_of_its_own() -> None:
    prepare = preparation()
    message = Message("t", b"x", keys=["k"])
    first, second = prepare.single(message), prepare.single(message)
    assert first.msg_id != second.msg_id
    assert decode_properties(first.properties) == {"KEYS": "k", "UNIQ_KEY": first.msg_id}


def test_an_id_that_is_there_is_kept() -> None:
    message = Message("t", b"x")
    message.unique_key = "mine"
    assert preparation().single(message).msg_id == "mine"


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_large_bodies_are_compressed(kind: str) -> None:
    body = b"compress me " * 1000
    outgoing = preparation(compression=kind).single(Message("t", body))
    assert len(outgoing.body) < len(body)
    assert decompress(outgoing.sys_flag, outgoing.body) == body


def test_small_bodies_are_not_compressed() -> None:
    assert preparation().single(Message("t", b"x" * 4095)).sys_flag == 0
    assert preparation(compress_above=None).single(Message("t", b"x" * 9999)).sys_flag == 0


def test_an_empty_body_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="empty"):
        preparation().single(Message("t", b""))


def test_a_body_too_large_is_refused_before_compression() -> None:
    with pytest.raises(InvalidMessage, match="4194304"):
        preparation().single(Message("t", b"x" * (4 * 1024 * 1024 + 1)))


def test_too_many_properties_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="32767"):
        preparation().single(Message("t", b"x", properties={"big": "x" * 32_800}))


@pytest.mark.parametrize("topic", ["", "a b", "x" * 128, "ä"])
def test_a_name_no_broker_would_take_is_refused(topic: str) -> None:
    with pytest.raises(InvalidName):
        preparation().single(Message(topic, b"x"))


def test_the_brokers_own_topics_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="SCHEDULE_TOPIC_XXXX"):
        preparation().single(Message("SCHEDULE_TOPIC_XXXX", b"x"))


def test_a_reply_goes_out_as_a_reply() -> None:
    properties = b"CLUSTER\x01c\x02CORRELATION_ID\x01id\x02REPLY_TO_CLIENT\x01me\x02TTL\x0199\x02"
    request = MessageExt(new_record(b"t", b"?", properties))
    reply = reply_to(request, b"!")
    outgoing = preparation(namespace="").single(reply)
    assert outgoing.code == RequestCode.SEND_REPLY_MESSAGE_V2
    assert outgoing.topic == "c_REPLY_TOPIC"
    assert decode_properties(outgoing.properties) == {
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "id",
        "REPLY_TO_CLIENT": "me",
        "TTL": "99",
        "UNIQ_KEY": outgoing.msg_id,
    }


def test_a_message_that_is_no_request_cannot_be_replied_to() -> None:
    with pytest.raises(InvalidMessage, match="CLUSTER"):
        reply_to(MessageExt(new_record(b"t", b"?", b"")), b"!")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (Message("t", b"x"), trace_records.NORMAL),
        (Message("t", b"x", delay_level=3), trace_records.DELAY),
        (Message("t", b"x", deliver_at_ms=1), trace_records.DELAY),
        (Message("t", b"x", sharding_key="k"), trace_records.ORDER),
        (Message.of("t", b"x", {PropertyName.TRANSACTION_PREPARED: "true"}), trace_records.HALF),
    ],
)
def test_traces_know_what_kind_of_message_it_is(message: Message, kind: int) -> None:
    assert preparation().single(message).message_type == kind


# Batches


@given(
    st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=50), st.integers(200, 900)
)
def test_a_batch_is_split_by_size_and_keeps_its_order(bodies: list[bytes], limit: int) -> None:
    messages = [Message("t", body, keys=[str(n)]) for n, body in enumerate(bodies)]
    parts = preparation(batch_bytes=limit).batches(messages)
    items = [item for part in parts for item in split_batch(part.body)]
    assert [bytes(body) for _, body, _ in items] == bodies
    msg_ids = [decode_properties(bytes(properties))["UNIQ_KEY"] for _, _, properties in items]
    assert msg_ids == [msg_id for part in parts for msg_id in part.msg_ids]
    for part in parts:
        assert len(part.body) <= limit or len(part.msg_ids) == 1
        assert part.code == RequestCode.SEND_BATCH_MESSAGE
        assert part.sys_flag == 0


def test_a_batch_has_one_topic() -> None:
    with pytest.raises(InvalidMessage, match="one topic"):
        preparation().batches([Message("t", b"x"), Message("u", b"x")])


def test_a_batch_takes_no_delayed_messages() -> None:
    with pytest.raises(InvalidMessage, match="a delay"):
        preparation().batches([Message("t", b"x", delay_level=1)])


def test_a_batch_waits_for_the_store_as_a_whole_or_not_at_all() -> None:
    with pytest.raises(InvalidMessage, match="wait_store_ok"):
        preparation().batches([Message("t", b"x"), Message("t", b"x", wait_store_ok=False)])
    (part,) = preparation().batches([Message("t", b"x", wait_store_ok=False)])
    assert decode_properties(part.properties)["WAIT"] == "false"


def test_retry_topics_take_no_batches() -> None:
    with pytest.raises(InvalidMessage, match="retry topic"):
        preparation().batches([Message("%RETRY%g", b"x")])


def test_nothing_makes_no_batch() -> None:
    assert preparation().batches([]) == []


def test_what_may_travel_in_a_batch() -> None:
    assert can_batch(Message("t", b"x", tags="a", sharding_key="k"))
    assert not can_batch(Message("t", b"x", delay_ms=5))

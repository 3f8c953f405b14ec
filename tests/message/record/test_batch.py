"""Batches on the wire and inside records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message import Message
from rocketq.message.flags import SysFlag
from rocketq.message.properties.codec import decode_properties, encode_properties
from rocketq.message.record.batch import (
    InvalidBatch,
    encode_batch,
    split_batch,
    unwrap_inner_batch,
)
from rocketq.message.record.layout import ITEM_FIXED_SIZE
from rocketq.message.record.reader import decode_record
from rocketq.message.record.writer import new_record

texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
messages = st.builds(
    Message.of,
    st.just("orders"),
    st.binary(max_size=40),
    st.dictionaries(texts, texts, max_size=3),
    st.integers(-(2**31), 2**31 - 1),
)


def test_the_layout_of_an_item() -> None:
    message = Message("orders", b"body", tags="t", flag=5)
    assert encode_batch([message]) == (
        (33).to_bytes(4, "big")
        + bytes(8)
        + (5).to_bytes(4, "big")
        + (4).to_bytes(4, "big")
        + b"body"
        + (7).to_bytes(2, "big")
        + b"TAGS\x01t\x02"
    )


@given(st.lists(messages))
def test_batches_round_trip(batch: list[Message]) -> None:
    items = split_batch(encode_batch(batch))
    assert [
        (flag, bytes(body), decode_properties(properties)) for flag, body, properties in items
    ] == [(message.flag, message.body, message.properties) for message in batch]


def test_items_are_slices_not_copies() -> None:
    wire = bytearray(encode_batch([Message("orders", b"body")]))
    ((_, body, _),) = split_batch(wire)
    wire[20:24] = b"BODY"
    assert bytes(body) == b"BODY"


@given(st.lists(messages, min_size=1), st.data())
def test_a_cut_batch_is_refused(batch: list[Message], data: st.DataObject) -> None:
    wire = encode_batch(batch)
    cut = data.draw(st.integers(1, len(wire) - 1))
    ends = set()
    at = 0
    for message in batch:
        at += ITEM_FIXED_SIZE + len(message.body) + len(message.encoded_properties())
        ends.add(at)
    if cut in ends:
        split_batch(wire[:cut])
    else:
        with pytest.raises(InvalidBatch):
            split_batch(wire[:cut])


@given(st.binary(min_size=1, max_size=60), st.integers(0, 60))
def test_garbage_is_refused_or_split_into_all_its_bytes(garbage: bytes, size: int) -> None:
    wire = size.to_bytes(4, "big") + garbage
    try:
        items = split_batch(wire)
    except InvalidBatch:
        return
    assert sum(ITEM_FIXED_SIZE + len(body) + len(rest) for _, body, rest in items) == len(wire)


def test_an_item_that_claims_no_size_does_not_loop() -> None:
    with pytest.raises(InvalidBatch):
        split_batch(bytes(100))


def test_too_many_properties_are_refused() -> None:
    with pytest.raises(InvalidBatch, match="32767"):
        encode_batch([Message.of("t", b"", {"a": "x" * 32_767})])


@given(st.lists(messages, min_size=1), st.integers(0, 1000))
def test_an_inner_batch_comes_apart(batch: list[Message], base: int) -> None:
    properties = encode_properties({"INNER_NUM": str(len(batch)), "INNER_BASE": str(base)})
    record = new_record(
        b"orders",
        encode_batch(batch),
        properties,
        queue_id=3,
        queue_offset=base,
        physical_offset=999,
        sys_flag=SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP,
        born_timestamp=1,
        store_timestamp=2,
    )

    unwrapped = unwrap_inner_batch(decode_record(record, broker_name="broker-a"))

    assert [(m.flag, m.body, m.properties) for m in unwrapped] == [
        (m.flag, m.body, m.properties) for m in batch
    ]
    assert [m.queue_offset for m in unwrapped] == list(range(base, base + len(batch)))
    for message in unwrapped:
        assert (message.topic, message.queue_id, message.physical_offset) == ("orders", 3, 999)
        assert (message.broker_name, message.sys_flag) == ("broker-a", 0)
        assert (message.born_timestamp, message.store_timestamp) == (1, 2)


def test_any_other_message_comes_back_alone() -> None:
    message = decode_record(new_record(b"orders", b"body"))
    assert unwrap_inner_batch(message) == [message]

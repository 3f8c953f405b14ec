from hypothesis import given
from hypothesis import strategies as st

from rocketq.client.trace import records as trace_records
from rocketq.client.trace.records import (
    EndTransaction,
    Pub,
    Recall,
    SubAfter,
    SubBefore,
    TraceRecord,
    decode_records,
    encode_record,
)

PUB = Pub(
    time_ms=1700000000000,
    region="DefaultRegion",
    group="PG",
    topic="TopicA",
    msg_id="7F000001",
    tags="TagA",
    keys="k1 k2",
    store_host="127.0.0.1:10911",
    body_length=5,
    cost_ms=3,
    message_type=trace_records.NORMAL,
    offset_msg_id="7F0000010000",
    success=True,
)


def test_a_pub_record_is_written_as_java_writes_it() -> None:
    assert encode_record(PUB) == (
        "Pub\x011700000000000\x01DefaultRegion\x01PG\x01TopicA\x017F000001\x01TagA\x01k1 k2"
        "\x01127.0.0.1:10911\x015\x013\x010\x017F0000010000\x01true\x02"
    )


def test_missing_text_is_written_null_and_read_empty() -> None:
    record = Recall(time_ms=1, region="", group="g", topic="t", msg_id="m", success=False)
    text = encode_record(record)
    assert text == "Recall\x011\x01null\x01g\x01t\x01m\x01false\x02"
    assert list(decode_records(text)) == [record]


def test_the_short_pub_of_old_clients_is_understood() -> None:
    fields = encode_record(PUB).rstrip("\x02").split("\x01")
    del fields[12]
    (record,) = decode_records("\x01".join(fields) + "\x02")
    assert isinstance(record, Pub)
    assert record.success
    assert record.offset_msg_id == ""


def test_fields_of_newer_clients_are_left_out() -> None:
    text = encode_record(PUB).rstrip("\x02") + "\x01client-host\x02"
    assert list(decode_records(text)) == [PUB]


texts = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"])).filter(
    lambda text: text != "null"
)
numbers = st.integers(0, 2**40)
records: st.SearchStrategy[TraceRecord] = st.one_of(
    *(
        st.builds(
            kind,
            **{
                name: {"str": texts, "int": numbers, "bool": st.booleans()}[field.type]  # type: ignore[index]
                for name, field in kind.__dataclass_fields__.items()
                if name != "TYPE"
            },
        )
        for kind in (Pub, SubBefore, SubAfter, EndTransaction, Recall)
    )
)


@given(st.lists(records))
def test_whatever_is_written_is_read_back(written: list[TraceRecord]) -> None:
    assert list(decode_records("".join(map(encode_record, written)))) == written

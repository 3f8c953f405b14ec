"""fastjson's dialect of JSON, both ways."""

import json as standard
import time
import tracemalloc
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.common import json
from rocketq.common.json import JsonError, ObjectKey

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: '"$ref"' not in standard.dumps(value))
queue_keys = st.builds(
    lambda topic, broker, queue: ObjectKey(
        {"brokerName": broker, "queueId": queue, "topic": topic}
    ),
    texts,
    texts,
    st.integers(0, 2**31 - 1),
)


class Queue(NamedTuple):
    topic: str
    broker_name: str
    queue_id: int


@given(plain)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert json.loads(json.dumps(value)) == value


@given(plain)
def test_plain_data_is_written_as_plain_json(value: Any) -> None:
    assert standard.loads(json.dumps(value)) == value


@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), plain, max_size=3))
def test_whole_numbers_as_keys_are_written_bare_and_read_as_text(table: dict[int, Any]) -> None:
    assert json.loads(json.dumps({"t": table})) == {"t": {str(k): v for k, v in table.items()}}


@given(st.dictionaries(queue_keys, plain, max_size=3))
def test_objects_as_keys_come_back(table: dict[ObjectKey, Any]) -> None:
    assert json.loads(json.dumps([table])) == [table]


@given(plain, st.dictionaries(queue_keys, plain, max_size=3))
def test_the_pretty_form_means_the_same(value: Any, table: dict[ObjectKey, Any]) -> None:
    document = {"value": value, "table": table}
    assert json.loads(json.dumps_pretty(document)) == document
    assert b"".join(json.pretty_pieces(document)) == json.dumps_pretty(document)


def test_bodies_look_like_those_of_java() -> None:
    route = {"brokerAddrs": {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, "brokerName": "broker-a"}
    assert json.dumps(route) == (
        b'{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a"}'
    )
    offsets = {Queue("TopicA", "broker-a", 0): 10}
    assert json.dumps({"offsetTable": offsets}) == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}:10}}'
    )


def test_the_pretty_form_is_that_of_the_config_files_of_5_5_0() -> None:
    offsets = {
        "dataVersion": {"counter": 14},
        "offsetTable": {1: 5, 15: 0},
        "empty": {},
        "l": ["a"],
    }
    assert json.dumps_pretty(offsets) == (
        b'{\n\t"dataVersion":{\n\t\t"counter":14\n\t},\n\t"offsetTable":{\n\t\t1:5,\n\t\t15:0\n\t},'
        b'\n\t"empty":{},\n\t"l":[\n\t\t"a"\n\t]\n}'
    )


def test_the_standard_form_quotes_sorts_and_escapes() -> None:
    value = {"b": {10: "x/é", 2: 2**53}, "a": 1.5}
    assert json.standard_dumps(value) == (
        rb'{"a":1.5,"b":{"2":"9007199254740992","10":"x\/\u00e9"}}'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"{a:1, $b_2 : 'x'}", {"a": 1, "$b_2": "x"}),
        (b"{'a':'it\\'s','b':\"\\x41\"}", {"a": "it's", "b": "A"}),
        (b'{"a":1,,"b":[1,2,],}', {"a": 1, "b": [1, 2]}),
        (b'{1:"x",-2:"y"}\n', {"1": "x", "-2": "y"}),
        (b'{"a":12L,"b":1.5F}', {"a": 12, "b": 1.5}),
        (b'{"a":"\xff"}', {"a": "�"}),
        (b'{"a":"\\ud800"}', {"a": "�"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
    ],
)
def test_what_fastjson_accepts_is_read(text: bytes, value: Any) -> None:
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            b'{"a":{"x":[1,{"y":2}]},"b":{"$ref":"$.a.x[1]"}}',
            {"a": {"x": [1, {"y": 2}]}, "b": {"y": 2}},
        ),
        (b'{"a":{0:1},"b":{"$ref":"$.a"}}', {"a": {"0": 1}, "b": {"0": 1}}),
        (b'{"a":1,"b":{"$ref":"$.c"}}', {"a": 1, "b": None}),
        (b'{"a":{"$ref":"@"}}', None),
        (b'{"a":{"v":[1],"b":[{"c":{"$ref":"$.a.v"}}]}}', {"a": {"v": [1], "b": [{"c": [1]}]}}),
    ],
)
def test_references_to_objects_are_resolved(text: bytes, value: Any) -> None:
    if value is None:
        with pytest.raises(JsonError):
            json.loads(text)
    else:
        assert json.loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":{"v":1,"b":[{"$ref":".."}]}}',
        b'{"a":{"$ref":"$"}}',
        b'{"a":[{"$ref":"$.b"}],"b":[{"$ref":"$.a"}]}',
    ],
)
def test_references_that_lead_round_in_a_circle_are_refused(text: bytes) -> None:
    with pytest.raises(JsonError, match="around it"):
        json.loads(text)


def lines_of_references(count: int, width: int) -> bytes:
    """Each list holds the one before it many times over."""
    lists = [b'"x0":[1]']
    for number in range(1, count):
        item = b'{"$ref":"$.x%d"}' % (number - 1)
        lists.append(b'"x%d":[%b]' % (number, b",".join([item] * width)))
    return b"{%b}" % b",".join(lists)


def test_what_references_expand_to_is_limited() -> None:
    bomb = lines_of_references(30, 4)
    assert len(bomb) < 2700
    with pytest.raises(JsonError, match="references to more than"):
        json.loads(bomb)
    harmless = json.loads(lines_of_references(5, 4))
    assert len(standard.dumps(harmless["x4"])) < 2_000


def test_references_do_not_nest_without_end() -> None:
    with pytest.raises(JsonError, match="deep"):
        json.loads(lines_of_references(200, 1))
    forwards = [b'"x%d":[{"$ref":"$.x%d"}]' % (n, n + 1) for n in range(5_000)]
    with pytest.raises(JsonError, match="deep"):
        json.loads(b"{%b}" % b",".join([*forwards, b'"x5000":[]']))
    with pytest.raises(JsonError, match="deep"):
        json.loads(b"[" * 500 + b'{"$ref":"$"}' + b"]" * 500)


def test_headers_have_no_references() -> None:
    text = b'{"a":[1],"b":{"$ref":"$.a"}}'
    assert json.loads(text, json.HEADER_LIMITS) == {"a": [1], "b": {"$ref": "$.a"}}


@pytest.mark.parametrize(
    "text",
    [
        b'["%b"]' % (b"x" * 5_000_000),
        b"[%b]" % b",".join([b"{}"] * 10_001),
        b"[%b]" % b",".join([b"0"] * 100_002),
        b"[[%b]]" % b",".join([b"[]"] * 50_001),
        b"{0:'%b'}" % (b"x" * 200_000),
    ],
    ids=["bytes", "objects", "values", "lists", "dialect"],
)
def test_what_would_take_long_is_refused_in_a_request_alone(text: bytes) -> None:
    with pytest.raises(JsonError, match=r"allowed are|are read"):
        json.loads(text, json.REQUEST_LIMITS)
    assert json.loads(text)


def test_a_request_may_hold_what_honest_programs_send() -> None:
    topics = {f"topic-{n}": {"readQueueNums": 8, "writeQueueNums": 8} for n in range(7_000)}
    text = standard.dumps(topics).encode()
    assert json.loads(text, json.REQUEST_LIMITS) == topics
    assert json.loads(b"{0:'a',1:{b:2}}", json.REQUEST_LIMITS) == {"0": "a", "1": {"b": 2}}


@pytest.mark.parametrize(
    "piece",
    [b"0:0,", b"'a\\n':\"b\",", b",,,,", b"    ", b"a:'b',", b"{a:1}:1,", b"1:[[]],"],
)
def test_the_dialect_takes_time_by_its_length_alone(piece: bytes) -> None:
    def seconds(size: int) -> float:
        text = b"{0:0,%b}" % (piece * (size // len(piece)))
        started = time.process_time()
        json.loads(text)
        return time.process_time() - started

    # Eight times the text: quadratic work would take 64 times as long.
    assert seconds(320_000) < 30 * max(seconds(40_000), 0.001)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"a"}',
        b'{"a":}',
        b'{"a":1 "b":2}',
        b'{"a":1}x',
        b"[1 2]",
        b'"abc',
        b'"\\q"',
        b'"\\u12g4"',
        b"tru",
        b"{[1]:2}",
        b"{{a:[1]}:2}",
        b"[" * 100 + b"]" * 100 + b"'",
        b"{0:" + b"9" * 5000 + b"}",
        b"\x00\xff\xfe",
    ],
)
def test_what_is_no_json_at_all_is_refused(text: bytes) -> None:
    with pytest.raises(JsonError):
        json.loads(text)


@given(st.binary(max_size=60) | st.text("{}[]:,\"'\\abu0123456789 ", max_size=60).map(str.encode))
def test_nothing_but_json_errors_comes_out_of_garbage(data: bytes) -> None:
    try:
        json.loads(data)
    except JsonError:
        pass


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(TypeError):
        json.dumps({"a": object()})
    with pytest.raises(TypeError):
        json.dumps({(1, 2): 1})


def test_objects_that_know_their_json_are_written_wherever_they_stand() -> None:
    class Version:
        def to_json(self) -> dict[str, Any]:
            return {"counter": 1, "t": {0: 1}}

    expected = b'{"v":{"counter":1,"t":{0:1}}}'
    assert json.dumps({"v": Version()}) == expected
    assert json.dumps_pretty({"v": Version()}).translate(None, b"\n\t") == expected
    assert standard.loads(json.standard_dumps({"v": Version()})) == {
        "v": {"counter": 1, "t": {"0": 1}}
    }


def test_numbers_beyond_64_bits_are_written() -> None:
    assert json.dumps({"a": 2**70}) == b'{"a":%d}' % 2**70


def test_lone_surrogates_are_replaced() -> None:
    assert json.loads(json.dumps({"a": "x\ud800"})) == {"a": "x�"}


def test_a_large_map_is_written_as_a_small_one_is() -> None:
    table = {f"k{number}": {"a": number, "b": [number]} for number in range(2_500)}
    raw = {number: {"ü": number} for number in range(2_500)}
    for value in ({"x": 1, "table": table}, {"raw": raw, "table": table, "y": None}):
        written = json.dumps(value)
        assert b"".join(written.split()) == written
        assert json.loads(written) == json.loads(json.dumps_pretty(value))
    assert json.dumps({"table": table}) == orjson.dumps({"table": table})


def test_the_file_of_a_large_table_is_made_in_little_memory() -> None:
    table = {
        f"group-{number}": {f"field-{each}": True for each in range(20)} for number in range(2_000)
    }
    tracemalloc.start()
    try:
        size = sum(len(piece) for piece in json.pretty_pieces({"table": table}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 800_000
    assert peak < 500_000

"""The scan of a raw header reads what the general decoders read, or leaves it to them.

Frames go through the scan, here uncompiled as well; the same headers go through the general
decoders too, and both must say the same.
"""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.remoting import BadFrame, Command, SerializeType
from rocketq.remoting.hot.send import read_send
from rocketq.remoting.wire.binary_header import decode_binary_header
from rocketq.remoting.wire.frame import decode_frame
from rocketq.remoting.wire.json_header import HeaderFields, decode_json_header

pytestmark = pytest.mark.usefixtures("scanning")

texts = st.text(max_size=12) | st.text('"\\/\b\n\r\t\x01\x02é😀 ', max_size=6)
values = (
    texts
    | st.integers(-(2**70), 2**70)
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False)
    | st.lists(st.integers(), max_size=1)
)
headers = st.fixed_dictionaries(
    {},
    optional={
        "code": st.integers(-(2**31), 2**31) | st.text("0123456789", max_size=3),
        "language": st.sampled_from(["JAVA", "GO", "CPP", "PYTHON", "RUST", "COBOL", 9, None]),
        "version": st.integers(0, 600),
        "opaque": st.integers(-(2**31) - 1, 2**31),
        "flag": st.integers(0, 3),
        "remark": st.none() | texts,
        "serializeTypeCurrentRPC": st.just("JSON"),
        "extFields": st.none() | st.dictionaries(texts, values, max_size=26),
        "unknown": values,
    },
)


def as_read(decoded: Command) -> HeaderFields:
    has_ext_fields = decoded.has_ext_fields
    return HeaderFields(
        decoded.code,
        decoded.language,
        decoded.version,
        decoded.opaque,
        decoded.flag,
        decoded.remark,
        decoded.ext_fields if has_ext_fields else None,
    )


def assert_read_alike(header: bytes, kind: SerializeType) -> None:
    decode = decode_json_header if kind == SerializeType.JSON else decode_binary_header
    frame = struct.pack(">iI", 4 + len(header), kind << 24 | len(header)) + header
    try:
        expected = decode(header)
    except BadFrame:
        expected = None
    try:
        read = as_read(decode_frame(frame))
    except BadFrame:
        read = None
    assert read == expected


@given(headers, st.booleans(), st.booleans())
def test_json_headers_are_read_alike(
    header: dict[str, Any], ascii_only: bool, compact: bool
) -> None:
    text = json.dumps(header, ensure_ascii=ascii_only, separators=(",", ":") if compact else None)
    assert_read_alike(text.encode("utf-8", "surrogatepass"), SerializeType.JSON)


@given(headers, st.data())
def test_damaged_json_headers_are_read_alike(header: dict[str, Any], data: st.DataObject) -> None:
    text = bytearray(json.dumps(header, separators=(",", ":")).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b"\\", b"{", b"}", b",", b"0", b"-"])
        )
        if not text:
            break
    assert_read_alike(bytes(text), SerializeType.JSON)


binary_commands = st.builds(
    Command,
    st.integers(0, 2**15 - 1),
    ext_fields=st.dictionaries(
        st.text(max_size=10) | st.text("n", min_size=250, max_size=260), texts, max_size=26
    ),
    remark=st.none() | texts,
    flag=st.integers(0, 3),
    opaque=st.integers(-(2**31), 2**31 - 1),
    language=st.integers(0, 255),
    serialize_type=st.just(SerializeType.ROCKETMQ),
)


@given(binary_commands, st.data())
def test_binary_headers_are_read_alike_damaged_or_not(
    command: Command, data: st.DataObject
) -> None:
    header = bytearray(b"".join(command.encode())[8:])
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(header) - 1))
        header[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    assert_read_alike(bytes(header), SerializeType.ROCKETMQ)


@pytest.mark.parametrize("kind", SerializeType)
@pytest.mark.parametrize("size", [255, 256, 257, 513])
def test_a_field_with_a_very_long_name_keeps_it(kind: SerializeType, size: int) -> None:
    command = Command(1, ext_fields={"n" * size: "v", "b": "topic"}, serialize_type=kind)
    assert decode_frame(b"".join(command.encode())).ext_fields == command.ext_fields


def test_a_plain_header_is_scanned() -> None:
    command = Command(310, opaque=7, ext_fields={"b": "topic", "e": "3"})
    decoded = decode_frame(b"".join(command.encode()))
    fields = read_send(decoded)
    assert fields is not None
    assert (fields.topic, fields.queue_id) == ("topic", 3)
    # Of what stands in a header twice the last one counts, as in JSON.
    doubled = b'{"code":1,"extFields":{"e":"1","e":"2"},"opaque":1}'
    frame = struct.pack(">ii", 4 + len(doubled), len(doubled)) + doubled
    twice = read_send(decode_frame(frame))
    assert twice is not None
    assert twice.queue_id == 2

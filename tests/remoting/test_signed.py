"""Signed requests read where they lie say what the general way says."""

import base64
import hmac
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.remoting import Command, SerializeType
from rocketq.remoting.access.signature import RequestSigner, Secret, is_signed
from rocketq.remoting.hot.signed import field_of, fields_of, read_signed
from rocketq.remoting.wire.frame import FrameSplitter

pytestmark = pytest.mark.usefixtures("scanning")

names = st.text(min_size=1, max_size=12).filter(lambda text: text not in ("Signature", "AccessKey"))
values = st.text(max_size=30)


def received(command: Command) -> Command:
    (found,) = FrameSplitter().feed(b"".join(command.encode()))
    return found


@given(
    st.dictionaries(names, values, max_size=16),
    st.binary(max_size=200),
    st.sampled_from(list(SerializeType)),
)
def test_both_ways_agree(fields: dict[str, str], body: bytes, form: SerializeType) -> None:
    secret = Secret(b"a secret")
    request = Command(310, ext_fields=dict(fields), body=body, serialize_type=form)
    RequestSigner("alice", "a secret").before_request("", request)
    found = received(request)
    signed = read_signed(found)
    if signed is not None:
        assert signed.access_key == "alice"
        assert secret.has_signed(signed)
        assert not Secret(b"another").has_signed(signed)
    for name, value in fields.items():
        assert field_of(found, name) == value
    assert field_of(found, "nothing of the kind") == ""
    asked = (*fields, "nothing of the kind")
    found_values = fields_of(found, tuple(name.encode() for name in asked))
    assert found_values == (*fields.values(), "")
    assert is_signed(found, secret)
    assert found.ext_fields == request.ext_fields


@pytest.mark.parametrize(
    ("head", "user"),
    [
        (b'"AccessKey":"alice","AccessKey":"mallory"', "mallory"),
        (b'"AccessKey":"mallory","b":"mine","AccessKey":"alice","b":"theirs"', "alice"),
    ],
)
def test_of_two_fields_of_a_name_everybody_takes_the_last(head: bytes, user: str) -> None:
    """Whoever checks and whoever acts must not read different things."""
    header = b'{"code":310,"opaque":1,"extFields":{' + head + b"}}"
    frame = struct.pack(">ii", 4 + len(header), len(header)) + header
    [found] = FrameSplitter().feed(frame)
    signed = read_signed(found)
    assert signed is None or signed.access_key == user
    topic = field_of(found, "b")
    assert fields_of(found, (b"AccessKey", b"b")) == (user, topic)
    assert field_of(found, "AccessKey") == user
    assert found.ext_fields.get("AccessKey") == user
    assert found.ext_fields.get("b", "") == topic


def test_the_fields_stay_in_place_for_the_next_reader() -> None:
    request = Command(310, ext_fields={"b": "topic", "a": "group"}, body=b"x")
    RequestSigner("alice", "a secret").before_request("", request)
    found = received(request)
    signed = read_signed(found)
    assert signed is not None
    assert signed.content == b"alicegrouptopicx"
    assert read_signed(found) is not None


@given(st.binary(max_size=200), st.binary(max_size=6000))
def test_signatures_are_hmac(secret: bytes, content: bytes) -> None:
    expected = hmac.digest(secret, content, "sha1")
    assert Secret(secret).sign(content) == base64.b64encode(expected)


@pytest.mark.parametrize("size", [*range(200), 4_095, 4_096, 4_097, 100_000])
def test_a_signature_is_hmac_sha1(size: int) -> None:
    content = bytes(number * 7 & 255 for number in range(size))
    for key in (b"", b"k", b"x" * 63, b"x" * 64, b"x" * 65, b"x" * 200):
        expected = base64.b64encode(hmac.digest(key, content, "sha1"))
        assert Secret(key).sign(content) == expected


@pytest.mark.parametrize(
    "value", ["é" * 100, '\x01\x02\n\t\\"', "a\x00b", "\U0001f600", ""], ids=ascii
)
@pytest.mark.parametrize("form", list(SerializeType))
def test_values_of_any_text_are_signed(value: str, form: SerializeType) -> None:
    request = Command(310, ext_fields={"a": value, "z": value}, body=b"b", serialize_type=form)
    RequestSigner("alice", "a secret").before_request("", request)
    assert is_signed(received(request), Secret(b"a secret"))


def test_a_value_that_is_not_utf8_takes_no_room_of_others() -> None:
    request = Command(
        310, ext_fields={"a": "x" * 50, "b": "y"}, body=b"", serialize_type=SerializeType.ROCKETMQ
    )
    RequestSigner("alice", "a secret").before_request("", request)
    frame = b"".join(request.encode()).replace(b"x" * 50, b"\xff" * 50)
    (found,) = FrameSplitter().feed(frame)
    signed = read_signed(found)
    assert signed is None or not Secret(b"a secret").has_signed(signed)
    assert not is_signed(found, Secret(b"a secret"))

"""Headers and bodies that are small to send and large to read."""

import struct
import time

import pytest

from rocketq.remoting import BadFrame, Command, SerializeType
from rocketq.remoting.bodies.body import BadBody
from rocketq.remoting.bodies.heartbeat import HeartbeatData
from rocketq.remoting.wire.frame import FrameSplitter, decode_frame
from tests.common.test_json import lines_of_references
from tests.remoting.link.test_server import echo
from tests.remoting.peer import serving


def frame(header: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(header), len(header)) + header


def test_references_in_a_header_stand_for_themselves() -> None:
    header = b'{"code":1,"opaque":2,"extFields":%b}' % lines_of_references(26, 4)
    assert len(header) < 2600
    started = time.process_time()
    fields = decode_frame(frame(header)).ext_fields
    assert time.process_time() - started < 1
    assert fields["x25"] == '[{"$ref":"$.x24"},{"$ref":"$.x24"},{"$ref":"$.x24"},{"$ref":"$.x24"}]'


def test_references_in_a_heartbeat_expand_within_bounds() -> None:
    bomb = lines_of_references(26, 4).replace(b'"x25"', b'"consumerDataSet"')
    request = Command(34, body=bomb)
    with pytest.raises(BadBody, match="references to more than"):
        HeartbeatData.from_request(request)


@pytest.mark.parametrize("form", SerializeType)
def test_a_header_has_a_limited_number_of_fields(form: SerializeType) -> None:
    def command(count: int) -> bytes:
        fields = {f"f{number}": "x" for number in range(count)}
        return b"".join(Command(1, ext_fields=fields, serialize_type=form).encode())

    assert len(decode_frame(command(1024)).ext_fields) == 1024
    with pytest.raises(BadFrame, match="ext fields"):
        decode_frame(command(1025))


def test_a_dialect_header_may_not_be_long() -> None:
    assert decode_frame(frame(b"{code:1,remark:'%b'}" % (b"x" * 60_000))).code == 1
    with pytest.raises(BadFrame, match="plain JSON"):
        decode_frame(frame(b"{code:1,remark:'%b'}" % (b"x" * 70_000)))


def test_a_header_beyond_its_limit_ends_the_stream() -> None:
    small = b"".join(Command(1, remark="x" * 900, body=b"b" * 10_000).encode())
    large = b"".join(Command(1, remark="x" * 1100, body=b"b").encode())
    splitter = FrameSplitter(header_limit=1024)
    assert len(splitter.feed(small + small + large)) == 2
    assert "header of 12" in str(splitter.error)


async def test_a_server_takes_the_longest_honest_header_and_no_longer_one() -> None:
    async with serving({1: echo}) as (_, connect):
        peer = await connect()
        properties = "\u0001" * 32_767
        await peer.say(Command(1, opaque=1, ext_fields={"i": properties}))
        assert (await peer.hear()).ext_fields["i"] == properties
        await peer.say(Command(1, opaque=2, ext_fields={"i": "x" * 300_000}))
        assert await peer.is_hung_up_on()

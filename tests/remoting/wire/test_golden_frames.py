"""Every recorded frame decodes, and encodes back to the very same bytes."""

import pytest

from rocketq.remoting import LanguageCode, SerializeType
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.frame import FrameSplitter, decode_frame
from tests.remoting.golden import CAPTURES, recorded


@pytest.mark.parametrize("capture", CAPTURES)
def test_recorded_frames_say_what_their_recorder_understood(capture: str) -> None:
    for each in recorded(capture):
        command = decode_frame(each.frame)
        assert command.code == each.header["code"], each
        assert command.flag == each.header["flag"], each
        assert command.opaque == each.header["opaque"], each
        assert command.version == each.header["version"], each
        assert LanguageCode(command.language).name == each.header["language"], each
        assert command.remark == each.header["remark"], each
        assert command.ext_fields == (each.ext_fields or {}), each
        assert bytes(command.body) == each.body, each


@pytest.mark.parametrize("capture", CAPTURES)
def test_recorded_frames_encode_to_the_same_bytes(capture: str) -> None:
    for each in recorded(capture):
        command = decode_frame(each.frame)
        assert b"".join(command.encode()) == each.frame, each
        # Again, after somebody has looked at everything.
        assert repr(command)
        assert b"".join(command.encode()) == each.frame, each


@pytest.mark.parametrize("capture", CAPTURES)
def test_recorded_frames_mean_the_same_in_the_other_encoding(capture: str) -> None:
    for each in recorded(capture):
        command = decode_frame(each.frame)
        other = Command(
            command.code,
            ext_fields=command.ext_fields,
            body=command.body,
            remark=command.remark,
            flag=command.flag,
            opaque=command.opaque,
            language=command.language,
            version=command.version,
            serialize_type=(
                SerializeType.JSON
                if command.serialize_type == SerializeType.ROCKETMQ
                else SerializeType.ROCKETMQ
            ),
        )
        again = decode_frame(b"".join(other.encode()))
        assert again.serialize_type != command.serialize_type
        # The binary form does not know an empty remark, and cuts the codes of pop.
        assert (again.remark or None) == (command.remark or None), each
        assert (again.code, again.flag, again.opaque) == (
            command.code,
            command.flag,
            command.opaque,
        ), each
        assert again.ext_fields == command.ext_fields, each
        assert again.body == command.body, each


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("piece", [1, 7, 1000, 65536])
def test_a_recorded_conversation_is_split_into_its_frames(capture: str, piece: int) -> None:
    frames = [each.frame for each in recorded(capture)]
    if piece < 1000:
        frames = frames[:40]
    stream = b"".join(frames)
    splitter = FrameSplitter()
    commands = []
    for at in range(0, len(stream), piece):
        commands += splitter.feed(stream[at : at + piece])
    assert splitter.error is None
    assert splitter.buffered == 0
    assert [b"".join(command.encode()) for command in commands] == frames

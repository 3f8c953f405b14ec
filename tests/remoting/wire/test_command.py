"""Commands: what they say, and how they travel in either encoding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.remoting import (
    Command,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SerializeType,
    Version,
)
from rocketq.remoting.headers import (
    PullMessage,
    QueryConsumerOffset,
    QueryConsumerOffsetResponse,
)
from rocketq.remoting.wire.command import next_opaque
from rocketq.remoting.wire.frame import decode_frame

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ints = st.integers(-(2**31), 2**31 - 1)
codes = st.integers(0, 2**15 - 1).filter(lambda code: not 3442 <= code <= 3600)
commands = st.builds(
    Command,
    codes,
    ext_fields=st.none() | st.dictionaries(texts, texts, max_size=30),
    body=st.binary(max_size=100),
    remark=st.none() | texts.filter(bool),
    flag=st.sampled_from([0, 1, 2, 3]),
    opaque=ints,
    language=st.sampled_from(LanguageCode),
    version=st.integers(0, 2**15 - 1),
    serialize_type=st.sampled_from(SerializeType),
)


@given(commands)
def test_commands_come_back_as_they_were(command: Command) -> None:
    again = decode_frame(b"".join(command.encode()))
    assert again.code == command.code
    assert again.language == command.language
    assert again.version == command.version
    assert again.opaque == command.opaque
    assert again.flag == command.flag
    assert again.serialize_type == command.serialize_type
    assert again.remark == command.remark
    assert again.ext_fields == command.ext_fields
    assert again.body == command.body


@given(commands)
def test_what_was_received_can_be_sent_on(command: Command) -> None:
    frame = b"".join(command.encode())
    assert b"".join(decode_frame(frame).encode()) == frame


@given(commands)
def test_encoding_says_how_many_bytes_it_makes(command: Command) -> None:
    out: list[bytes | bytearray | memoryview] = []
    assert command.encode_into(out) == len(b"".join(out))


def test_a_request_is_written_as_java_writes_it() -> None:
    request = Command(
        105,
        ext_fields={"topic": "TopicA"},
        opaque=7,
        language=LanguageCode.JAVA,
        version=Version.V5_3_3,
    )
    header = (
        b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    assert b"".join(request.encode()) == bytes.fromhex("0000008400000080") + header
    request.serialize_type = SerializeType.ROCKETMQ
    assert b"".join(request.encode()) == bytes.fromhex(
        "0000002a 01000026 0069 00 01df 00000007 00000000 00000000 00000011"
        "0005 746f706963 00000006 546f70696341"
    )


def test_a_reply_answers_in_the_form_of_the_request() -> None:
    for form in SerializeType:
        request = Command(RequestCode.QUERY_CONSUMER_OFFSET, opaque=-5, serialize_type=form)
        reply = request.reply(QueryConsumerOffsetResponse(offset=12), b"body", ext={"more": "1"})
        assert reply.is_response
        assert not reply.is_oneway
        assert (reply.opaque, reply.serialize_type) == (-5, form)
        assert reply.ext_fields == {"offset": "12", "more": "1"}
        again = decode_frame(b"".join(reply.encode()))
        assert again.header(QueryConsumerOffsetResponse).offset == 12
        assert again.body == b"body"
        assert (again.language, again.version) == (LanguageCode.PYTHON, Version.CURRENT)


def test_a_refusal_has_a_code_and_a_remark() -> None:
    reply = Command(1).reply(code=ResponseCode.TOPIC_NOT_EXIST, remark="no such topic")
    assert (reply.code, reply.remark, reply.has_ext_fields) == (17, "no such topic", False)


def test_a_request_is_made_from_a_typed_header_or_a_code() -> None:
    header = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=3)
    request = Command.request(header, b"x", ext={"bname": "b"})
    assert request.code == RequestCode.QUERY_CONSUMER_OFFSET
    assert request.header(QueryConsumerOffset) == QueryConsumerOffset(
        consumer_group="g", topic="t", queue_id=3, broker_name="b"
    )
    assert Command.request(RequestCode.HEART_BEAT).code == 34
    pull = PullMessage.from_ext_fields({})
    assert Command.request(pull, code=RequestCode.LITE_PULL_MESSAGE).code == 361
    assert Command.request(34, oneway=True).is_oneway
    assert not Command.request(34).is_oneway


def test_no_two_requests_share_an_opaque_and_none_has_zero() -> None:
    opaques = [next_opaque() for _ in range(1000)]
    assert len(set(opaques)) == 1000
    assert 0 not in opaques


def test_a_body_in_parts_is_sent_without_being_joined() -> None:
    first, second = memoryview(b"one"), bytearray(b"two")
    reply = Command(1).reply(body=[first, second])
    out = reply.encode()
    assert out[1] is first
    assert out[2] is second
    assert reply.body == b"onetwo"
    assert decode_frame(b"".join(out)).body == b"onetwo"


def test_a_small_body_is_a_copy_and_a_large_one_a_view() -> None:
    small = decode_frame(b"".join(Command(1, body=b"x" * 4096).encode()))
    large = decode_frame(b"".join(Command(1, body=b"x" * 4097).encode()))
    assert isinstance(small.body, bytes)
    assert isinstance(large.body, memoryview)
    assert large.body == b"x" * 4097
    assert large.body is large.body


def test_what_is_changed_is_sent_changed() -> None:
    command = decode_frame(b"".join(Command(1, ext_fields={"a": "1"}, remark="r").encode()))
    command.ext_fields["b"] = "2"
    command.remark = "s"
    command.body = b"new"
    command.opaque = 9
    again = decode_frame(b"".join(command.encode()))
    assert (again.ext_fields, again.remark, again.body, again.opaque) == (
        {"a": "1", "b": "2"},
        "s",
        b"new",
        9,
    )


def test_looking_at_ext_fields_does_not_make_any() -> None:
    command = Command(1)
    assert command.ext_fields == {}
    assert b"extFields" not in b"".join(command.encode())
    assert b'"extFields":{}' in b"".join(Command(1, ext_fields={}).encode())


def test_the_raw_header_is_what_came() -> None:
    command = Command(1, body=b"body")
    assert bytes(command.raw_header) == b""
    frame = b"".join(command.encode())
    assert bytes(decode_frame(frame).raw_header) == frame[8:-4]


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_the_codes_of_pop_survive_the_binary_form(serialize_type: SerializeType) -> None:
    for code in (RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE):
        command = Command(code, serialize_type=serialize_type)
        assert decode_frame(b"".join(command.encode())).code == code


def test_texts_that_are_no_unicode_are_sent_with_replacements() -> None:
    for form in SerializeType:
        command = Command(1, ext_fields={"a": "x\ud800y"}, remark="\udfff", serialize_type=form)
        again = decode_frame(b"".join(command.encode()))
        assert again.ext_fields["a"][0] == "x"
        assert again.ext_fields["a"][-1] == "y"
        assert again.remark


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        # Go, ali-ons and C++, as the sheet has them; then what only the lenient reader takes.
        (
            b'{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"",'
            b'"extFields":{"topic":"TopicA"}}',
            {"topic": "TopicA"},
        ),
        (
            b'{"code":105,"language":"JAVA","opaque":1,"flag":0,"version":121,'
            b'"extFields":{"topic":"TopicA","d":4,"k":false,"m":true,"o":-12,"n":null}}',
            {"topic": "TopicA", "d": "4", "k": "false", "m": "true", "o": "-12"},
        ),
        (
            b'{"code":105,"extFields":{"AccessKey":"","OnsChannel":"ALIYUN","topic":"TopicA"},'
            b'"flag":0,"language":"CPP","opaque":1,"remark":"","version":333}\n',
            {"AccessKey": "", "OnsChannel": "ALIYUN", "topic": "TopicA"},
        ),
        (
            b'{ "code" : 105 , "opaque": "1", "extFields" : { "a" : "\\u00e9\\"" , "b" : 1.5 } }',
            {"a": 'é"', "b": "1.5"},
        ),
        (b"{code:105,'opaque':1,extFields:{'a':'b',},}", {"a": "b"}),
        (b'{"code":105,"opaque":1,"new":{"x":[1]},"extFields":{"a":{"b":1}}}', {"a": '{"b":1}'}),
        (b'{"code":105,"opaque":1,"language":"COBOL","extFields":null}', {}),
        (b'{"code":105,"opaque":1,"language":9,"extFields":{"a":"\xff"}}', {"a": "�"}),
        (b'{"code":105,"opaque":1,"extFields":{"a":"1","a":"2"}}', {"a": "2"}),
    ],
)
def test_headers_of_all_sorts_of_programs_are_understood(
    header: bytes, fields: dict[str, str]
) -> None:
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    command = decode_frame(frame)
    assert (command.code, command.opaque, command.flag) == (105, 1, 0)
    assert command.ext_fields == fields

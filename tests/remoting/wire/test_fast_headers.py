"""The quick way through send and pull headers says what the general way says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.remoting import Command, RequestCode, SerializeType
from rocketq.remoting.headers import (
    PullMessage,
    PullMessageResponse,
    SendMessageResponse,
    SendMessageV2,
)
from rocketq.remoting.hot.pull import PullFields, read_pull, reply_to_pull
from rocketq.remoting.hot.send import SendFields, SendReplies, read_send
from rocketq.remoting.wire.frame import decode_frame
from tests.remoting.golden import all_recorded

pytestmark = pytest.mark.usefixtures("scanning")

texts = st.text(max_size=12) | st.text('"\\/\n\x01\x02é😀 ', max_size=8)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(10**18) + 1, 10**18 - 1)
forms = st.sampled_from(SerializeType)
send_headers = st.builds(
    SendMessageV2,
    producer_group=texts,
    topic=texts,
    default_topic=texts,
    default_topic_queue_nums=int32s,
    queue_id=int32s,
    sys_flag=int32s,
    born_timestamp=int64s,
    flag=int32s,
    properties=st.none() | texts,
    reconsume_times=st.none() | int32s,
    unit_mode=st.none() | st.booleans(),
    max_reconsume_times=st.none() | int32s,
    batch=st.none() | st.booleans(),
    broker_name=st.none() | texts,
)
pull_headers = st.builds(
    PullMessage,
    consumer_group=texts,
    topic=texts,
    queue_id=int32s,
    queue_offset=int64s,
    max_msg_nums=int32s,
    sys_flag=int32s,
    commit_offset=int64s,
    suspend_timeout_millis=int64s,
    subscription=st.none() | texts,
    sub_version=int64s,
    expression_type=st.none() | texts,
    max_msg_bytes=st.none() | int32s,
    lite_topic=st.none() | texts,
    broker_name=st.none() | texts,
)


def received(command: Command, form: SerializeType) -> Command:
    command.serialize_type = form
    return decode_frame(b"".join(command.encode()))


def assert_same_send(fields: SendFields | None, header: SendMessageV2) -> None:
    assert fields is not None
    assert fields.producer_group == header.producer_group
    assert fields.topic == header.topic
    assert fields.topic_bytes == header.topic.encode()
    assert fields.default_topic == header.default_topic
    assert fields.default_topic_queue_nums == header.default_topic_queue_nums
    assert fields.queue_id == header.queue_id
    assert fields.sys_flag == header.sys_flag
    assert fields.born_timestamp == header.born_timestamp
    assert fields.flag == header.flag
    assert fields.properties == (header.properties or "").encode()
    assert fields.reconsume_times == (header.reconsume_times or 0)
    assert fields.unit_mode == bool(header.unit_mode)
    expected = -1 if header.max_reconsume_times is None else header.max_reconsume_times
    assert fields.max_reconsume_times == expected
    assert fields.batch == bool(header.batch)
    assert fields.broker_name == (header.broker_name or "")


def assert_same_pull(fields: PullFields | None, header: PullMessage) -> None:
    assert fields is not None
    for name in (
        "consumer_group",
        "topic",
        "queue_id",
        "queue_offset",
        "max_msg_nums",
        "sys_flag",
        "commit_offset",
        "suspend_timeout_millis",
        "subscription",
        "sub_version",
        "expression_type",
        "lite_topic",
        "broker_name",
    ):
        assert getattr(fields, name) == getattr(header, name), name
    assert fields.max_msg_bytes == (-1 if header.max_msg_bytes is None else header.max_msg_bytes)


@given(send_headers, forms, st.dictionaries(texts.filter(lambda name: len(name) > 1), texts))
def test_sends_are_read_as_in_general(
    header: SendMessageV2, form: SerializeType, more: dict[str, str]
) -> None:
    request = received(Command.request(header, ext=more), form)
    assert_same_send(read_send(request), request.header(SendMessageV2))


@given(pull_headers, forms)
def test_pulls_are_read_as_in_general(header: PullMessage, form: SerializeType) -> None:
    request = received(Command.request(header), form)
    assert_same_pull(read_pull(request), request.header(PullMessage))


def test_recorded_sends_and_pulls_are_read_as_in_general() -> None:
    sends = pulls = 0
    for each in all_recorded():
        request = decode_frame(each.frame)
        if request.is_response:
            continue
        if request.code in (
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_BATCH_MESSAGE,
            RequestCode.SEND_REPLY_MESSAGE_V2,
        ):
            fields = read_send(request)
            assert_same_send(fields, request.header(SendMessageV2))
            # And once more after the ext fields were taken out.
            assert_same_send(read_send(request), request.header(SendMessageV2))
            assert_same_send(fields, request.header(SendMessageV2))
            sends += 1
        elif request.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            assert_same_pull(read_pull(request), request.header(PullMessage))
            assert_same_pull(read_pull(request), request.header(PullMessage))
            pulls += 1
    assert sends > 30
    assert pulls > 30


@pytest.mark.parametrize("form", SerializeType)
@pytest.mark.parametrize("number", ["", "x", "1.5", "-", "99999999999", "0x1", "1 ", "9" * 19])
def test_numbers_that_are_none_take_the_general_way(form: SerializeType, number: str) -> None:
    send = received(Command(310, ext_fields={"b": "t", "e": number}), form)
    pull = received(Command(11, ext_fields={"topic": "t", "queueId": number}), form)
    for fields in (read_send(send), read_pull(pull)):
        if number == "":
            assert fields is not None
            assert fields.queue_id == 0
        else:
            assert fields is None


def test_native_numbers_and_booleans_are_read() -> None:
    header = b'{"code":310,"extFields":{"b":"t","d":4,"e":-1,"g":1700000000000,"k":false,"m":true}}'
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    fields = read_send(decode_frame(frame))
    assert fields is not None
    assert (fields.default_topic_queue_nums, fields.queue_id) == (4, -1)
    assert fields.born_timestamp == 1_700_000_000_000
    assert (fields.unit_mode, fields.batch) == (False, True)


def test_text_that_is_not_unicode_is_replaced() -> None:
    header = b'{"code":310,"extFields":{"b":"t\xff","i":"a\\u0001\xc3\x28\\u0002"}}'
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    fields = read_send(decode_frame(frame))
    assert fields is not None
    assert fields.topic == "t�"
    assert fields.topic_bytes == "t�".encode()
    assert fields.properties == "a\x01�(\x02".encode()


@given(
    forms,
    st.sampled_from([b"\x7f\x00\x00\x01\x00\x00\x2a\x9f", bytes(range(20))]),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.none() | texts,
    st.sampled_from(["DefaultRegion", 'a "region"']),
    st.booleans(),
)
def test_replies_to_sends_say_where_the_message_is(
    form: SerializeType,
    host: bytes,
    physical_offset: int,
    queue_id: int,
    queue_offset: int,
    transaction_id: str | None,
    region: str,
    trace_on: bool,
) -> None:
    request = received(Command.request(310), form)
    unique_key = None if transaction_id is None else transaction_id.encode()
    reply = SendReplies(region, trace_on).reply(
        request, 10, host, physical_offset, queue_id, queue_offset, unique_key
    )
    assert (reply.code, reply.is_response, reply.opaque) == (10, True, request.opaque)
    again = decode_frame(b"".join(reply.encode()))
    assert (again.code, again.is_response, again.opaque) == (10, True, request.opaque)
    assert again.serialize_type == form
    assert again.header(SendMessageResponse) == SendMessageResponse(
        msg_id=(host + physical_offset.to_bytes(8, "big")).hex().upper(),
        queue_id=queue_id,
        queue_offset=queue_offset,
        transaction_id=transaction_id,
        region_id=region,
        trace_on="true" if trace_on else "false",
    )
    assert reply.ext_fields == again.ext_fields
    assert b"".join(reply.encode()) == b"".join(again.encode())


@given(forms, st.integers(0, 2**63 - 1), st.lists(st.binary(max_size=50), max_size=3))
def test_replies_to_pulls_say_where_to_go_on(
    form: SerializeType, offset: int, body: list[bytes]
) -> None:
    request = received(Command.request(11), form)
    reply = reply_to_pull(request, 0, b"FOUND", 1, offset, 0, offset, 2, 3, body)
    again = decode_frame(b"".join(reply.encode()))
    assert (again.code, again.is_response, again.opaque) == (0, True, request.opaque)
    assert (again.remark, again.body) == ("FOUND", b"".join(body))
    assert again.header(PullMessageResponse) == PullMessageResponse(
        suggest_which_broker_id=1,
        next_begin_offset=offset,
        min_offset=0,
        max_offset=offset,
        topic_sys_flag=2,
        group_sys_flag=3,
    )
    assert reply_to_pull(request, 19, None, 0, 0, 0, 0).remark is None


def test_a_reply_made_in_one_piece_can_still_be_changed() -> None:
    request = received(Command.request(310), SerializeType.JSON)
    reply = SendReplies().reply(request, 0, bytes(8), 1, 2, 3, b"key")
    reply.ext_fields["recallHandle"] = "handle"
    reply.remark = "remark"
    again = decode_frame(b"".join(reply.encode()))
    assert again.remark == "remark"
    assert again.header(SendMessageResponse).recall_handle == "handle"
    assert again.header(SendMessageResponse).queue_id == 2

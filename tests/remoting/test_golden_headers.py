"""Typed headers hold everything that real programs put into theirs."""

import dataclasses
from collections import defaultdict

import pytest

from rocketq.remoting import headers
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers import RequestHeader, ResponseHeader
from rocketq.remoting.headers.header import columns
from rocketq.remoting.wire.frame import decode_frame
from tests.remoting.golden import Recorded, all_recorded

# Not fields of one header but keys that any request may carry (1.9), and what 5.5.0 signs.
ANYWHERE = {"bname", "ns", "nsd", "oway", "lo", "ReqT"}

REQUESTS: dict[int, type[RequestHeader]] = {
    cls.CODE: cls
    for cls in vars(headers).values()
    if isinstance(cls, type) and issubclass(cls, RequestHeader) and hasattr(cls, "CODE")
}
REQUESTS |= {
    RequestCode.SEND_BATCH_MESSAGE: headers.SendMessageV2,
    RequestCode.SEND_REPLY_MESSAGE_V2: headers.SendMessageV2,
    RequestCode.SEND_REPLY_MESSAGE: headers.SendMessage,
    RequestCode.LITE_PULL_MESSAGE: headers.PullMessage,
    RequestCode.AUTH_UPDATE_USER: headers.CreateUser,
    RequestCode.AUTH_UPDATE_ACL: headers.CreateAcl,
}
RESPONSES: dict[str, type[ResponseHeader]] = {
    "GET_KV_CONFIG": headers.GetKvConfigResponse,
    "REGISTER_BROKER": headers.RegisterBrokerResponse,
    "QUERY_DATA_VERSION": headers.QueryDataVersionResponse,
    "WIPE_WRITE_PERM_OF_BROKER": headers.WipeWritePermResponse,
    "ADD_WRITE_PERM_OF_BROKER": headers.AddWritePermResponse,
    "SEND_MESSAGE": headers.SendMessageResponse,
    "SEND_MESSAGE_V2": headers.SendMessageResponse,
    "SEND_BATCH_MESSAGE": headers.SendMessageResponse,
    "SEND_REPLY_MESSAGE_V2": headers.SendMessageResponse,
    "RECALL_MESSAGE": headers.RecallMessageResponse,
    "PULL_MESSAGE": headers.PullMessageResponse,
    "LITE_PULL_MESSAGE": headers.PullMessageResponse,
    "POP_MESSAGE": headers.PopMessageResponse,
    "PEEK_MESSAGE": headers.PopMessageResponse,
    "CHANGE_MESSAGE_INVISIBLETIME": headers.ChangeInvisibleTimeResponse,
    "NOTIFICATION": headers.NotificationResponse,
    "POLLING_INFO": headers.PollingInfoResponse,
    "HEART_BEAT": headers.HeartBeatResponse,
    "QUERY_CONSUMER_OFFSET": headers.QueryConsumerOffsetResponse,
    "GET_MAX_OFFSET": headers.GetMaxOffsetResponse,
    "GET_MIN_OFFSET": headers.GetMinOffsetResponse,
    "SEARCH_OFFSET_BY_TIMESTAMP": headers.SearchOffsetResponse,
    "GET_EARLIEST_MSG_STORETIME": headers.GetEarliestMsgStoretimeResponse,
    "QUERY_MESSAGE": headers.QueryMessageResponse,
    "GET_BROKER_CONFIG": headers.GetBrokerConfigResponse,
    "GET_ALL_TOPIC_CONFIG": headers.GetAllTopicConfigResponse,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": headers.GetAllSubscriptionGroupConfigResponse,
    "EXCHANGE_BROKER_HA_INFO": headers.ExchangeBrokerHaInfoResponse,
}


def requests() -> list[Recorded]:
    return [each for each in all_recorded() if each.kind != "response" and each.ext_fields]


def responses() -> list[Recorded]:
    return [each for each in all_recorded() if each.kind == "response" and each.ext_fields]


def test_recorded_requests_round_trip_through_their_typed_headers() -> None:
    seen = set()
    for each in requests():
        request = decode_frame(each.frame)
        cls = REQUESTS[request.code]
        fields = request.header(cls).to_ext_fields()
        known = {column.names[0] for column in columns(cls)}
        assert {name: fields[name] for name in request.ext_fields if name in known} == {
            name: value for name, value in request.ext_fields.items() if name in known
        }, each
        extra = request.ext_fields.keys() - known - ANYWHERE
        assert extra <= {"removeOffset"}, (each, extra)
        seen.add(cls)
    assert len(seen) > 45


def test_recorded_responses_round_trip_through_their_typed_headers() -> None:
    unread: dict[str, set[str]] = defaultdict(set)
    for each in responses():
        response = decode_frame(each.frame)
        if each.exchange not in RESPONSES:
            unread[each.exchange] |= response.ext_fields.keys()
            continue
        header = response.header(RESPONSES[each.exchange])
        fields = header.to_ext_fields()
        assert fields.items() >= response.ext_fields.items(), each
    assert not unread


@pytest.mark.parametrize("cls", REQUESTS.values())
def test_an_empty_request_is_read_with_defaults_and_zeros(cls: type[RequestHeader]) -> None:
    header = cls.from_ext_fields({})
    for field in dataclasses.fields(header):  # type: ignore[arg-type]
        value = getattr(header, field.name)
        if field.default is dataclasses.MISSING:
            assert value in ("", 0, False)
        else:
            assert value == field.default


def test_what_makes_no_sense_is_read_as_if_it_were_not_there() -> None:
    header = headers.PullMessage.from_ext_fields(
        {"topic": "t", "queueId": "seven", "queueOffset": "1_000", "maxMsgNums": "٣", "sysFlag": ""}
    )
    assert header.topic == "t"
    assert (header.queue_id, header.queue_offset, header.max_msg_nums, header.sys_flag) == (
        0,
        0,
        0,
        0,
    )
    assert headers.GetMaxOffset.from_ext_fields({"committed": "TRUE"}).committed
    assert not headers.GetMaxOffset.from_ext_fields({"committed": "1"}).committed


def test_a_field_may_go_by_two_names() -> None:
    assert headers.DeleteSubscriptionGroup.from_ext_fields({"removeOffset": "true"}).clean_offset
    assert headers.DeleteSubscriptionGroup.from_ext_fields({"cleanOffset": "true"}).clean_offset
    assert headers.DeleteSubscriptionGroup(group_name="g", clean_offset=True).to_ext_fields() == {
        "groupName": "g",
        "cleanOffset": "true",
    }

"""Bodies from programs other than Java."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketq.common.loop.slices import at_once
from rocketq.message.queue import MessageQueue
from rocketq.remoting import Command, RequestCode
from rocketq.remoting.bodies.heartbeat import HeartbeatData
from rocketq.remoting.bodies.reset import ResetOffsetBody
from rocketq.remoting.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketq.remoting.bodies.running_info import ConsumeMessageDirectlyResult, ProcessQueueInfo
from rocketq.remoting.bodies.stats import ConsumeStats, QueueTimeSpan

QUEUE = MessageQueue("TopicA", "broker-a", 0)


def test_a_heartbeat_of_cpp_has_ordinals_and_leaves_out_what_is_empty() -> None:
    beat = HeartbeatData.decode(
        b'{"clientID":"c@1","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,'
        b'"groupName":"g","messageModel":0,"subscriptionDataSet":[{"subString":"*",'
        b'"subVersion":"1700000000000","topic":"t"}]}]}\n'
    )
    (consumer,) = beat.consumer_data_set
    assert consumer.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    assert consumer.consume_type == "CONSUME_PASSIVELY"
    assert consumer.message_model == "BROADCASTING"
    (subscription,) = consumer.subscription_data_set
    assert subscription.sub_version == 1_700_000_000_000
    assert (subscription.expression_type, subscription.tags_set) == ("TAG", [])
    assert beat.producer_data_set == []


plain_things = st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=3), st.booleans())
objects = st.dictionaries(
    st.sampled_from(["groupName", "topic", "subString", "subVersion", "x"]), plain_things
)
consumers = st.fixed_dictionaries(
    {},
    optional={
        "groupName": plain_things,
        "consumeType": plain_things,
        "subscriptionDataSet": st.one_of(
            plain_things, st.lists(st.one_of(objects, plain_things), max_size=4)
        ),
    },
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "clientID": plain_things,
            "consumerDataSet": st.one_of(
                plain_things, st.lists(st.one_of(consumers, plain_things), max_size=4)
            ),
            "producerDataSet": st.one_of(plain_things, st.lists(objects, max_size=4)),
        },
    )
)
def test_in_slices_a_heartbeat_reads_the_same(plain: dict[str, Any]) -> None:
    request = Command(RequestCode.HEART_BEAT, body=json.dumps(plain).encode())
    assert at_once(HeartbeatData.slices_of_request(request)) == HeartbeatData.from_request(request)


def test_slices_are_short() -> None:
    subscriptions = [{"topic": f"t{number}", "subString": "*"} for number in range(500)]
    consumer = {"groupName": "g", "subscriptionDataSet": subscriptions}
    body = json.dumps({"clientID": "c", "consumerDataSet": [consumer] * 2}).encode()
    slices = HeartbeatData.slices_of_request(Command(RequestCode.HEART_BEAT, body=body))
    assert sum(1 for _ in slices) >= 1_000


def test_reset_offsets_are_read_in_all_their_forms() -> None:
    expected = ResetOffsetBody(offset_table={QUEUE: 10})
    queue = b'{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}'
    assert ResetOffsetBody.decode(b'{"offsetTable":{' + queue + b":10}}") == expected
    assert ResetOffsetBody.decode(b'{"offsetTable":[[' + queue + b",10]]}") == expected
    assert ResetOffsetBody.decode(expected.encode_as_list()) == expected
    assert expected.encode_as_list() == (
        b'{"offsetTable":[{"brokerName":"broker-a","offset":10,"queueId":0,"topic":"TopicA"}]}'
    )


def test_a_queue_may_be_a_key_inside_a_string() -> None:
    stats = ConsumeStats.decode(
        b'{"offsetTable":{"{\\"brokerName\\":\\"broker-a\\",\\"queueId\\":0,'
        b'\\"topic\\":\\"TopicA\\"}":{"brokerOffset":"12"}}}'
    )
    assert stats.offset_table[QUEUE].broker_offset == 12


def test_enums_and_spellings_of_go() -> None:
    result = ConsumeMessageDirectlyResult.decode(b'{"consumeResult":4,"order":"true"}')
    assert (result.consume_result, result.order) == ("CR_THROW_EXCEPTION", True)
    assert ProcessQueueInfo.decode(b'{"dropped":true}').dropped
    assert b'"droped":true' in ProcessQueueInfo(dropped=True).encode()


def test_what_makes_no_sense_takes_its_default() -> None:
    route = TopicRouteData.decode(b'{"queueDatas":{"no":"list"},"brokerDatas":[{"brokerAddrs":7}]}')
    assert route.queue_datas == []
    assert route.broker_datas == [BrokerData(cluster="", broker_name="", broker_addrs={})]


def test_a_route_is_written_raw_or_in_strict_json() -> None:
    route = TopicRouteData(
        queue_datas=[QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6)],
        broker_datas=[BrokerData(cluster="c", broker_name="b", broker_addrs={1: "y:2", 0: "x:1"})],
    )
    raw = (
        b'{"brokerDatas":[{"brokerAddrs":{1:"y:2",0:"x:1"},"brokerName":"b","cluster":"c",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"b",'
        b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert route.encode() == raw
    assert route.encode(standard=True) == raw.replace(
        b'{1:"y:2",0:"x:1"}', b'{"0":"x:1","1":"y:2"}'
    )
    assert TopicRouteData.decode(route.encode(standard=True)) == route


def test_times_are_written_as_text_too() -> None:
    span = QueueTimeSpan(message_queue=QUEUE, min_time_stamp=1_700_000_000_123)
    assert span.to_json()["minTimeStampStr"].endswith(":123")
    assert QueueTimeSpan.decode(span.encode()) == span

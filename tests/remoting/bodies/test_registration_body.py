"""What a broker registers, plain and packed."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.remoting.bodies.body import BadBody
from rocketq.remoting.bodies.registration import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigWrapper,
    TopicQueueMappingInfo,
)
from rocketq.remoting.codes import Version

names = st.text("abcXYZ%_-019", min_size=1, max_size=10)
topics = st.builds(
    TopicConfig,
    topic_name=names,
    read_queue_nums=st.integers(0, 100),
    write_queue_nums=st.integers(0, 100),
    perm=st.integers(0, 7),
    attributes=st.dictionaries(names, st.text(max_size=5), max_size=2),
)
registrations = st.builds(
    lambda version, topics, mapped: RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigWrapper(
            data_version=version,
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map={
                topic: TopicQueueMappingInfo(topic=topic, bname="b", curr_id_map={0: 1})
                for topic in mapped
            },
        )
    ),
    st.builds(DataVersion, timestamp=st.integers(0, 2**60), counter=st.integers(0, 2**60)),
    st.lists(topics, max_size=4),
    st.lists(names, max_size=2),
)


@given(registrations, st.booleans())
def test_a_registration_comes_back(body: RegisterBrokerBody, compressed: bool) -> None:
    again = RegisterBrokerBody.decode(body.encode(compressed=compressed))
    assert again.data_version == body.data_version
    assert again.topic_configs == body.topic_configs
    assert again.queue_mappings == body.queue_mappings
    assert again.filter_servers == []


def test_the_packed_form_is_that_of_the_sheet() -> None:
    topic = TopicConfig(topic_name="TopicA", read_queue_nums=4, write_queue_nums=8)
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigWrapper(
            data_version=DataVersion(timestamp=5, counter=2), topic_config_table={"TopicA": topic}
        )
    )

    def sized(data: bytes) -> bytes:
        return struct.pack(">i", len(data)) + data

    version = sized(b'{"counter":2,"stateVersion":0,"timestamp":5}')
    common = b"\x00\x00\x00\x01"
    assert zlib.decompress(body.encode(compressed=True)) == (
        version + common + sized(b"TopicA 4 8 6 SINGLE_TAG {}") + sized(b"[]") + bytes(4)
    )
    old = body.encode(compressed=True, version=Version.V4_9_8)
    assert zlib.decompress(old) == (
        version + common + sized(b"TopicA 4 8 6 SINGLE_TAG") + sized(b"[]")
    )
    assert RegisterBrokerBody.decode(old, version=Version.V4_9_8).topic_configs == {"TopicA": topic}


def test_the_oldest_brokers_send_only_the_topics() -> None:
    wrapper = TopicConfigWrapper(topic_config_table={"t": TopicConfig(topic_name="t")})
    body = RegisterBrokerBody.decode(wrapper.encode(), version=36)
    assert list(body.topic_configs) == ["t"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"x",
        b"[]",
        b"\x78garbage",
        zlib.compress(b""),
        zlib.compress(struct.pack(">i", 2**31 - 1)),
        zlib.compress(struct.pack(">i", -1)),
        zlib.compress(struct.pack(">i", 2) + b"{}" + struct.pack(">ii", 1, 3) + b"a b"),
        zlib.compress(b"x" * 1000)[:-6],
    ],
)
def test_what_is_damaged_is_refused(damaged: bytes) -> None:
    with pytest.raises(BadBody):
        RegisterBrokerBody.decode(damaged)


@given(st.binary(max_size=100))
def test_nothing_but_bad_body_comes_out_of_garbage(data: bytes) -> None:
    for body in (data, zlib.compress(data)):
        try:
            RegisterBrokerBody.decode(body)
        except BadBody:
            pass


def test_a_body_that_unpacks_without_end_is_refused() -> None:
    bomb = zlib.compress(bytes(65 * 1024 * 1024), 1)
    with pytest.raises(BadBody):
        RegisterBrokerBody.decode(bomb)

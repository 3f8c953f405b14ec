"""Frames written from a template say what the general way would say."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from rocketq.client.producer.batch_item import batch_item
from rocketq.message.message import Message
from rocketq.message.properties.codec import encode_properties
from rocketq.message.record.batch import encode_batch, split_batch
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers import SendMessageV2
from rocketq.remoting.hot.send import SendTemplate
from rocketq.remoting.wire.command import Command
from rocketq.remoting.wire.frame import FrameSplitter

names = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
properties = st.dictionaries(names, names, max_size=5)


@given(
    group=names,
    topic=names,
    broker=names,
    queue_id=st.integers(-1, 1000),
    code=st.sampled_from([310, 320, 325]),
    opaque=st.integers(1, 2**31 - 1),
    sys_flag=st.integers(0, 0xFFF),
    born=st.integers(0, 2**42),
    flag=st.integers(-(2**31), 2**31 - 1),
    properties=properties,
    body=st.binary(max_size=100),
)
def test_a_template_writes_what_the_header_class_writes(
    *,
    group: str,
    topic: str,
    broker: str,
    queue_id: int,
    code: int,
    opaque: int,
    sys_flag: int,
    born: int,
    flag: int,
    properties: dict[str, str],
    body: bytes,
) -> None:
    template = SendTemplate(code, group, topic, "TBW102", 4, queue_id, broker)
    encoded = encode_properties(properties)
    head = template.head(opaque, sys_flag, born, flag, encoded, len(body))
    (command,) = FrameSplitter().feed(head + body)
    general = Command.request(
        SendMessageV2(
            producer_group=group,
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=sys_flag,
            born_timestamp=born,
            flag=flag,
            properties=encoded.decode(),
            reconsume_times=0,
            unit_mode=False,
            batch=code == RequestCode.SEND_BATCH_MESSAGE,
            broker_name=broker,
        ),
        body,
        code=code,
    )
    assert command.ext_fields == general.ext_fields
    assert (command.code, command.opaque, command.flag) == (code, opaque, 0)
    assert (command.language, command.version) == (general.language, general.version)
    assert bytes(command.body) == body
    # Key for key as Java writes it, which old clients and proxies depend on.
    assert list(orjson.loads(command.raw_header)) == [
        *("code", "extFields", "flag", "language", "opaque", "serializeTypeCurrentRPC", "version")
    ]


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=100),
    properties,
    st.sampled_from(["", "0A" * 16, "0B" * 28]),
)
def test_a_batch_item_is_read_back(
    flag: int, body: bytes, properties: dict[str, str], new_id: str
) -> None:
    encoded = encode_properties(properties)
    item = batch_item(flag, body, encoded, new_id)
    ((read_flag, read_body, read_properties),) = split_batch(item)
    with_id = {**properties, "UNIQ_KEY": new_id} if new_id else properties
    assert (read_flag, bytes(read_body)) == (flag, body)
    assert bytes(read_properties) == encode_properties(with_id)
    assert bytes(item) == encode_batch([Message.of("t", body, with_id, flag)])

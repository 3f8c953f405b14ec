"""Records for the tests: the one of the specification, and any others."""

from typing import Any

from hypothesis import strategies as st

from rocketq.message import hosts
from rocketq.message.record.writer import encode_record

SPECIFIED_FIELDS: dict[str, Any] = {
    "topic": b"TopicTest",
    "body": b"Hello RocketMQ",
    "properties": b"KEYS\x01KEY1\x02TAGS\x01TagA\x02",
    "queue_id": 3,
    "queue_offset": 7,
    "physical_offset": 1000,
    "born_timestamp": 1700000000000,
    "born_host": hosts.encode_host("127.0.0.1", 50000),
    "store_timestamp": 1700000000123,
    "store_host": hosts.encode_host("192.168.1.10", 10911),
}
SPECIFIED_RECORD = bytes.fromhex(
    "00000086daa320a769c865ed0000000300000000000000000000000700000000"
    "000003e8000000000000018bcfe568007f0000010000c3500000018bcfe5687b"
    "c0a8010a00002a9f0000000000000000000000000000000e48656c6c6f20526f"
    "636b65744d5109546f7069635465737400144b455953014b4559310254414753"
    "015461674102"
)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
encoded_hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
# Around 16 the checksum changes its stride, at 1024 its method.
bodies = st.binary(max_size=70) | st.integers(1000, 1100).map(
    lambda size: (bytes(range(250)) * 5)[:size]
)
fields = st.fixed_dictionaries(
    {
        "topic": st.binary(max_size=20) | st.sampled_from([b"t" * 127, b"t" * 128, b"t" * 255]),
        "body": bodies,
        "properties": st.binary(max_size=60),
        "queue_id": int32s,
        "flag": int32s,
        "queue_offset": int64s,
        "physical_offset": int64s,
        "sys_flag": int32s,
        "born_timestamp": int64s,
        "born_host": encoded_hosts,
        "store_timestamp": int64s,
        "store_host": encoded_hosts,
        "reconsume_times": int32s,
        "prepared_transaction_offset": int64s,
    }
)


def encode_into(out: Any, at: int, values: dict[str, Any], **options: bool) -> int:
    return encode_record(
        out,
        at,
        values["topic"],
        values["queue_id"],
        values.get("flag", 0),
        values["queue_offset"],
        values["physical_offset"],
        values.get("sys_flag", 0),
        values["born_timestamp"],
        values["born_host"],
        values["store_timestamp"],
        values["store_host"],
        values.get("reconsume_times", 0),
        values.get("prepared_transaction_offset", 0),
        values["body"],
        values["properties"],
        **options,
    )

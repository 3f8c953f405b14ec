"""What a broker's registration says of its topics, read fast.

A broker brings all its topics at once, tens of thousands of them, and a NameServer needs four
numbers of each. Three forms exist:

    plain        JSON {"filterServerList":[..],"topicConfigSerializeWrapper":{..}}
    bare         JSON of the wrapper alone, from brokers older than 3.0.11
    compressed   one zlib stream of
                     int32 length, JSON of the data version
                     int32 count, then as many (int32 length, text) of
                         <topic> <readQueueNums> <writeQueueNums> <perm> <filterType>[ <attributes>]
                     int32 length, JSON of the filter server list
                     from 5.0 on: int32 count, as many (int32 length, JSON of a queue mapping)

Some Java brokers compress and say they do not, so the first byte decides: zlib's is 0x78.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rocketq.common import json
from rocketq.common.buffers import Buffer
from rocketq.remoting.bodies.registration import DataVersion, TopicQueueMappingInfo
from rocketq.remoting.bodies.route import QueueData
from rocketq.remoting.codes import ResponseCode, Version
from rocketq.remoting.errors import RequestRejected

# What a frame of 16 MiB may unpack to; a list of topics shrinks to a tenth at best.
_UNPACKED_LIMIT: Final = 256 * 1024 * 1024
_INT: Final = struct.Struct(">i")
_ZLIB_FIRST_BYTE: Final = 0x78


class ReportedTopics(NamedTuple):
    """All that a registration's body says."""

    data_version: DataVersion
    topics: Mapping[str, QueueData]
    queue_mappings: Mapping[str, TopicQueueMappingInfo]
    filter_servers: tuple[str, ...]


def read_registration(body: Buffer, *, broker_name: str, version: int) -> ReportedTopics:
    """Read any of the three forms; raises `RequestRejected` for what is none of them."""
    try:
        if len(body) == 0:
            return ReportedTopics(DataVersion(), {}, {}, ())
        if body[0] == _ZLIB_FIRST_BYTE:
            return _read_compressed(body, broker_name, version)
        return _read_json(body, broker_name)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, zlib.error) as error:
        raise RequestRejected(
            ResponseCode.SYSTEM_ERROR, f"the registration of {broker_name} makes no sense: {error}"
        ) from None


class _Queues:
    """Makes a `QueueData` of numbers: one object for all topics with the same."""

    def __init__(self, broker_name: str) -> None:
        self._broker_name = broker_name
        self._made: dict[tuple[Any, ...], QueueData] = {}

    def of(self, *numbers: Any) -> QueueData:
        made = self._made.get(numbers)
        if made is None:
            read_queues, write_queues, perm, flag = map(int, numbers)
            made = self._made[numbers] = QueueData(
                broker_name=self._broker_name,
                read_queue_nums=read_queues,
                write_queue_nums=write_queues,
                perm=perm,
                topic_sys_flag=flag,
            )
        return made


def _read_json(body: Buffer, broker_name: str) -> ReportedTopics:
    plain = json.loads(body)
    wrapper = plain.get("topicConfigSerializeWrapper") or plain
    queues = _Queues(broker_name).of
    return ReportedTopics(
        DataVersion.from_json(wrapper.get("dataVersion") or {}),
        {
            topic: queues(
                config.get("readQueueNums", 16),
                config.get("writeQueueNums", 16),
                config.get("perm", 6),
                config.get("topicSysFlag", 0),
            )
            for topic, config in (wrapper.get("topicConfigTable") or {}).items()
        },
        {
            topic: TopicQueueMappingInfo.from_json(mapping)
            for topic, mapping in (wrapper.get("topicQueueMappingInfoMap") or {}).items()
        },
        tuple(map(str, plain.get("filterServerList") or ())),
    )


def _read_compressed(body: Buffer, broker_name: str, version: int) -> ReportedTopics:
    unpacker = zlib.decompressobj()
    texts = _Texts(unpacker.decompress(body, _UNPACKED_LIMIT))
    if unpacker.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {_UNPACKED_LIMIT} bytes")
    data_version = DataVersion.from_json(json.loads(texts.next()))
    queues = _Queues(broker_name).of
    topics = {}
    for _ in range(texts.number()):
        topic, read_queues, write_queues, perm, *_rest = texts.next().decode().split(" ", 5)
        # Neither the system flag nor the order flag travels in this form.
        topics[topic] = queues(read_queues, write_queues, perm, 0)
    filter_servers = tuple(map(str, json.loads(texts.next())))
    mappings = {}
    if version >= Version.V5_0_0 and not texts.at_end:
        for _ in range(texts.number()):
            mapping = TopicQueueMappingInfo.decode(texts.next())
            mappings[mapping.topic] = mapping
    return ReportedTopics(data_version, topics, mappings, filter_servers)


class _Texts:
    """Numbers and texts with a length before them, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def number(self) -> int:
        (number,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        return int(number)

    def next(self) -> bytes:
        length = self.number()
        text = self._data[self._at : self._at + length]
        if length < 0 or len(text) != length:
            raise ValueError("it ends in the middle")
        self._at += length
        return text

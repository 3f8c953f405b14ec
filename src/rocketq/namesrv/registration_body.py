"""What a broker's registration says of its topics, read fast and in slices.

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

The table of topics is cut out of a plain registration and read a piece at a time; what is
left of it is small. A registration whose table cannot be cut, because it is not plain JSON,
is read as a whole if it is short.
"""

import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from rocketq.common import json
from rocketq.common.buffers import Buffer
from rocketq.common.loop.slices import Slices
from rocketq.common.numbers import whole_number
from rocketq.remoting.bodies.registration import DataVersion, TopicQueueMappingInfo
from rocketq.remoting.bodies.route import QueueData
from rocketq.remoting.codes import ResponseCode, Version
from rocketq.remoting.errors import RequestRejected

# More than any frame of 16 MiB holds in plain form, and what it may unpack to.
TOPIC_LIMIT: Final = 200_000
_UNPACKED_LIMIT: Final = 64 * 1024 * 1024

# Topics, and bytes, that are read in one slice.
_SLICE: Final = 1000
_SLICE_BYTES: Final = 256 * 1024

_INT: Final = struct.Struct(">i")
_ZLIB_FIRST_BYTE: Final = 0x78

# The entries of the table: a name and an object, in which one object (the attributes) may
# stand. Nothing backtracks, so a piece takes time by its length alone.
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_INNER: Final = rb"\{(?:[^{}\"]++|" + _STRING + rb")*+\}"
_OBJECT: Final = rb"\{(?:[^{}\"]++|" + _STRING + rb"|" + _INNER + rb")*+\}"
_ENTRY: Final = rb"\s*+" + _STRING + rb"\s*+:\s*+" + _OBJECT + rb"\s*+"
_ENTRIES: Final = re.compile(rb"(?:%b(?:,|(?=\}))){1,%d}+" % (_ENTRY, _SLICE), re.DOTALL)
_TABLE: Final = re.compile(rb'(?<!\\)"topicConfigTable"\s*+:\s*+\{\s*+')


class ReportedTopics(NamedTuple):
    """All that a registration's body says."""

    data_version: DataVersion
    topics: Mapping[str, QueueData]
    queue_mappings: Mapping[str, TopicQueueMappingInfo]
    filter_servers: tuple[str, ...]


def read_registration(body: Buffer, *, broker_name: str, version: int) -> Slices[ReportedTopics]:
    """Read any of the three forms; raises `RequestRejected` for anything else."""
    try:
        if len(body) == 0:
            return ReportedTopics(DataVersion(), {}, {}, ())
        if body[0] == _ZLIB_FIRST_BYTE:
            return (yield from _read_compressed(body, broker_name, version))
        return (yield from _read_json(bytes(body), broker_name))
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, zlib.error) as error:
        raise RequestRejected(
            ResponseCode.SYSTEM_ERROR, f"the registration of {broker_name} makes no sense: {error}"
        ) from None


class _Topics:
    """The topics read so far, with one `QueueData` for all that have the same numbers."""

    def __init__(self, broker_name: str) -> None:
        self.by_name: dict[str, QueueData] = {}
        self._broker_name = broker_name
        self._made: dict[tuple[Any, ...], QueueData] = {}

    def add(self, topic: str, *numbers: Any) -> None:
        made = self._made.get(numbers)
        if made is None:
            made = self._made[numbers] = self._queues(numbers)
        self.by_name[topic] = made
        if len(self.by_name) > TOPIC_LIMIT:
            raise ValueError(f"it has more than {TOPIC_LIMIT} topics; register them in parts")

    def add_json(self, table: Mapping[str, Any]) -> None:
        for topic, config in table.items():
            self.add(
                topic,
                config.get("readQueueNums", 16),
                config.get("writeQueueNums", 16),
                config.get("perm", 6),
                config.get("topicSysFlag", 0),
            )

    def _queues(self, numbers: tuple[Any, ...]) -> QueueData:
        read_queues, write_queues, perm, flag = [whole_number(number) for number in numbers]
        if read_queues is None or write_queues is None or perm is None or flag is None:
            raise ValueError(f"{numbers} are not the numbers of a topic")
        return QueueData(
            broker_name=self._broker_name,
            read_queue_nums=read_queues,
            write_queue_nums=write_queues,
            perm=perm,
            topic_sys_flag=flag,
        )


# Plain


def _read_json(body: bytes, broker_name: str) -> Slices[ReportedTopics]:
    topics = _Topics(broker_name)
    rest = yield from _cut_table(body, topics)
    plain = json.loads(rest, json.REQUEST_LIMITS)
    wrapper = plain.get("topicConfigSerializeWrapper") or plain
    topics.add_json(wrapper.get("topicConfigTable") or {})
    return ReportedTopics(
        DataVersion.from_json(wrapper.get("dataVersion") or {}),
        topics.by_name,
        {
            topic: TopicQueueMappingInfo.from_json(mapping)
            for topic, mapping in (wrapper.get("topicQueueMappingInfoMap") or {}).items()
        },
        tuple(map(str, plain.get("filterServerList") or ())),
    )


def _cut_table(body: bytes, topics: _Topics) -> Slices[bytes]:
    """Read the table a piece at a time; the registration without what was read."""
    start = _TABLE.search(body)
    if start is None:
        return body
    at = start.end()
    while at < len(body) and body[at] != 0x7D:
        piece = _ENTRIES.match(body, at, at + _SLICE_BYTES)
        if piece is None:
            break
        try:
            table = orjson.loads(b"{%b}" % piece[0].rstrip(b", \t\r\n"))
        except orjson.JSONDecodeError:
            break
        topics.add_json(table)
        at = piece.end()
        yield
    return body[: start.end()] + body[at:]


# Compressed


def _read_compressed(body: Buffer, broker_name: str, version: int) -> Slices[ReportedTopics]:
    texts = _Texts((yield from _unpack(body)))
    data_version = DataVersion.from_json(json.loads(texts.next(), json.REQUEST_LIMITS))
    topics = _Topics(broker_name)
    for number in range(texts.number()):
        if number % _SLICE == 0:
            yield
        topic, read_queues, write_queues, perm, *_rest = texts.next().decode().split(" ", 5)
        # Neither the system flag nor the order flag travels in this form.
        topics.add(topic, read_queues, write_queues, perm, 0)
    filter_servers = tuple(map(str, json.loads(texts.next(), json.REQUEST_LIMITS)))
    mappings = {}
    if version >= Version.V5_0_0 and not texts.at_end:
        for number in range(texts.number()):
            if number % _SLICE == 0:
                yield
            mapping = TopicQueueMappingInfo.decode(texts.next(), json.REQUEST_LIMITS)
            mappings[mapping.topic] = mapping
    return ReportedTopics(data_version, topics.by_name, mappings, filter_servers)


def _unpack(body: Buffer) -> Slices[bytearray]:
    """Unpack without trusting the sender on how large it gets."""
    unpacker = zlib.decompressobj()
    unpacked = bytearray()
    for start in range(0, len(body), _SLICE_BYTES):
        packed = bytes(body[start : start + _SLICE_BYTES])
        while packed and not unpacker.eof:
            unpacked += unpacker.decompress(packed, 4 * _SLICE_BYTES)
            packed = unpacker.unconsumed_tail
            if len(unpacked) > _UNPACKED_LIMIT:
                raise ValueError(f"it unpacks to more than {_UNPACKED_LIMIT} bytes")
            yield
    return unpacked


class _Texts:
    """Numbers and texts with a length before them, one after the other."""

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def number(self) -> int:
        (number,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        return int(number)

    def next(self) -> bytearray:
        length = self.number()
        text = self._data[self._at : self._at + length]
        if length < 0 or len(text) != length:
            raise ValueError("it ends in the middle")
        self._at += length
        return text

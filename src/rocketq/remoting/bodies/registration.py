"""What brokers tell NameServers, and masters their slaves, about topics."""

import struct
import zlib
from dataclasses import field

from rocketq.common import json
from rocketq.common.buffers import Buffer
from rocketq.common.light_dataclass import dataclass
from rocketq.common.numbers import parse_int32
from rocketq.remoting.bodies.body import BadBody, Body, names
from rocketq.remoting.codes import Version

_INT32 = struct.Struct(">i")
_UNPACKED_LIMIT = 64 * 1024 * 1024  # what a registration may grow to when unpacked


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVersion(Body):
    """How far a table has changed; two tables are alike when all three are equal."""

    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Body):
    """One topic on one broker. `perm`: 4 read, 2 write, 1 inherit."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str = field(default="SINGLE_TAG", metadata=names("SINGLE_TAG", "MULTI_TAG"))
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    def to_text(self, *, with_attributes: bool = True) -> str:
        """The short form inside compressed registrations; loses `order` and the flags."""
        text = (
            f"{self.topic_name} {self.read_queue_nums} {self.write_queue_nums} {self.perm}"
            f" {self.topic_filter_type}"
        )
        if with_attributes:
            text += " " + json.dumps(self.attributes).decode()
        return text

    @classmethod
    def from_text(cls, text: str) -> "TopicConfig":
        """From the short form, five words and perhaps the attributes."""
        words = text.split(" ", 5)
        try:
            attributes = json.loads(words[5]) if len(words) > 5 else {}
            return cls(
                topic_name=words[0],
                read_queue_nums=_number(words[1]),
                write_queue_nums=_number(words[2]),
                perm=_number(words[3]),
                topic_filter_type=words[4],
                attributes=attributes if isinstance(attributes, dict) else {},
            )
        except (IndexError, ValueError):
            raise BadBody(f"not a topic: {text[:200]!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigList(Body):
    """Many topics, for 18 UPDATE_AND_CREATE_TOPIC_LIST."""

    topic_config_list: list[TopicConfig] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicQueueMappingItem(Body):
    """One stretch of a static topic's logical queue."""

    bname: str
    gen: int = 0
    queue_id: int = 0
    logic_offset: int = 0
    start_offset: int = 0
    end_offset: int = -1
    time_of_start: int = -1
    time_of_end: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQueueMappingInfo(Body):
    """Which logical queues of a static topic a broker holds."""

    topic: str
    scope: str = "__global__"
    total_queues: int = 0
    bname: str = ""
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """The same with the stretches of each queue."""

    hosted_queues: dict[int, list[LogicQueueMappingItem]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigAndQueueMapping(TopicConfig):
    """A topic and, for a static one, its mapping; answers 351."""

    mapping_detail: TopicQueueMappingDetail | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigWrapper(Body):
    """All topics of a broker; what 4.9 knows of it is `data_version` and `topic_config_table`."""

    data_version: DataVersion = field(default_factory=DataVersion)
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = field(default_factory=dict)
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = field(default_factory=dict)
    # Ours, for slaves: where in the log topics begin that were deleted and made again.
    topic_beginnings: dict[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerBody(Body):
    """What a broker registers: its topics, and the filter servers nobody has any more.

    Plain it is JSON. Packed it is one zlib stream of

        int32 size, DataVersion as JSON
        int32 count, then for each topic: int32 size, its short text
        int32 size, filter servers as JSON
        int32 count, then for each mapping: int32 size, JSON      (from 5.0 on)
    """

    topic_config_serialize_wrapper: TopicConfigWrapper = field(default_factory=TopicConfigWrapper)
    filter_server_list: list[str] = field(default_factory=list)

    @property
    def data_version(self) -> DataVersion:
        return self.topic_config_serialize_wrapper.data_version

    @property
    def topic_configs(self) -> dict[str, TopicConfig]:
        return self.topic_config_serialize_wrapper.topic_config_table

    @property
    def queue_mappings(self) -> dict[str, TopicQueueMappingInfo]:
        return self.topic_config_serialize_wrapper.topic_queue_mapping_info_map

    @property
    def filter_servers(self) -> list[str]:
        return self.filter_server_list

    def encode(self, *, compressed: bool = False, version: int = Version.CURRENT) -> bytes:
        """Plain or packed; a receiver below 5.0 gets the form it knows."""
        if not compressed:
            return json.dumps(self.to_json())
        is_5 = version >= Version.V5_0_0
        parts = [_sized(self.data_version.encode()), _INT32.pack(len(self.topic_configs))]
        parts += [
            _sized(topic.to_text(with_attributes=is_5).encode())
            for topic in self.topic_configs.values()
        ]
        parts.append(_sized(json.dumps(self.filter_server_list)))
        if is_5:
            parts.append(_INT32.pack(len(self.queue_mappings)))
            parts += [_sized(mapping.encode()) for mapping in self.queue_mappings.values()]
        return zlib.compress(b"".join(parts), 9)

    @classmethod
    def decode(
        cls, data: Buffer, limits: json.Limits = json.TRUSTED, *, version: int = Version.CURRENT
    ) -> "RegisterBrokerBody":
        """Either form, told apart by its first byte: some brokers' headers are wrong about it.

        `version` is the sender's: the oldest send the topics without the rest around them,
        and only newer ones send mappings in the packed form.
        """
        if len(data) == 0:
            return cls()
        if data[0] == 0x78:  # a zlib stream; JSON never begins like that
            return cls._unpack(_decompress(data), with_mappings=version >= Version.V5_0_0)
        if version < Version.V3_0_11:
            return cls(topic_config_serialize_wrapper=TopicConfigWrapper.decode(data, limits))
        return super(RegisterBrokerBody, cls).decode(data, limits)  # noqa: UP008, slots

    @classmethod
    def _unpack(cls, data: bytes, *, with_mappings: bool) -> "RegisterBrokerBody":
        try:
            reader = _Reader(data)
            data_version = DataVersion.decode(reader.sized())
            topics = [
                TopicConfig.from_text(reader.sized().decode()) for _ in range(reader.number())
            ]
            filter_servers = json.loads(reader.sized())
            mappings: list[TopicQueueMappingInfo] = []
            if with_mappings and not reader.at_end:
                mappings = [
                    TopicQueueMappingInfo.decode(reader.sized()) for _ in range(reader.number())
                ]
        except (struct.error, ValueError) as error:
            raise BadBody(f"packed registration is damaged: {error}") from None
        return cls(
            topic_config_serialize_wrapper=TopicConfigWrapper(
                data_version=data_version,
                topic_config_table={topic.topic_name: topic for topic in topics},
                topic_queue_mapping_info_map={mapping.topic: mapping for mapping in mappings},
            ),
            filter_server_list=filter_servers if isinstance(filter_servers, list) else [],
        )


class _Reader:
    """Takes a packed registration apart."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def number(self) -> int:
        (number,) = _INT32.unpack_from(self._data, self._at)
        self._at += 4
        if not 0 <= number <= len(self._data):
            raise ValueError(f"{number} of {len(self._data)} bytes")
        return int(number)

    def sized(self) -> bytes:
        size = self.number()
        end = self._at + size
        if end > len(self._data):
            raise ValueError(f"{size} bytes wanted, {len(self._data) - self._at} left")
        part = self._data[self._at : end]
        self._at = end
        return part


def _number(text: str) -> int:
    number = parse_int32(text)
    if number is None:
        raise ValueError(text)
    return number


def _sized(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _decompress(data: Buffer) -> bytes:
    """Unpack without trusting the sender on how large it gets."""
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data, _UNPACKED_LIMIT)
    except zlib.error as error:
        raise BadBody(f"packed registration is damaged: {error}") from None
    if not unpacker.eof:
        raise BadBody("packed registration is cut off or too large")
    return unpacked

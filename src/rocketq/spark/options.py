"""Options of the source and the sink: what may be said, and what is wrong with the rest.

Spark hands options over as text, in any case. Every mistake is found before anything runs,
and named: an option that does not exist (with the nearest one that does), two that exclude
each other, a value that cannot be meant.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from rocketq.client.config import ClientConfig
from rocketq.client.errors import InvalidSettings
from rocketq.client.identity import identity_of
from rocketq.common.errors import RocketqError
from rocketq.filter import FilterError, compile_sql, parse_tags
from rocketq.message.compression import MAX_DECOMPRESSED_SIZE
from rocketq.remoting.tls import ClientTls
from rocketq.spark.schema import ALL_COLUMNS, COLUMNS, DEFAULT_COLUMNS, KAFKA_COLUMNS

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

AT_LEAST_ONCE: Final = "atLeastOnce"
EXACTLY_ONCE: Final = "exactlyOnce"
TRANSACTIONAL: Final = "transactional"
_DELIVERIES: Final = {name.lower(): name for name in (AT_LEAST_ONCE, EXACTLY_ONCE, TRANSACTIONAL)}

# topic -> broker -> queue id -> a number
PerQueue: TypeAlias = dict[str, dict[str, dict[int, int]]]

# Spark adds these to whatever the user says.
_SPARKS_OWN: Final = frozenset(
    {"path", "paths", "recursivefilelookup", "checkpointlocation", "queryname"}
)

_WHO: Final = (
    "accessKey",
    "secretKey",
    "securityToken",
    "tls",
    "tlsTrust",
    "tlsCertificate",
    "tlsKey",
    "tlsKeyPassword",
    "tlsCheckHostname",
)
_COMMON: Final = ("namesrv", *_WHO, "namespace", "timeoutMs", "retryTimeoutMs")
_SOURCE: Final = (
    *_COMMON,
    "store",
    "key",
    "checkCrc",
    "archive",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "filter",
    "sqlFilter",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "failOnDamage",
    "maxBodyBytes",
    "groupId",
    "columns",
    "kafkaColumns",
    "pushFilters",
    "wholeBatches",
    "pullBytes",
)
_SINK: Final = (
    *_COMMON,
    "topic",
    "producerGroup",
    "batchBytes",
    "batchMessages",
    "maxPending",
    "delivery",
    "writeId",
)
_BROKERS_ONLY: Final = ("namesrv", *_WHO, "namespace", "sqlFilter", "groupId", "wholeBatches")
_NOT_ARCHIVED: Final = ("sqlFilter", "namespace", "groupId", "pushFilters")
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_BATCH_ONLY: Final = (
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "pushFilters",
)

_KAFKAS: Final = {
    "kafka.bootstrap.servers": "namesrv",
    "kafka.group.id": "groupId",
    "groupidprefix": "groupId",
    "includeheaders": "columns",
    "maxrecordsperpartition": "maxRecordsPerPartition",
}
"""Options of Spark's Kafka source, and what is nearest to them here."""

_MOST_BODY_BYTES: Final = 1 << 30
_DELAY_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class InvalidOptions(RocketqError):
    """Options that cannot be, named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """How to reach the brokers."""

    namesrv: str
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    tls: ClientTls | None = None
    namespace: str = ""
    timeout_s: float = 10.0
    retry_within_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where to begin or end: one of the words, a time, or a number for each queue.

    `offsets` holds queue offsets, `times_by_queue` milliseconds; queues that are not named
    take the word.
    """

    word: str
    time_ms: int | None = None
    offsets: PerQueue = field(default_factory=dict)
    times_by_queue: PerQueue = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What to read. Picklable: it travels to the executors."""

    connection: ClusterAccess
    stores: tuple[tuple[str, str], ...] = ()
    """Directories to read instead of brokers: the broker's name (empty: the folder's), the path."""
    key: str | None = None
    """Of stores: only messages with this key, found by the index."""
    check_crc: bool = True
    archive: str | None = None
    """A folder with what brokers may not have any more."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    starting: Position
    ending: Position
    tags: str = "*"
    sql: str | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    min_partitions: int = 0
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    fail_on_damage: bool = True
    max_body_bytes: int = MAX_DECOMPRESSED_SIZE
    group: str | None = None
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    push_filters: bool = False
    whole_batches: bool = False
    """Show nothing of a transactional batch before all of it is visible."""
    pull_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where to write. Picklable: it travels to the executors."""

    connection: ClusterAccess
    topic: str | None
    producer_group: str = "rocketq-spark"
    batch_bytes: int = 1 << 18
    batch_messages: int = 4096
    max_pending: int = 16
    delivery: str = AT_LEAST_ONCE
    write_id: str | None = None


class _Given:
    """The options of one source or sink, taken out one by one."""

    def __init__(
        self,
        given: Mapping[str, str],
        known: tuple[str, ...],
        what: str,
        others: frozenset[str] = frozenset(),
    ) -> None:
        """`others`: options that are passed over, in small letters."""
        self._what = what
        self._known = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            lower = name.lower()
            if lower in _SPARKS_OWN or lower.startswith("spark."):
                continue
            if lower in others:
                continue
            if lower not in self._known:
                raise InvalidOptions(f"{what}: there is no option {name!r}{self._hint(lower)}")
            self._values[self._known[lower]] = value

    def _hint(self, wrong: str) -> str:
        known = f"Known: {', '.join(self._known.values())}"
        kafkas = _KAFKAS.get(wrong, "")
        if kafkas.lower() in self._known:
            return f"; did you mean {kafkas!r}? {known}"
        if wrong.startswith("kafka."):
            return f"; settings of Kafka's client mean nothing here. {known}"
        nearest = difflib.get_close_matches(wrong, self._known, n=1)
        hint = f"; did you mean {self._known[nearest[0]]!r}?" if nearest else "."
        return f"{hint} {known}"

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default).strip()

    def number(self, name: str, default: int | None = None, *, at_least: int = 1) -> int | None:
        text = self.text(name)
        if not text:
            return default
        try:
            number = int(text)
        except ValueError:
            number = at_least - 1
        if number < at_least:
            raise self.wrong(name, f"a whole number from {at_least} on")
        return number

    def truth(self, name: str, default: bool) -> bool:
        text = self.text(name).lower()
        if not text:
            return default
        if text not in ("true", "false"):
            raise self.wrong(name, "true or false")
        return text == "true"

    def wrong(self, name: str, wanted: str) -> InvalidOptions:
        return InvalidOptions(
            f"{self._what}: option {name} is {self._values.get(name)!r}, it must be {wanted}"
        )

    def exclude(self, *names: str) -> None:
        """At most one of these."""
        present = [name for name in names if name in self._values]
        if len(present) > 1:
            raise InvalidOptions(f"{self._what}: {' and '.join(present)} exclude each other")

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        present = [name for name in names if name in self._values]
        if present:
            raise InvalidOptions(f"{self._what}: {', '.join(present)}: {why}")

    def connection(self, *, is_needed: bool = True) -> ClusterAccess:
        if is_needed and not self.text("namesrv"):
            raise InvalidOptions(
                f"{self._what}: option namesrv is missing; it is the NameServers' address, "
                "like 127.0.0.1:9876 or several with ; between them"
            )
        timeout_ms = self.number("timeoutMs", 10_000)
        retry_ms = self.number("retryTimeoutMs", 60_000, at_least=0)
        assert timeout_ms is not None
        assert retry_ms is not None
        try:
            # What the driver's environment says is handed on to the tasks.
            who = identity_of(
                ClientConfig(
                    access_key=self.text("accessKey"),
                    secret_key=self.text("secretKey"),
                    security_token=self.text("securityToken"),
                    tls=self.truth("tls", False),
                    tls_trust=self.text("tlsTrust"),
                    tls_certificate=self.text("tlsCertificate"),
                    tls_key=self.text("tlsKey"),
                    tls_key_password=self.text("tlsKeyPassword"),
                    tls_check_hostname=self.truth("tlsCheckHostname", False),
                )
            )
        except InvalidSettings as error:
            raise InvalidOptions(f"{self._what}: {error}") from None
        return ClusterAccess(
            namesrv=self.text("namesrv"),
            access_key=who.access_key,
            secret_key=who.secret_key,
            security_token=who.security_token,
            tls=who.tls,
            namespace=self.text("namespace"),
            timeout_s=timeout_ms / 1000,
            retry_within_s=retry_ms / 1000,
        )

    def per_queue(self, name: str, words: Mapping[str, int]) -> PerQueue:
        """{"topic": {"broker": {"0": 12}}} with numbers, or words that stand for numbers."""
        shape = f'JSON like {{"topic": {{"broker-a": {{"0": 12}}}}}}, numbers or {list(words)}'
        try:
            given: Any = json.loads(self.text(name))
            return {
                topic: {
                    broker: {
                        int(queue): words[value] if isinstance(value, str) else int(value)
                        for queue, value in queues.items()
                    }
                    for broker, queues in brokers.items()
                }
                for topic, brokers in given.items()
            }
        except (ValueError, KeyError, AttributeError, TypeError):
            raise self.wrong(name, shape) from None

    def position(self, which: str, default: str) -> Position:
        """Where to begin (`starting`) or to end (`ending`)."""
        offsets, moment, moments = (
            f"{which}Offsets",
            f"{which}Timestamp",
            f"{which}OffsetsByTimestamp",
        )
        self.exclude(offsets, moment, moments)
        if moment in self:
            return Position(word=default, time_ms=self.number(moment, at_least=0))
        if moments in self:
            return Position(word=default, times_by_queue=self.per_queue(moments, {}))
        text = self.text(offsets, default)
        if text.lower() in (EARLIEST, LATEST):
            if which == "ending" and text.lower() == EARLIEST:
                raise self.wrong(offsets, "latest or JSON")
            return Position(word=text.lower())
        # -1 and -2 are the Kafka connector's numbers for the two words.
        words = {LATEST: -1, EARLIEST: -2}
        return Position(word=default, offsets=self.per_queue(offsets, words))


def source_options(given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Read and check the options of a source. `streaming` is None while it is not known."""
    options = _Given(given, _SOURCE, "rocketq source")
    options.exclude("subscribe", "subscribePattern", "assign")
    options.exclude("filter", "sqlFilter")
    if streaming is True:
        options.refuse(_BATCH_ONLY, "a stream has no end; they are for batch reads")
    if streaming is False:
        options.refuse(_STREAM_ONLY, "they are for streams; a batch read has one batch")
    topics = tuple(dict.fromkeys(t for t in re.split(r"[,\s]+", options.text("subscribe")) if t))
    pattern = options.text("subscribePattern") or None
    assigned = _assigned(options)
    stores = _stores(options)
    if stores and streaming:
        raise InvalidOptions("rocketq source: the files of a store are read by spark.read only")
    if not stores:
        options.refuse(("key", "checkCrc"), "they are for stores")
    archive = options.text("archive") or None
    options.exclude("store", "archive")
    if archive and streaming:
        raise InvalidOptions("rocketq source: an archive is read by spark.read only")
    if archive:
        options.refuse(_NOT_ARCHIVED, "they are not for archives")
    has_brokers = "namesrv" in options
    if not (topics or pattern or assigned or stores or (archive and not has_brokers)):
        raise InvalidOptions(
            "rocketq source: say what to read with exactly one of subscribe, subscribePattern, "
            "assign"
        )
    minimum = options.number("minOffsetsPerTrigger")
    maximum = options.number("maxOffsetsPerTrigger")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise InvalidOptions(
            f"rocketq source: minOffsetsPerTrigger {minimum} is more than maxOffsetsPerTrigger "
            f"{maximum}"
        )
    pull_bytes = options.number("pullBytes", 4 << 20, at_least=1024)
    min_partitions = options.number("minPartitions", 0)
    assert pull_bytes is not None
    assert min_partitions is not None
    return SourceOptions(
        connection=options.connection(is_needed=not stores and archive is None),
        stores=stores,
        key=options.text("key") or None,
        check_crc=options.truth("checkCrc", True),
        archive=archive,
        topics=topics,
        pattern=_checked_pattern(options, pattern),
        assigned=assigned,
        starting=options.position("starting", LATEST if streaming else EARLIEST),
        ending=options.position("ending", LATEST),
        tags=_checked_tags(options),
        sql=_checked_sql(options),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_s=_duration_s(options, "maxTriggerDelay", 900.0),
        min_partitions=min_partitions,
        max_records_per_partition=options.number("maxRecordsPerPartition"),
        fail_on_data_loss=options.truth("failOnDataLoss", True),
        fail_on_damage=options.truth("failOnDamage", True),
        max_body_bytes=_max_body_bytes(options),
        group=options.text("groupId") or None,
        columns=_columns(options),
        push_filters=options.truth("pushFilters", False),
        whole_batches=options.truth("wholeBatches", False),
        pull_bytes=pull_bytes,
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Read and check the options of a sink.

    A table that was defined for reading (`subscribe`) may be written as well: what else it says
    is for its readers.
    """
    names = {name.lower(): value for name, value in given.items()}
    others = frozenset(name.lower() for name in _SOURCE if "subscribe" in names)
    options = _Given(given, _SINK, "rocketq sink", others - {name.lower() for name in _SINK})
    numbers = {
        "batch_bytes": options.number("batchBytes", 1 << 18, at_least=1024),
        "batch_messages": options.number("batchMessages", 4096),
        "max_pending": options.number("maxPending", 16),
    }
    if numbers["batch_bytes"] and numbers["batch_bytes"] > 4 << 20:
        raise options.wrong("batchBytes", "at most 4194304, which is what brokers take")
    return SinkOptions(
        connection=options.connection(),
        topic=options.text("topic") or _only_topic(names.get("subscribe", "")),
        producer_group=options.text("producerGroup") or "rocketq-spark",
        delivery=_delivery(options),
        write_id=options.text("writeId") or None,
        **{name: number for name, number in numbers.items() if number is not None},
    )


def _delivery(options: _Given) -> str:
    given = options.text("delivery", AT_LEAST_ONCE)
    if given.lower() not in _DELIVERIES:
        raise options.wrong("delivery", " or ".join(_DELIVERIES.values()))
    return _DELIVERIES[given.lower()]


def _only_topic(subscribed: str) -> str | None:
    topics = [topic for topic in re.split(r"[,\s]+", subscribed) if topic]
    return topics[0] if len(topics) == 1 else None


def _assigned(options: _Given) -> dict[str, dict[str, tuple[int, ...]]]:
    if "assign" not in options:
        return {}
    try:
        given: Any = json.loads(options.text("assign"))
        assigned = {
            topic: {
                broker: tuple(int(queue) for queue in queues) for broker, queues in brokers.items()
            }
            for topic, brokers in given.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise options.wrong("assign", 'JSON like {"topic": {"broker-a": [0, 1]}}') from None
    if not assigned:
        raise options.wrong("assign", "at least one queue")
    return assigned


def _stores(options: _Given) -> tuple[tuple[str, str], ...]:
    """DIR,DIR or broker-a=DIR,broker-b=DIR."""
    out = []
    for text in options.text("store").split(","):
        name, equals, folder = text.strip().partition("=")
        if text.strip():
            out.append((name.strip(), folder.strip()) if equals else ("", text.strip()))
    if "store" in options:
        options.refuse(_BROKERS_ONLY, "the files of a store are read without brokers")
        if not out:
            raise options.wrong("store", "a store directory, or several with commas")
    return tuple(out)


def _checked_pattern(options: _Given, pattern: str | None) -> str | None:
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise options.wrong("subscribePattern", f"a regular expression ({error})") from None
    return pattern


def _checked_tags(options: _Given) -> str:
    text = options.text("filter") or "*"
    try:
        parse_tags(text)
    except FilterError as error:
        raise options.wrong("filter", f"a tag expression like 'a || b' ({error})") from None
    return text


def _checked_sql(options: _Given) -> str | None:
    text = options.text("sqlFilter")
    if not text:
        return None
    try:
        compile_sql(text)
    except FilterError as error:
        raise options.wrong("sqlFilter", f"SQL92 as brokers know it ({error})") from None
    return text


def _columns(options: _Given) -> tuple[str, ...]:
    names = [name for name in re.split(r"[,\s]+", options.text("columns")) if name]
    for name in names:
        if name not in ALL_COLUMNS:
            nearest = difflib.get_close_matches(name, ALL_COLUMNS, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
            raise InvalidOptions(
                f"rocketq source: there is no column {name!r}{hint} Known: {', '.join(ALL_COLUMNS)}"
            )
    options.exclude("columns", "kafkaColumns")
    if names:
        return tuple(dict.fromkeys(names))
    if options.truth("kafkaColumns", False):
        return KAFKA_COLUMNS
    return DEFAULT_COLUMNS if options.truth("failOnDamage", True) else tuple(COLUMNS)


def _max_body_bytes(options: _Given) -> int:
    number = options.number("maxBodyBytes", MAX_DECOMPRESSED_SIZE, at_least=1024)
    assert number is not None
    if number > _MOST_BODY_BYTES:
        raise options.wrong("maxBodyBytes", f"at most {_MOST_BODY_BYTES}")
    return number


def _duration_s(options: _Given, name: str, default: float) -> float:
    text = options.text(name)
    if not text:
        return default
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.lower())
    if not match or (match[2] or "s") not in _DELAY_UNITS_S:
        raise options.wrong(name, "a time like 500ms, 30s, 15m or 1h")
    return float(match[1]) * _DELAY_UNITS_S[match[2] or "s"]

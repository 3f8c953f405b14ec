"""The options of a producer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rocketq.client.config import ClientConfig, ClientOptions
from rocketq.client.errors import InvalidSettings
from rocketq.client.hooks import EndTransactionHook, SendFilter, SendHook
from rocketq.client.options import option
from rocketq.message.flags import CompressionType
from rocketq.message.names import AUTO_CREATE_TOPIC, TRACE_TOPIC

_KIB: Final = 1024
_MIB: Final = 1024 * 1024

CompressionName: TypeAlias = Literal["zlib", "lz4", "zstd"]


class ProducerOptions(ClientOptions, total=False):
    """The keyword arguments of a producer; `ProducerConfig` explains them."""

    send_timeout_s: float
    attempt_timeout_s: float | None
    retries: int
    retry_when_not_stored: bool
    max_message_size: int
    compress_above: int | None
    compression: CompressionName
    compression_level: int
    template_topic: str
    template_queues: int
    avoid_slow_brokers: bool
    max_pending_sends: int
    batch_bytes: int
    linger_ms: float | None
    linger_bytes: int
    linger_total_bytes: int
    trace: bool
    trace_topic: str
    send_hooks: Sequence[SendHook]
    send_filters: Sequence[SendFilter]
    end_transaction_hooks: Sequence[EndTransactionHook]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Settings of a producer, beyond those of every client; RocketMQ's names in parentheses."""

    send_timeout_s: float = option(
        3.0, "All attempts of a send and the route lookup together (sendMsgTimeout).", above=0
    )
    attempt_timeout_s: float | None = option(
        None,
        "At most this long for one attempt while another is possible "
        "(sendMsgMaxTimeoutPerRequest).",
        above=0,
    )
    retries: int = option(
        2,
        "Further attempts, on another broker where there is one (retryTimesWhenSendFailed). With 0 "
        "the first failure is final; otherwise a broker that cannot be reached, and is the only "
        "one, is tried again until the time is up.",
        low=0,
    )
    retry_when_not_stored: bool = option(
        False,
        "Try another broker when the status is not SEND_OK (retryAnotherBrokerWhenNotStoreOK).",
    )
    max_message_size: int = option(4 * _MIB, "Larger bodies are refused (maxMessageSize).", low=1)
    compress_above: int | None = option(
        4 * _KIB,
        "Compress bodies of at least this size (compressMsgBodyOverHowmuch); None: never.",
        low=0,
    )
    compression: CompressionName = option(
        "zlib",
        "zlib, or lz4 and zstd, which brokers and consumers know from 5.0 on (compressType).",
    )
    compression_level: int = option(
        5, "How hard to try: 0 is fastest, 9 gives the smallest bodies.", low=0, high=9
    )
    template_topic: str = option(
        AUTO_CREATE_TOPIC,
        "Whose route is borrowed for a topic that does not exist yet (createTopicKey).",
    )
    template_queues: int = option(
        4, "Queues of a topic created that way (defaultTopicQueueNums).", low=1
    )
    avoid_slow_brokers: bool = option(
        False, "Leave brokers alone for a while that were slow (sendLatencyFaultEnable)."
    )
    max_pending_sends: int = option(
        50_000, "Sends without an answer after which `send_soon` refuses further ones.", low=1
    )
    batch_bytes: int = option(1 * _MIB, "Batches larger than this are split.", low=1)
    linger_ms: float | None = option(
        None,
        "Collect single messages into batches for this long (autoBatch); 0 collects what is sent "
        "in one turn of the event loop, None sends each message on its own.",
        low=0,
        high=30_000,
    )
    linger_bytes: int = option(
        32 * _KIB, "Send a collected batch as soon as it has this size.", low=1
    )
    linger_total_bytes: int = option(
        32 * _MIB,
        "With this much collected and unanswered, messages go out on their own again.",
        low=1,
    )
    trace: bool = option(False, "Record sends in the trace topic (enableMsgTrace).")
    trace_topic: str = option(TRACE_TOPIC, "The topic that traces go to.")
    send_hooks: Sequence[SendHook] = option((), "Told before and after each attempt to send.")
    send_filters: Sequence[SendFilter] = option((), "Called before each attempt; may refuse it.")
    end_transaction_hooks: Sequence[EndTransactionHook] = option(
        (), "Told what was decided about each half message."
    )

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if self.compression.upper() not in CompressionType.__members__:
            raise InvalidSettings(
                f"compression must be zlib, lz4 or zstd, not {self.compression!r}"
            )

    @property
    def compression_type(self) -> CompressionType:
        return CompressionType[self.compression.upper()]

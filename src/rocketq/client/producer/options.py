"""How a producer behaves; RocketMQ's own names are in the comments of the fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocketq.client.config import ClientConfig, ClientOptions
from rocketq.client.errors import InvalidSettings
from rocketq.client.hooks import EndTransactionHook, SendFilter, SendHook
from rocketq.message.flags import CompressionType
from rocketq.message.names import AUTO_CREATE_TOPIC, TRACE_TOPIC

_KIB = 1024
_MIB = 1024 * 1024


class ProducerOptions(ClientOptions, total=False):
    """The keyword arguments of a producer; `ProducerConfig` explains them."""

    send_timeout_s: float
    attempt_timeout_s: float | None
    retries: int
    retry_when_not_stored: bool
    max_message_size: int
    compress_above: int | None
    compression: str
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
    """Settings of a producer, beyond those of every client."""

    send_timeout_s: float = 3.0
    """All attempts and the route lookup together (sendMsgTimeout)."""
    attempt_timeout_s: float | None = None
    """At most this long for one attempt while another is possible
    (sendMsgMaxTimeoutPerRequest)."""
    retries: int = 2
    """Further attempts, on another broker where there is one (retryTimesWhenSendFailed).
    With 0 the first failure is final; otherwise a broker that cannot be reached, and is the
    only one, is tried again until the time is up."""
    retry_when_not_stored: bool = False
    """Try another broker when the status is not SEND_OK (retryAnotherBrokerWhenNotStoreOK)."""
    max_message_size: int = 4 * _MIB
    compress_above: int | None = 4 * _KIB
    """Compress bodies of at least this size (compressMsgBodyOverHowmuch); None: never."""
    compression: str = "zlib"
    """zlib, or lz4 and zstd, which brokers and consumers know from 5.0 on (compressType)."""
    compression_level: int = 5
    template_topic: str = AUTO_CREATE_TOPIC
    """Whose route is borrowed for a topic that does not exist yet (createTopicKey)."""
    template_queues: int = 4
    """Queues of a topic created that way (defaultTopicQueueNums)."""
    avoid_slow_brokers: bool = False
    """Leave brokers alone for a while that were slow (sendLatencyFaultEnable)."""
    max_pending_sends: int = 50_000
    """Sends without an answer after which `send_soon` refuses further ones."""
    batch_bytes: int = 1 * _MIB
    """Batches larger than this are split."""
    linger_ms: float | None = None
    """Collect single messages into batches for this long (autoBatch); 0 collects what is
    sent in one turn of the event loop, None sends each message on its own."""
    linger_bytes: int = 32 * _KIB
    """Send a collected batch as soon as it has this size."""
    linger_total_bytes: int = 32 * _MIB
    """With so much collected and unanswered, messages go out on their own again."""
    trace: bool = False
    """Record sends in the trace topic (enableMsgTrace)."""
    trace_topic: str = TRACE_TOPIC
    send_hooks: Sequence[SendHook] = ()
    send_filters: Sequence[SendFilter] = ()
    end_transaction_hooks: Sequence[EndTransactionHook] = ()

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if self.send_timeout_s <= 0:
            raise InvalidSettings(f"send_timeout_s must be above 0, not {self.send_timeout_s}")
        if self.retries < 0:
            raise InvalidSettings(f"retries must not be negative: {self.retries}")
        if self.compression.upper() not in CompressionType.__members__:
            raise InvalidSettings(
                f"compression must be zlib, lz4 or zstd, not {self.compression!r}"
            )
        if not 0 <= self.compression_level <= 9:
            raise InvalidSettings(f"compression_level is 0 to 9, not {self.compression_level}")
        if self.template_queues < 1:
            raise InvalidSettings(f"template_queues must be at least 1: {self.template_queues}")
        if self.linger_ms is not None and not 0 <= self.linger_ms <= 30_000:
            raise InvalidSettings(f"linger_ms is 0 to 30000 or None, not {self.linger_ms}")

    @property
    def compression_type(self) -> CompressionType:
        return CompressionType[self.compression.upper()]

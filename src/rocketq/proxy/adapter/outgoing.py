"""From a gRPC message to what a broker stores: checks, properties, flags."""

from typing import Any, Final, NamedTuple

from rocketq.message.flags import SysFlag
from rocketq.message.properties.codec import PropertyName
from rocketq.proxy.adapter import checks
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import Refused

LITE_TOPIC: Final = "__LITE_TOPIC"

RESERVED: Final = frozenset(
    """TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC ORIGIN_GROUP REAL_TOPIC REAL_QID
    TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG
    CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY MAX_RECONSUME_TIMES CONSUME_START_TIME
    POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO
    INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE
    INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS
    TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST
    BORN_TIMESTAMP DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# _SYS_MSG_PRIORITY_
    __LITE_TOPIC""".split()
)
"""Names that users may not take for properties of their own, and do not see."""

_SEPARATORS: Final = ("\x01", "\x02")


class Outgoing(NamedTuple):
    """One message, ready for a broker."""

    message_id: str
    type: int
    message_group: str
    sys_flag: int
    born_timestamp: int
    properties: str
    body: bytes


class OutgoingMessages:
    """Makes them by the limits of one proxy."""

    def __init__(self, config: ProxyConfig) -> None:
        self._config = config

    def make(self, topic: str, message: Any, now_ms: int, peer: str) -> Outgoing:
        """Check a message and put its properties together; raises `Refused`."""
        config = self._config
        system = message.system_properties
        body: bytes = message.body
        if not body and config.enable_message_body_empty_check:
            raise Refused(pb.MESSAGE_BODY_EMPTY, "a message needs a body")
        if 0 < config.max_message_size < len(body):
            raise Refused(
                pb.MESSAGE_BODY_TOO_LARGE,
                f"a body of {len(body)} bytes, at most {config.max_message_size} are allowed",
            )
        user = dict(message.user_properties)
        self._check_properties(user, system)
        if not system.message_id.strip() or checks.has_control_characters(system.message_id):
            raise Refused(pb.ILLEGAL_MESSAGE_ID, "a message needs an id")
        is_transaction = system.message_type == pb.TRANSACTION
        if is_transaction:
            self._check_recovery(system)
        deliver_ms = self._delivery_ms(system, now_ms)
        if system.HasField("priority") and system.priority < 0:
            raise Refused(pb.BAD_REQUEST, "a priority is 0 or more")
        if system.HasField("message_group"):
            checks.check_message_group(system.message_group, config.max_message_group_size)
        if system.HasField("lite_topic"):
            checks.refuse_lite(system.lite_topic)
        kind = _type_of(system, is_transaction)
        born_ms = checks.milliseconds(system.born_timestamp) or now_ms
        properties = self._properties(
            topic, system, user, is_transaction, deliver_ms, born_ms, peer
        )
        sys_flag = SysFlag.COMPRESSED if system.body_encoding == pb.GZIP else 0
        if is_transaction:
            sys_flag |= SysFlag.TRANSACTION_PREPARED
        return Outgoing(
            *(system.message_id, kind, system.message_group, sys_flag, born_ms), properties, body
        )

    # Checks

    def _check_properties(self, user: dict[str, str], system: Any) -> None:
        config = self._config
        if len(user) > config.user_property_max_num:
            raise Refused(
                pb.MESSAGE_PROPERTIES_TOO_LARGE,
                f"{len(user)} properties, at most {config.user_property_max_num} are allowed",
            )
        size = 0
        for name, value in user.items():
            if name in RESERVED or not name:
                raise Refused(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the name {name!r} is not free")
            if checks.has_control_characters(name) or checks.has_control_characters(value):
                raise Refused(
                    pb.ILLEGAL_MESSAGE_PROPERTY_KEY, "a property has no control characters"
                )
            size += len(name.encode()) + len(value.encode())
        checks.check_tag(system.tag)
        size += len(system.tag.encode())
        for key in system.keys:
            checks.check_key(key)
            size += len(key.encode())
        if size > config.max_user_property_size:
            raise Refused(
                pb.MESSAGE_PROPERTIES_TOO_LARGE,
                f"{size} bytes of properties, at most {config.max_user_property_size} are allowed",
            )
        for text in (system.trace_context, system.born_host):
            if any(separator in text for separator in _SEPARATORS):
                raise Refused(
                    pb.ILLEGAL_MESSAGE_PROPERTY_KEY, "a property has no control characters"
                )

    def _check_recovery(self, system: Any) -> None:
        most = self._config.max_transaction_recovery_second
        if system.orphaned_transaction_recovery_duration.seconds > most:
            raise Refused(
                pb.BAD_REQUEST, f"a transaction is asked about after at most {most} seconds"
            )

    def _delivery_ms(self, system: Any, now_ms: int) -> int | None:
        if not system.HasField("delivery_timestamp"):
            return None
        deliver_ms = checks.milliseconds(system.delivery_timestamp)
        most = self._config.max_delay_time_mills
        if 0 < most < deliver_ms - now_ms:
            raise Refused(
                pb.ILLEGAL_DELIVERY_TIME, f"a message is delivered within {most // 1000} seconds"
            )
        return max(deliver_ms, 0)

    # Properties

    @staticmethod
    def _properties(
        topic: str,
        system: Any,
        user: dict[str, str],
        is_transaction: bool,
        deliver_ms: int | None,
        born_ms: int,
        peer: str,
    ) -> str:
        stored = user
        stored[PropertyName.UNIQUE_KEY] = system.message_id
        stored[PropertyName.PRODUCER_GROUP] = topic
        stored[PropertyName.BORN_HOST] = system.born_host.strip() or peer
        stored[PropertyName.BORN_TIMESTAMP] = str(born_ms)
        if system.tag:
            stored[PropertyName.TAGS] = system.tag
        if system.keys:
            stored[PropertyName.KEYS] = " ".join(system.keys)
        if is_transaction:
            stored[PropertyName.TRANSACTION_PREPARED] = "true"
            seconds = system.orphaned_transaction_recovery_duration.seconds
            if system.HasField("orphaned_transaction_recovery_duration") and seconds >= 0:
                stored[PropertyName.CHECK_IMMUNITY_TIME] = str(seconds)
        if deliver_ms is not None:
            stored[PropertyName.TIMER_DELIVER_MS] = str(deliver_ms)
        if system.message_group:
            stored[PropertyName.SHARDING_KEY] = system.message_group
        if system.trace_context:
            stored[PropertyName.TRACE_CONTEXT] = system.trace_context
        if system.HasField("priority"):
            stored[PropertyName.PRIORITY] = str(system.priority)
        return "\x02".join([f"{name}\x01{value}" for name, value in stored.items()]) + "\x02"


def _type_of(system: Any, is_transaction: bool) -> int:
    """What a message is by its properties; what it is declared as only counts for one kind."""
    if is_transaction:
        return int(pb.TRANSACTION)
    if system.HasField("delivery_timestamp"):
        return int(pb.DELAY)
    if system.HasField("message_group"):
        return int(pb.FIFO)
    if system.HasField("priority"):
        return int(pb.PRIORITY)
    return int(pb.NORMAL)

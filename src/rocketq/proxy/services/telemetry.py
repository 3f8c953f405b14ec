"""Telemetry, Heartbeat and NotifyClientTermination: who is there, and what they are told.

A client opens a stream and says on it what it is. The answer is the same with everything filled
in that the server decides. From then on the stream is the way to reach it.
"""

import asyncio
import logging
from collections import deque
from typing import Any, Final

from google.protobuf.message import DecodeError

from rocketq.common.errors import RocketqError
from rocketq.proxy.adapter import checks
from rocketq.proxy.calls import Call, Rpcs
from rocketq.proxy.cluster import Cluster
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.http2.connection import GrpcStatus, Receiver
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.questions import Questions
from rocketq.proxy.refusal import OK, Refused, refusal_for
from rocketq.proxy.registration import Registration
from rocketq.proxy.sessions import Session, Sessions
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig

logger = logging.getLogger(__name__)

_MOST_WAITING: Final = 64
_MOST_UNREAD: Final = 512 * 1024
_CLIENT_TYPES: Final = frozenset({pb.PRODUCER, pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER})
_CONSUMERS: Final = frozenset({pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER})
_LITE: Final = frozenset({pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER})
_MOST_TOPICS: Final = 10_000

# When a message that was not consumed comes again, in seconds.
_DELAYS_S: Final = (
    *(1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200),
)


class TelemetryService:
    """Keeps sessions, and answers what clients say about themselves."""

    def __init__(
        self,
        config: ProxyConfig,
        cluster: Cluster,
        sessions: Sessions,
        registration: Registration,
        questions: Questions,
        rpcs: Rpcs,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._sessions = sessions
        self._registration = registration
        self.questions = questions
        self._rpcs = rpcs

    def add_to(self, rpcs: Rpcs) -> None:
        rpcs.both_ways("Telemetry", self._open)
        rpcs.unary("Heartbeat", self._heartbeat)
        rpcs.unary("NotifyClientTermination", self._terminate)
        rpcs.unary("SyncLiteSubscription", self._sync_lite)

    def _open(self, call: Call) -> Receiver:
        return TelemetryStream(self, self._rpcs, call)

    # Settings

    async def settings(self, settings: Any, call: Call, stream: "TelemetryStream") -> Any:
        """What is answered to a client's settings."""
        if not settings.HasField("publishing") and not settings.HasField("subscription"):
            raise Refused(pb.BAD_REQUEST, "settings say neither publishing nor subscription")
        if settings.client_type in _LITE:
            raise Refused(pb.ILLEGAL_LITE_TOPIC, "lite topics are not supported")
        if settings.HasField("publishing"):
            self._check_topics(settings.publishing.topics)
            self._fill_producer(settings)
        else:
            if settings.client_type not in _CONSUMERS:
                raise Refused(pb.UNRECOGNIZED_CLIENT_TYPE, "not a client type that is served")
            subscription = settings.subscription
            group = checks.group_of(subscription.group)
            self._check_topics([entry.topic for entry in subscription.subscriptions])
            self._fill_consumer(settings, await self._cluster.group(group))
        settings.metric.Clear()
        settings.metric.on = False
        session = self._sessions.put(
            call.client_id, call.connection, settings, call.metadata, stream
        )
        await self._registration.register(session)
        return settings

    @staticmethod
    def _check_topics(topics: Any) -> None:
        if len(topics) > _MOST_TOPICS:
            raise Refused(pb.BAD_REQUEST, f"more than {_MOST_TOPICS} topics")
        for topic in topics:
            checks.topic_of(topic)

    def _fill_producer(self, settings: Any) -> None:
        config = self._config
        policy = settings.backoff_policy
        policy.Clear()
        policy.max_attempts = config.grpc_client_producer_max_attempts
        backoff = policy.exponential_backoff
        checks.set_milliseconds(backoff.initial, config.grpc_client_producer_backoff_initial_millis)
        checks.set_milliseconds(backoff.max, config.grpc_client_producer_backoff_max_millis)
        backoff.multiplier = config.grpc_client_producer_backoff_multiplier
        settings.publishing.max_body_size = config.max_message_size
        settings.publishing.validate_message_type = config.enable_topic_message_type_check

    def _fill_consumer(self, settings: Any, group: SubscriptionGroupConfig | None) -> None:
        config = self._config
        group = group or SubscriptionGroupConfig(group_name=settings.subscription.group.name)
        policy = settings.backoff_policy
        policy.Clear()
        policy.max_attempts = group.retry_max_times + 1
        wanted = group.group_retry_policy
        if wanted.type == "EXPONENTIAL" and wanted.exponential_retry_policy is not None:
            exponential = wanted.exponential_retry_policy
            backoff = policy.exponential_backoff
            checks.set_milliseconds(backoff.initial, exponential.initial)
            checks.set_milliseconds(backoff.max, exponential.max)
            backoff.multiplier = exponential.multiplier
        else:
            customized = wanted.customized_retry_policy
            delays = customized.next if customized is not None else []
            for delay_ms in delays or [delay_s * 1000 for delay_s in _DELAYS_S]:
                checks.set_milliseconds(policy.customized_backoff.next.add(), delay_ms)
        subscription = settings.subscription
        subscription.fifo = group.consume_message_orderly
        subscription.receive_batch_size = config.grpc_client_consumer_long_polling_batch_size
        checks.set_milliseconds(
            subscription.long_polling_timeout,
            config.grpc_client_consumer_max_long_polling_timeout_millis,
        )
        subscription.lite_subscription_quota = 2_000
        subscription.max_lite_topic_size = 64

    # Heartbeats

    async def _heartbeat(self, request: Any, call: Call) -> Any:
        session = self._known(call)
        if session.client_type in _CONSUMERS:
            checks.group_of(request.group)
        self._sessions.seen(session, call.connection)
        await self._registration.register(session)
        return pb.HeartbeatResponse(status=OK)

    async def _terminate(self, request: Any, call: Call) -> Any:
        session = self._known(call)
        await self._registration.unregister(session)
        self._sessions.remove(session.client_id)
        return pb.NotifyClientTerminationResponse(status=OK)

    def _known(self, call: Call) -> Session:
        session = self._sessions.get(call.client_id)
        if session is None or session.client_type not in _CLIENT_TYPES:
            raise Refused(
                pb.UNRECOGNIZED_CLIENT_TYPE, f"client {call.client_id} has not sent its settings"
            )
        return session

    async def _sync_lite(self, request: Any, call: Call) -> Any:
        raise Refused(pb.ILLEGAL_LITE_TOPIC, "lite topics are not supported")


class TelemetryStream:
    """One stream of commands each way. Commands are answered one after the other."""

    def __init__(self, service: TelemetryService, rpcs: Rpcs, call: Call) -> None:
        self._service = service
        self._rpcs = rpcs
        self._call = call
        self._arrived: deque[Any] = deque()
        self._task: asyncio.Task[None] | None = None
        self._has_ended = False

    # To the client

    @property
    def is_open(self) -> bool:
        return not self._call.stream.is_over and not self._has_ended

    def send(self, command: Any) -> bool:
        stream = self._call.stream
        if stream.waiting_size > _MOST_UNREAD:
            return False
        stream.send(command.SerializeToString())
        return True

    # From the client

    def message(self, data: bytes) -> None:
        try:
            command = pb.TelemetryCommand.FromString(data)
        except DecodeError as error:
            self._call.stream.finish(GrpcStatus.INTERNAL, f"a command that is none: {error}")
            return
        if len(self._arrived) >= _MOST_WAITING:
            self._call.stream.finish(GrpcStatus.RESOURCE_EXHAUSTED, "too many commands at once")
            return
        self._arrived.append(command)
        if self._task is None:
            self._task = self._rpcs.start(self._take_all())

    def ended(self) -> None:
        self._has_ended = True
        if self._task is None:
            self._call.stream.finish()

    def cancelled(self) -> None:
        self._has_ended = True
        if self._task is not None:
            self._task.cancel()

    async def _take_all(self) -> None:
        try:
            while self._arrived:
                await self._take(self._arrived.popleft())
        finally:
            self._task = None
        if self._has_ended:
            self._call.stream.finish()

    async def _take(self, command: Any) -> None:
        stream = self._call.stream
        try:
            await self._rpcs.checked("Telemetry", command, self._call)
        except RocketqError as error:
            self.send(pb.TelemetryCommand(status=refusal_for(error).status))
            stream.finish()
            return
        kind = command.WhichOneof("command")
        if kind in ("thread_stack_trace", "verify_message_result"):
            self._service.questions.answered(command)
        elif kind == "settings":
            try:
                settings = await self._service.settings(command.settings, self._call, self)
            except Refused as error:
                is_clients = 40_000 <= error.code < 50_000
                status = GrpcStatus.INVALID_ARGUMENT if is_clients else GrpcStatus.INTERNAL
                stream.finish(status, error.text)
            except RocketqError as error:
                stream.finish(GrpcStatus.UNAVAILABLE, str(error))
            except Exception as error:
                logger.exception("settings of %s", self._call.client_id)
                stream.finish(GrpcStatus.INTERNAL, f"{type(error).__name__}: {error}")
            else:
                self.send(pb.TelemetryCommand(status=OK, settings=settings))

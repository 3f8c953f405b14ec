"""Calls etcd: any of its nodes, with TLS and a user where they are asked for.

One node is used at a time. When it does not answer, or says that it has no leader, the next
one is asked, and watches move there too: a node that hangs would let them hang for ever.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import grpc
from grpc import aio

from rocketq.controller.etcd import schema
from rocketq.controller.etcd.errors import EtcdFull, EtcdRefused, EtcdUnavailable, HistoryGone

logger = logging.getLogger(__name__)

T = TypeVar("T")

# How long one node has to answer before the next one is asked.
_ATTEMPT_S: Final = 0.7
_PAUSE_S: Final = 0.05
_MOST_DOUBLINGS: Final = 3

_CHANNEL_OPTIONS: Final = (
    # A node that comes back is found again soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 700),
    ("grpc.max_reconnect_backoff_ms", 700),
    # etcd hangs up on those who ask more often than every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # Several clients of one process are not to fail or move together.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

# A node that has lost its leader says so at once, and a watch at it ends.
_WITH_LEADER: Final = ("hasleader", "true")

_NEXT_NODE: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdAccess:
    """Where etcd is and how it is spoken to."""

    endpoints: Sequence[str]
    user: str = ""
    password: str = ""
    # Files in PEM form. With `ca_file`, or the two others, the connection is TLS.
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    @property
    def is_encrypted(self) -> bool:
        return bool(self.ca_file or self.cert_file)


class Pair(NamedTuple):
    """A key with its value, when it was made and last changed."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int


class Change(NamedTuple):
    """What a watch tells: a pair, or the key of one that is gone."""

    pair: Pair
    is_deleted: bool


class Snapshot(NamedTuple):
    """Pairs, and the revision at which they were these."""

    revision: int
    pairs: list[Pair]


class Outcome(NamedTuple):
    """Of a transaction; `pairs` is what was found instead where it did not succeed."""

    succeeded: bool
    revision: int
    pairs: list[Pair]


class EtcdClient:
    """Used from one event loop."""

    def __init__(self, access: EtcdAccess) -> None:
        self._access = access
        self._channels: list[aio.Channel | None] = [None] * len(access.endpoints)
        self._current = 0
        self._moved = asyncio.Event()
        self._token: str | None = None

    async def close(self) -> None:
        self._moved.set()
        for channel in self._channels:
            if channel is not None:
                await channel.close()

    # Keys

    async def read(self, key: bytes, timeout_s: float) -> Snapshot:
        """One key, as all of etcd sees it now."""
        return await self._range(schema.RangeRequest(key=key), timeout_s)

    async def read_prefix(self, prefix: bytes, timeout_s: float) -> Snapshot:
        """All keys that begin so, as all of etcd sees them now."""
        request = schema.RangeRequest(key=prefix, range_end=after_prefix(prefix))
        return await self._range(request, timeout_s)

    async def _range(self, request: Any, timeout_s: float) -> Snapshot:
        response = await self._unary("KV/Range", request, schema.RangeResponse, timeout_s)
        return Snapshot(response.header.revision, [_pair(each) for each in response.kvs])

    async def put_if(
        self,
        conditions: Sequence[Any],
        key: bytes,
        value: bytes,
        *,
        lease: int = 0,
        timeout_s: float,
    ) -> Outcome:
        """Write one key if all conditions hold; else say what the compared keys hold."""
        put = schema.PutRequest(key=key, value=value, lease=lease)
        return await self._transact(conditions, [schema.RequestOp(request_put=put)], timeout_s)

    async def delete_if(
        self, conditions: Sequence[Any], key: bytes, *, note: tuple[bytes, bytes], timeout_s: float
    ) -> Outcome:
        """Delete one key and write another, if all conditions hold."""
        operations = [
            schema.RequestOp(request_delete_range=schema.DeleteRangeRequest(key=key)),
            schema.RequestOp(request_put=schema.PutRequest(key=note[0], value=note[1])),
        ]
        return await self._transact(conditions, operations, timeout_s)

    async def _transact(
        self, conditions: Sequence[Any], operations: Sequence[Any], timeout_s: float
    ) -> Outcome:
        request = schema.TxnRequest(
            compare=conditions,
            success=operations,
            failure=[
                schema.RequestOp(request_range=schema.RangeRequest(key=each.key))
                for each in conditions
            ],
        )
        response = await self._unary("KV/Txn", request, schema.TxnResponse, timeout_s)
        pairs = [_pair(pair) for each in response.responses for pair in each.response_range.kvs]
        return Outcome(response.succeeded, response.header.revision, pairs)

    # Leases

    async def grant_lease(self, ttl_s: int, timeout_s: float) -> tuple[int, int]:
        """A new lease: its id and how many seconds it lasts, which etcd may have raised."""
        response = await self._unary(
            "Lease/LeaseGrant",
            schema.LeaseGrantRequest(TTL=ttl_s),
            schema.LeaseGrantResponse,
            timeout_s,
        )
        return response.ID, response.TTL

    async def renew_lease(self, lease: int, timeout_s: float) -> int:
        """How many seconds it lasts from now; 0 if it has ended."""
        request = schema.LeaseKeepAliveRequest(ID=lease)

        async def attempt(channel: aio.Channel, metadata: Any, within_s: float) -> Any:
            call = channel.stream_stream(
                "/etcdserverpb.Lease/LeaseKeepAlive",
                request_serializer=schema.LeaseKeepAliveRequest.SerializeToString,
                response_deserializer=schema.LeaseKeepAliveResponse.FromString,
            )(metadata=metadata, timeout=within_s)
            try:
                # The call has its own time limit, which a call that was cancelled before it
                # began does not heed: writing to it would wait for ever.
                async with asyncio.timeout(within_s + _PAUSE_S):
                    await call.write(request)
                    response = await call.read()
            except (TimeoutError, asyncio.InvalidStateError) as error:
                raise EtcdUnavailable(f"the renewal of a lease ended: {error}") from None
            finally:
                call.cancel()
            if response is aio.EOF:
                raise EtcdUnavailable("the renewal of a lease ended without an answer")
            return response

        response = await self._at_some_node(attempt, timeout_s)
        return int(response.TTL)

    async def revoke_lease(self, lease: int, timeout_s: float) -> None:
        """End a lease, and with it all keys that hang on it."""
        await self._unary(
            "Lease/LeaseRevoke",
            schema.LeaseRevokeRequest(ID=lease),
            schema.LeaseRevokeResponse,
            timeout_s,
        )

    # Watching

    async def watch(self, prefix: bytes, revision: int) -> AsyncIterator[list[Change]]:
        """All changes below a prefix from a revision on, in order, each once.

        The first, empty one says that the watch stands. Goes on at another node when one
        fails; raises HistoryGone if etcd has forgotten what comes next.
        """
        failures = 0
        while True:
            # With each round a little more time: perhaps none of them hangs, and all are slow.
            rounds = min(failures // len(self._channels), _MOST_DOUBLINGS)
            async for batch in self._watch_here(prefix, revision, _ATTEMPT_S * 2 ** (1 + rounds)):
                failures = -1
                if batch:
                    revision = max(change.pair.mod_revision for change in batch) + 1
                yield batch
            failures += 1
            await asyncio.sleep(_PAUSE_S)

    async def _watch_here(
        self, prefix: bytes, revision: int, begins_within_s: float
    ) -> AsyncIterator[list[Change]]:
        """A watch at the node in use, until that changes."""
        moved = self._moved
        node = self._current
        try:
            metadata = await self._metadata(_ATTEMPT_S)
        except aio.AioRpcError as error:
            self._judge(error)
            self._move_on(node)
            return
        call = self._channel().stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=schema.WatchRequest.SerializeToString,
            response_deserializer=schema.WatchResponse.FromString,
        )(metadata=(*metadata, _WITH_LEADER))
        create = schema.WatchCreateRequest(
            key=prefix, range_end=after_prefix(prefix), start_revision=revision
        )

        async def begin() -> Any:
            await call.write(schema.WatchRequest(create_request=create))
            return await call.read()

        beginning = asyncio.ensure_future(begin())
        leaving = asyncio.ensure_future(moved.wait())
        leaving.add_done_callback(lambda _: call.cancel())
        try:
            # A node that hangs does not even say that it watches; later on, whoever asks it
            # anything notices, or the connection's own heartbeats do. To cancel the call is not
            # enough: who waits to write to one that was cancelled before it began waits on.
            await asyncio.wait(
                (beginning, leaving), timeout=begins_within_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not beginning.done():
                self._move_on(node)
                return
            response = beginning.result()
            while response is not aio.EOF:
                if response.canceled:
                    if response.compact_revision:
                        raise HistoryGone(f"etcd has forgotten revision {revision}")
                    logger.info("etcd ended a watch: %s", response.cancel_reason)
                    break
                yield [_change(event) for event in response.events]
                response = await call.read()
            self._move_on(node)
        except asyncio.InvalidStateError:
            self._move_on(node)
        except aio.AioRpcError as error:
            if self._judge(error):
                self._move_on(node)
        except asyncio.CancelledError:
            # Of the call, when the node was given up; of this task, when somebody meant it.
            if not moved.is_set() or _is_cancelled():
                raise
        finally:
            beginning.cancel()
            leaving.cancel()
            call.cancel()

    # Nodes

    async def _unary(self, method: str, request: Any, response: Any, timeout_s: float) -> Any:
        async def attempt(channel: aio.Channel, metadata: Any, within_s: float) -> Any:
            return await channel.unary_unary(
                f"/etcdserverpb.{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )(request, metadata=metadata, timeout=within_s)

        return await self._at_some_node(attempt, timeout_s)

    async def _at_some_node(
        self,
        attempt: Callable[[aio.Channel, Any, float], Awaitable[T]],
        timeout_s: float,
    ) -> T:
        """Ask one node after the other until one answers or the time is up.

        What is asked may so be done twice: it has to be of the kind that does no harm.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        nodes = len(self._channels)
        attempt_s = _ATTEMPT_S if nodes > 1 else timeout_s
        for number in itertools.count(1):
            node = self._current
            within_s = min(max(deadline - loop.time(), 0.01), attempt_s)
            if number % nodes == 0:
                attempt_s *= 2  # perhaps none of them hangs, and all are slow
            try:
                return await attempt(self._channel(), await self._metadata(within_s), within_s)
            except aio.AioRpcError as error:
                if not self._judge(error):
                    continue  # with a new token, at once
                last = f"{self._access.endpoints[node]}: {error.details()}"
            except EtcdUnavailable as error:
                last = str(error)
            self._move_on(node)
            if loop.time() + _PAUSE_S >= deadline:
                raise EtcdUnavailable(f"etcd did not answer in {timeout_s:g} s ({last})")
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError("it counts for ever")

    def _judge(self, error: aio.AioRpcError) -> bool:
        """Whether it is the node that failed. Raises what another node would say, too."""
        code, details = error.code(), error.details() or ""
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "space" in details:
            raise EtcdFull(f"etcd is full: {details}") from None
        if "auth token" in details or "revision of the authorization" in details:
            if self._token is None:
                raise EtcdRefused(f"etcd wants a user: {details}") from None
            self._token = None
            return False
        if code in _NEXT_NODE or code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return True
        raise EtcdRefused(f"etcd refuses: {details}") from None

    def _channel(self) -> aio.Channel:
        channel = self._channels[self._current]
        if channel is None:
            endpoint = self._access.endpoints[self._current]
            if self._access.is_encrypted:
                channel = aio.secure_channel(
                    endpoint, self._credentials(), options=_CHANNEL_OPTIONS
                )
            else:
                channel = aio.insecure_channel(endpoint, options=_CHANNEL_OPTIONS)
            self._channels[self._current] = channel
        return channel

    def _credentials(self) -> grpc.ChannelCredentials:
        def content(name: str) -> bytes | None:
            return Path(name).read_bytes() if name else None

        return grpc.ssl_channel_credentials(
            content(self._access.ca_file),
            content(self._access.key_file),
            content(self._access.cert_file),
        )

    def _move_on(self, node: int) -> None:
        """Leave a node that failed; whoever saw it fail first decides."""
        if node == self._current:
            self._current = (node + 1) % len(self._channels)
            self._moved.set()
            self._moved = asyncio.Event()

    async def _metadata(self, timeout_s: float) -> tuple[tuple[str, str], ...]:
        if not self._access.user:
            return ()
        if self._token is None:
            response = await self._channel().unary_unary(
                "/etcdserverpb.Auth/Authenticate",
                request_serializer=schema.AuthenticateRequest.SerializeToString,
                response_deserializer=schema.AuthenticateResponse.FromString,
            )(
                schema.AuthenticateRequest(name=self._access.user, password=self._access.password),
                timeout=timeout_s,
            )
            self._token = response.token
        return (("token", self._token),)


# Conditions


def is_absent(key: bytes) -> Any:
    return made_at(key, 0)


def made_at(key: bytes, revision: int) -> Any:
    """That a key is the one that was made then; 0: that there is none."""
    return schema.Compare(key=key, target=schema.CREATE_REVISION, create_revision=revision)


def unchanged_since(key: bytes, revision: int) -> Any:
    """That a key was last changed then; 0: that there is none."""
    return schema.Compare(key=key, target=schema.MOD_REVISION, mod_revision=revision)


def after_prefix(prefix: bytes) -> bytes:
    """The first key behind all that begin with a prefix."""
    assert prefix[-1] < 0xFF, prefix
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _pair(found: Any) -> Pair:
    return Pair(found.key, found.value, found.create_revision, found.mod_revision, found.lease)


def _change(event: Any) -> Change:
    return Change(_pair(event.kv), event.type == schema.DELETE)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

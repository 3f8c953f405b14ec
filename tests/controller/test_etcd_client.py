"""etcd's interface, spoken to a real server."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketq.controller.etcd.client import (
    EtcdAccess,
    EtcdClient,
    is_absent,
    made_at,
    unchanged_since,
)
from rocketq.controller.etcd.errors import EtcdFull, EtcdRefused, EtcdUnavailable, HistoryGone
from tests.client.cutting_proxy import CuttingProxy
from tests.controller.etcd_server import Etcd, needs_etcd, running_etcd
from tests.waiting import PATIENCE_S, eventually

pytestmark = needs_etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@asynccontextmanager
async def connected(etcd: Etcd, **more: str) -> AsyncIterator[EtcdClient]:
    client = EtcdClient(EtcdAccess(endpoints=etcd.endpoints.split(","), **more))
    try:
        yield client
    finally:
        await client.close()


async def test_a_key_is_written_only_as_it_was_expected(etcd: Etcd) -> None:
    async with connected(etcd) as client:
        made = await client.put_if([is_absent(b"t1/a")], b"t1/a", b"1", timeout_s=PATIENCE_S)
        assert made.succeeded
        late = await client.put_if([is_absent(b"t1/a")], b"t1/a", b"2", timeout_s=PATIENCE_S)
        assert not late.succeeded
        assert [pair.value for pair in late.pairs] == [b"1"]
        conditions = [made_at(b"t1/a", made.revision), unchanged_since(b"t1/a", made.revision)]
        changed = await client.put_if(conditions, b"t1/a", b"3", timeout_s=PATIENCE_S)
        assert changed.succeeded
        again = await client.put_if(conditions, b"t1/a", b"4", timeout_s=PATIENCE_S)
        assert not again.succeeded
        found = await client.read(b"t1/a", PATIENCE_S)
        (pair,) = found.pairs
        assert (pair.value, pair.create_revision, pair.mod_revision) == (
            b"3",
            made.revision,
            changed.revision,
        )
        await client.put_if([], b"t1/b", b"5", timeout_s=PATIENCE_S)
        everything = await client.read_prefix(b"t1/", PATIENCE_S)
        assert [pair.value for pair in everything.pairs] == [b"3", b"5"]


async def test_keys_go_with_their_lease(etcd: Etcd) -> None:
    async with connected(etcd) as client:
        lease, lasts_s = await client.grant_lease(2, PATIENCE_S)
        assert lasts_s >= 2
        await client.put_if([], b"t2/a", b"1", lease=lease, timeout_s=PATIENCE_S)
        assert await client.renew_lease(lease, PATIENCE_S) == lasts_s
        (pair,) = (await client.read(b"t2/a", PATIENCE_S)).pairs
        assert pair.lease == lease
        await client.revoke_lease(lease, PATIENCE_S)
        assert (await client.read(b"t2/a", PATIENCE_S)).pairs == []
        assert await client.renew_lease(lease, PATIENCE_S) == 0


async def test_a_watch_tells_all_changes_in_order(etcd: Etcd) -> None:
    async with connected(etcd) as client:
        begin = (await client.read_prefix(b"t3/", PATIENCE_S)).revision + 1
        lease, _ = await client.grant_lease(60, PATIENCE_S)
        await client.put_if([], b"t3/a", b"1", lease=lease, timeout_s=PATIENCE_S)
        seen: list[tuple[bytes, bytes, bool]] = []
        async with asyncio.timeout(PATIENCE_S):
            async for changes in client.watch(b"t3/", begin):
                if not changes and not seen:
                    await client.put_if([], b"t3/a", b"2", lease=lease, timeout_s=PATIENCE_S)
                    await client.put_if([], b"t4/a", b"-", timeout_s=PATIENCE_S)
                    await client.revoke_lease(lease, PATIENCE_S)
                seen += [(c.pair.key, c.pair.value, c.is_deleted) for c in changes]
                if len(seen) == 3:
                    break
        assert seen == [(b"t3/a", b"1", False), (b"t3/a", b"2", False), (b"t3/a", b"", True)]


async def test_a_watch_of_what_is_forgotten_says_so(etcd: Etcd) -> None:
    async with connected(etcd) as client:
        old = (await client.put_if([], b"t5/a", b"1", timeout_s=PATIENCE_S)).revision
        new = (await client.put_if([], b"t5/a", b"2", timeout_s=PATIENCE_S)).revision
        etcd.ask("kv/compaction", revision=str(new))
        with pytest.raises(HistoryGone):
            async for _ in client.watch(b"t5/", old):
                pass


async def test_a_node_that_is_gone_is_said_to_be_so(tmp_path: Path) -> None:
    client = EtcdClient(EtcdAccess(endpoints=["127.0.0.1:1", "127.0.0.1:2"]))
    with pytest.raises(EtcdUnavailable, match="no"):
        await client.read(b"a", 0.5)
    await client.close()


async def test_a_full_etcd_is_told_from_one_that_is_away(tmp_path: Path) -> None:
    with running_etcd(tmp_path, words=("--quota-backend-bytes", str(2 * 1024 * 1024))) as etcd:
        async with connected(etcd) as client:
            lease, _ = await client.grant_lease(60, PATIENCE_S)
            with pytest.raises(EtcdFull):
                await _fill(client)
            # What writes nothing goes on.
            assert await client.renew_lease(lease, PATIENCE_S) > 0
            assert (await client.read(b"filler/0", PATIENCE_S)).pairs


async def _fill(client: EtcdClient) -> None:
    for number in range(100):
        await client.put_if([], b"filler/%d" % number, bytes(200_000), timeout_s=PATIENCE_S)


async def test_users_and_passwords(tmp_path: Path) -> None:
    with running_etcd(tmp_path) as etcd:
        etcd.ask("auth/user/add", name="root", password="the root's")
        etcd.ask("auth/user/add", name="rocketq", password="secret")
        etcd.ask("auth/role/add", name="root")
        etcd.ask("auth/role/add", name="controller")
        permission = {"permType": "READWRITE", "key": "cS8=", "range_end": "cTA="}  # q/ to q0
        etcd.ask("auth/role/grant", name="controller", perm=permission)
        etcd.ask("auth/user/grant", user="root", role="root")
        etcd.ask("auth/user/grant", user="rocketq", role="controller")
        etcd.ask("auth/enable")
        async with connected(etcd, user="rocketq", password="secret") as client:
            assert (await client.put_if([], b"q/a", b"1", timeout_s=PATIENCE_S)).succeeded
            lease, _ = await client.grant_lease(60, PATIENCE_S)
            assert await client.renew_lease(lease, PATIENCE_S) > 0
            with pytest.raises(EtcdRefused, match="permission"):
                await client.put_if([], b"elsewhere", b"1", timeout_s=PATIENCE_S)
            etcd.nodes[0].kill()
            etcd.nodes[0].start()  # and has forgotten its tokens
            (pair,) = (await client.read(b"q/a", PATIENCE_S)).pairs
            assert pair.value == b"1"
            async with asyncio.timeout(PATIENCE_S):
                async for changes in client.watch(b"q/", pair.mod_revision):
                    if changes:
                        break
        async with connected(etcd) as client:
            with pytest.raises(EtcdRefused):
                await client.read(b"q/a", PATIENCE_S)
        async with connected(etcd, user="rocketq", password="wrong") as client:
            with pytest.raises(EtcdRefused):
                await client.read(b"q/a", PATIENCE_S)


def make_certificates(folder: Path) -> None:
    """One authority, and one certificate that serves both sides."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    openssl("req", *curve, "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node")
    openssl(
        *("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-extfile", "names", "-out", "node.pem"),
    )


async def test_encrypted_connections(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "node.pem", "node.key"))
    tls = ("--client-cert-auth", "--trusted-ca-file", ca, "--cert-file", cert, "--key-file", key)
    with running_etcd(tmp_path, words=tls, encrypted=True) as etcd:
        async with connected(etcd, ca_file=ca, cert_file=cert, key_file=key) as client:

            async def is_written() -> bool:
                try:
                    return (await client.put_if([], b"a", b"1", timeout_s=1)).succeeded
                except EtcdUnavailable:
                    return False

            await eventually(is_written)
        async with connected(etcd, ca_file=ca) as client:  # without a certificate of its own
            with pytest.raises(EtcdUnavailable):
                await client.read(b"a", 0.5)
        async with connected(etcd) as client:
            with pytest.raises(EtcdUnavailable):
                await client.read(b"a", 0.5)


async def test_a_watch_leaves_a_node_that_never_began_to_speak(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The node is to be given up while its connection is still being made.
    monkeypatch.setattr("rocketq.controller.etcd.client._ATTEMPT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        endpoints = [f"{host}:{port}", *etcd.endpoints.split(",")]
        client = EtcdClient(EtcdAccess(endpoints=endpoints))
        begun = asyncio.ensure_future(anext(client.watch(b"t9/", 1)))
        try:
            await client.put_if([], b"t9/a", b"1", timeout_s=PATIENCE_S)
            assert await asyncio.wait_for(begun, PATIENCE_S) == []
        finally:
            await client.close()


async def test_a_watch_stands_at_nodes_that_are_all_slow(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No node says within the time of the first attempt that it watches.
    monkeypatch.setattr("rocketq.controller.etcd.client._ATTEMPT_S", 0.1)
    proxies = [CuttingProxy(etcd.endpoints.split(",")[0], seed) for seed in range(2)]
    for proxy in proxies:
        await proxy.start()
        proxy.least_delay_s = proxy.delay_s = 0.15
    client = EtcdClient(EtcdAccess(endpoints=[proxy.address for proxy in proxies]))
    try:
        assert await asyncio.wait_for(anext(client.watch(b"t10/", 1)), PATIENCE_S) == []
    finally:
        await client.close()
        for proxy in proxies:
            await proxy.stop()


async def test_a_lease_is_renewed_past_a_node_that_never_began_to_speak(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketq.controller.etcd.client._ATTEMPT_S", 0.2)
    async with connected(etcd) as client:
        lease, lasts_s = await client.grant_lease(60, PATIENCE_S)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        client = EtcdClient(EtcdAccess(endpoints=[f"{host}:{port}", *etcd.endpoints.split(",")]))
        try:
            assert await client.renew_lease(lease, PATIENCE_S) == lasts_s
        finally:
            await client.close()


async def test_renewing_ends_with_the_client() -> None:
    """grpc lets one wait for ever to write to a call that was cancelled before it began."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        client = EtcdClient(EtcdAccess(endpoints=[f"{host}:{port}"]))
        renewing = asyncio.create_task(client.renew_lease(1, 0.5))
        await asyncio.sleep(0.1)
        await client.close()
        async with asyncio.timeout(PATIENCE_S):
            (result,) = await asyncio.gather(renewing, return_exceptions=True)
        assert isinstance(result, EtcdUnavailable | asyncio.CancelledError), repr(result)


async def test_another_node_is_asked_when_one_is_gone_or_hangs(tmp_path: Path) -> None:
    with running_etcd(tmp_path, 3) as etcd:
        async with connected(etcd) as client:
            revision = (await client.put_if([], b"a", b"0", timeout_s=PATIENCE_S)).revision
            values: list[bytes] = []

            async def watch() -> None:
                async for changes in client.watch(b"a", revision + 1):
                    values.extend(change.pair.value for change in changes)

            watching = asyncio.create_task(watch())
            etcd.nodes[0].pause()
            await client.put_if([], b"a", b"1", timeout_s=PATIENCE_S)
            # Once or twice: what was asked of a node that is gone may have been done.
            await eventually(lambda: list(dict.fromkeys(values)) == [b"1"])
            etcd.nodes[0].go_on()
            etcd.nodes[1].kill()
            await client.put_if([], b"a", b"2", timeout_s=PATIENCE_S)
            await eventually(lambda: list(dict.fromkeys(values)) == [b"1", b"2"])
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

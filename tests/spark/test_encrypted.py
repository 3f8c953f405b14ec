"""Reading and writing where connections are encrypted and requests signed."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rocketq import Message, Producer
from rocketq.remoting.errors import ConnectFailed
from rocketq.remoting.tls import ClientTls
from rocketq.remoting.wire.command import Command
from rocketq.spark.options import InvalidOptions, sink_options, source_options
from rocketq.spark.wire.broker_socket import EncryptedSocket
from rocketq.spark.write.once.task_name import TaskName
from rocketq.spark.write.rows import write_rows
from rocketq.testing import LocalBroker
from tests.certificates import Authority
from tests.spark.conftest import SETTINGS
from tests.spark.readers import batch_rows

KEYS = {"accessKey": "root", "secretKey": "root-password", "tls": "true"}
COUNT = 300


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    settings = {
        **SETTINGS,
        "tls.server.mode": "enforcing",
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username":"root","password":"root-password"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"in","secretKey":"in-password"}',
    }
    with LocalBroker(settings, folder=tmp_path) as running:
        yield running


def test_rows_come_and_go_encrypted_and_signed(broker: LocalBroker) -> None:
    table = pa.table({"body": [b"%d" % number + bytes(3_000) for number in range(COUNT)]})
    options = sink_options({"namesrv": broker.namesrv, "topic": "orders", **KEYS})
    write_rows(options, TaskName(sink="q", batch=0, partition=0), iter(table.to_batches()))
    rows = batch_rows(namesrv=broker.namesrv, subscribe="orders", **KEYS)
    assert sorted(int(row["body"].rstrip(b"\0")) for row in rows) == list(range(COUNT))


def test_the_environment_of_the_driver_is_handed_on(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETQ_ACCESS_KEY", "root")
    monkeypatch.setenv("ROCKETQ_SECRET_KEY", "root-password")
    monkeypatch.setenv("ROCKETQ_TLS", "true")
    with Producer("p", namesrv=broker.namesrv) as producer:
        producer.send(Message("orders", b"hello"))
    options = source_options({"namesrv": broker.namesrv, "subscribe": "orders"}, streaming=False)
    assert (options.connection.access_key, options.connection.secret_key) == (
        "root",
        "root-password",
    )
    assert options.connection.tls == ClientTls()
    assert "root-password" not in repr(options)
    (row,) = batch_rows(namesrv=broker.namesrv, subscribe="orders")
    assert row["body"] == b"hello"


def test_half_of_a_pair_is_refused() -> None:
    with pytest.raises(InvalidOptions, match="go together"):
        source_options(
            {"namesrv": "127.0.0.1:1", "subscribe": "t", "accessKey": "a"}, streaming=False
        )


def test_answers_are_taken_in_while_much_is_sent(broker: LocalBroker) -> None:
    """The broker stops reading while nobody takes its answers."""
    socket = EncryptedSocket(broker.address, (), 20.0, ClientTls())
    for number in range(200):
        socket.send(Command(99_999, opaque=number, body=bytes(100_000)))
    assert {socket.receive().opaque for _ in range(200)} == set(range(200))
    assert not socket.has_answer()
    socket.send(Command(99_999, opaque=7))
    assert socket.receive().opaque == 7
    socket.close()


def test_a_server_that_is_not_trusted_is_not_used(broker: LocalBroker, tmp_path: Path) -> None:
    other = Authority(tmp_path)
    with pytest.raises(ConnectFailed, match="verify failed"):
        EncryptedSocket(broker.address, (), 5.0, ClientTls(trust=str(other.certificate)))

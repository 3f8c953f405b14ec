"""Who a client is: from the program, the environment or a file, and never half of each."""

from pathlib import Path

import pytest

from rocketq import Message, Producer
from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.config import ClientConfig
from rocketq.client.errors import InvalidSettings
from rocketq.client.identity import identity_of
from rocketq.common.errors import RocketqError
from rocketq.remoting.tls import ClientTls
from rocketq.testing import LocalBroker
from tests.certificates import Authority

ENVIRONMENT = {"ROCKETQ_ACCESS_KEY": "env", "ROCKETQ_SECRET_KEY": "env-secret"}


def write(path: Path, text: str) -> dict[str, str]:
    path.write_text(text)
    return {"ROCKETQ_CLIENT_CONFIG": str(path)}


def test_the_program_counts_first_then_the_environment_then_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "client.properties", "accessKey=file\nsecretKey=file-secret\n")
    said = ClientConfig(access_key="said", secret_key="said-secret")
    assert identity_of(said, {**ENVIRONMENT, **file}).access_key == "said"
    assert identity_of(ClientConfig(), {**ENVIRONMENT, **file}).access_key == "env"
    found = identity_of(ClientConfig(), file)
    assert (found.access_key, found.secret_key) == ("file", "file-secret")
    assert identity_of(ClientConfig(), {}).access_key == ""


@pytest.mark.parametrize(
    "text",
    [
        "accessKey: rocketmq2\nsecretKey: 12345678\n",
        "# keys\naccessKey: \"rocketmq2\"\nsecretKey: '12345678'  # of the tools\n",
    ],
)
def test_rocketmqs_file_for_its_tools_is_understood(tmp_path: Path, text: str) -> None:
    found = identity_of(ClientConfig(), write(tmp_path / "tools.yml", text))
    assert (found.access_key, found.secret_key) == ("rocketmq2", "12345678")


def test_a_name_of_one_place_has_no_secret_of_another(tmp_path: Path) -> None:
    file = write(tmp_path / "client.properties", "secretKey=file-secret\n")
    with pytest.raises(InvalidSettings, match="go together"):
        identity_of(ClientConfig(), {"ROCKETQ_ACCESS_KEY": "env", **file})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"nothing\.properties"):
        identity_of(ClientConfig(), {"ROCKETQ_CLIENT_CONFIG": str(tmp_path / "nothing.properties")})


def test_encryption_comes_from_all_three(tmp_path: Path) -> None:
    said = ClientConfig(tls=True, tls_trust="/said")
    environment = {"ROCKETQ_TLS": "true", "ROCKETQ_TLS_TRUST": "/env", "ROCKETQ_TLS_KEY": "/k"}
    file = write(tmp_path / "c.properties", "tls.enable=true\ntls.client.trustCertPath=/file\n")
    assert identity_of(said, environment).tls == ClientTls(trust="/said")
    assert identity_of(ClientConfig(), environment).tls == ClientTls(trust="/env", key="/k")
    assert identity_of(ClientConfig(), file).tls == ClientTls(trust="/file")
    assert identity_of(ClientConfig(), {}).tls is None


def test_certificates_without_encryption_are_a_mistake() -> None:
    with pytest.raises(InvalidSettings, match="tls"):
        ClientConfig(tls_trust="/a")


def test_secrets_are_not_shown() -> None:
    config = ClientConfig(
        access_key="a",
        secret_key="hush1",
        security_token="hush2",
        tls=True,
        tls_key_password="hush3",
    )
    assert "hush" not in repr(config)
    assert "hush" not in repr(identity_of(config, {}))


async def test_two_users_do_not_share_an_instance() -> None:
    """Else the second one's requests would be signed by the first."""
    first = ClientConfig(
        namesrv="127.0.0.1:1", instance_name="same", access_key="a", secret_key="aaaaaa"
    )
    second = ClientConfig(
        namesrv="127.0.0.1:1", instance_name="same", access_key="b", secret_key="bbbbbb"
    )
    instances = [await ClientInstance.acquire(config) for config in (first, first, second)]
    assert instances[0] is instances[1]
    assert instances[0] is not instances[2]
    for instance in instances:
        await instance.release()


def test_the_sdk_and_the_tools_speak_to_an_encrypted_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    files, client = authority.issue("server"), authority.issue("client")
    settings = {
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(files.certificate),
        "tls.server.keyPath": str(files.key),
        "tls.server.authClient": "true",
        "tls.server.need.client.auth": "require",
        "tls.server.trustCertPath": str(authority.certificate),
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(authority.certificate),
        "tls.client.certPath": str(client.certificate),
        "tls.client.keyPath": str(client.key),
    }
    with LocalBroker(settings, folder=tmp_path / "data") as broker:
        with pytest.raises(RocketqError), Producer("p", namesrv=broker.namesrv) as producer:
            producer.send(Message("orders", b"plain"), timeout_s=2)
        with Producer(
            "p",
            namesrv=broker.namesrv,
            tls=True,
            tls_trust=str(authority.certificate),
            tls_certificate=str(client.certificate),
            tls_key=str(client.key),
            tls_check_hostname=True,
        ) as producer:
            producer.send(Message("orders", b"encrypted"))
        monkeypatch.setenv("ROCKETQ_TLS", "true")
        monkeypatch.setenv("ROCKETQ_TLS_TRUST", str(authority.certificate))
        monkeypatch.setenv("ROCKETQ_TLS_CERTIFICATE", str(client.certificate))
        monkeypatch.setenv("ROCKETQ_TLS_KEY", str(client.key))
        assert [message.body for message in broker.messages("orders")] == [b"encrypted"]

"""A NameServer that knows who asks: brokers have to prove themselves, and everybody else too."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketq.aio import Producer
from rocketq.broker import Broker, BrokerConfig
from rocketq.client.config import ClientConfig
from rocketq.common.config import ConfigError
from rocketq.message.message import Message
from rocketq.namesrv import NameServer, NamesrvConfig
from rocketq.namesrv.access import NAMESRV_RULES
from rocketq.remoting import Command, RemotingClient, RequestCode
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.headers.namesrv import GetRouteInfo, RegisterBroker
from rocketq.store import StoreConfig
from tests.access import Server, signed

INNER = '{"accessKey":"inner","secretKey":"inner-password"}'
LOCKED: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"super","password":"super-password"}',
    "inner_client_authentication_credentials": INNER,
}


@asynccontextmanager
async def serving(folder: Path, **settings: Any) -> AsyncIterator[NameServer]:
    server = NameServer(
        NamesrvConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            kv_config_path=str(folder / "namesrv" / "kvConfig.json"),
            config_store_path=str(folder / "namesrv" / "namesrv.properties"),
            **settings,
        )
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def calling(server: NameServer) -> AsyncIterator[Server]:
    client = RemotingClient()
    try:
        yield Server(client, server.address, NAMESRV_RULES)
    finally:
        await client.close()


async def test_every_code_is_for_those_who_may(tmp_path: Path) -> None:
    async with serving(tmp_path, **LOCKED) as name_server, calling(name_server) as server:
        await server.make_users()
        assert name_server.served_codes <= NAMESRV_RULES.keys()
        for code in sorted(name_server.served_codes):
            await server.check(code, "")


def broker_at(folder: Path, name_server: NameServer, **settings: Any) -> Broker:
    config = BrokerConfig(
        broker_name="b",
        broker_ip1="127.0.0.1",
        bind_address="127.0.0.1",
        listen_port=0,
        namesrv_addr=name_server.address,
        **settings,
    )
    store = StoreConfig(
        store_path_root_dir=str(folder / "store"),
        mapped_file_size_commit_log=1 << 20,
    )
    return Broker(config, store)


async def test_a_broker_has_to_prove_itself(tmp_path: Path) -> None:
    async with serving(tmp_path, **LOCKED) as name_server:
        wrong = INNER.replace("inner-password", "wrong")
        for credentials in ("", wrong):
            broker = broker_at(
                tmp_path, name_server, inner_client_authentication_credentials=credentials
            )
            await broker.start()
            await broker.stop()
            assert not name_server.registry.brokers
        broker = broker_at(tmp_path, name_server, inner_client_authentication_credentials=INNER)
        await broker.start()
        await name_server.broker_known("b")
        await broker.stop()


async def test_a_user_of_one_cluster_registers_no_broker_of_another(tmp_path: Path) -> None:
    async with serving(tmp_path, **LOCKED) as name_server, calling(name_server) as server:
        await server.make_users()
        registration = RegisterBroker(
            broker_name="evil",
            broker_addr="127.0.0.1:1",
            cluster_name="mine",
            ha_server_addr="127.0.0.1:2",
            broker_id=0,
        )
        needs = NAMESRV_RULES[RequestCode.REGISTER_BROKER](Command.request(registration))
        await server.allow("friend", needs, "")
        reply = await server.ask(signed(Command.request(registration), "friend"))
        assert reply is not None
        assert reply.code == 0, reply
        other = Command.request(registration)
        other.ext_fields["clusterName"] = "theirs"
        reply = await server.ask(signed(other, "friend"))
        assert reply is not None
        assert reply.code == 16


async def test_everybody_with_a_user_may_ask_where_new_topics_are_made(tmp_path: Path) -> None:
    async with serving(tmp_path, **LOCKED) as name_server, calling(name_server) as server:
        await server.make_users()
        reply = await server.ask(signed(Command.request(GetRouteInfo(topic="TBW102")), "stranger"))
        assert reply is not None
        assert "no permission" not in str(reply.remark)
        reply = await server.ask(Command.request(GetRouteInfo(topic="TBW102")))
        assert reply is not None
        assert reply.code == 16


async def test_users_survive_a_restart_and_secrets_stay_here(tmp_path: Path) -> None:
    for _ in range(2):
        async with serving(tmp_path, **LOCKED) as name_server, calling(name_server) as server:
            if not (tmp_path / "seen").exists():
                await server.make_users()
                (tmp_path / "seen").touch()
            else:
                reply = await server.ask(
                    signed(Command.request(GetRouteInfo(topic="TBW102")), "friend")
                )
                assert reply is not None
                assert reply.code != 16
            reply = await server.ask(signed(Command(RequestCode.GET_NAMESRV_CONFIG), "super"))
            assert reply is not None
            assert b"password" not in bytes(reply.body).replace(b"keyPassword", b"")
            change = Command(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"authenticationEnabled=false")
            reply = await server.ask(signed(change, "super"))
            assert reply is not None
            assert reply.remark == "Can not update config in black list."


def test_rights_without_users_stop_the_start() -> None:
    with pytest.raises(ConfigError, match="authorizationEnabled"):
        NamesrvConfig(authorization_enabled=True)
    with pytest.raises(ConfigError, match="initAuthenticationUser"):
        NamesrvConfig(init_authentication_user="root:secret")


async def test_clients_of_the_sdk_sign_what_they_ask(tmp_path: Path) -> None:
    async with serving(tmp_path, **LOCKED) as name_server:
        broker = broker_at(tmp_path, name_server, **LOCKED)
        await broker.start()
        await name_server.broker_known("b")
        async with Producer(
            "makers",
            namesrv=name_server.address,
            access_key="super",
            secret_key="super-password",
        ) as producer:
            sent = await producer.send(Message("orders", b"body"))
            assert sent.queue_offset == 0
        await broker.stop()


def test_credentials_are_no_secret_to_their_owner() -> None:
    config = ClientConfig(access_key="a", secret_key="a-secret")
    assert "a-secret" not in repr(config)
    assert "a-secret" not in repr(RequestSigner("a", "a-secret"))

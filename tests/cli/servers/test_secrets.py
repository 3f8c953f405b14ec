"""Secrets do not show: not among a process's arguments, not in what is printed."""

from pathlib import Path

from rocketq.broker import BrokerConfig
from rocketq.cli.servers.logs import LogOptions
from rocketq.cli.servers.up.processes import broker_processes
from rocketq.remoting import Command, RemotingClient, RequestCode
from rocketq.remoting.access import RequestSigner
from rocketq.store import StoreConfig
from tests.cli.programs import run

USER = '{"username":"root","password":"hush-hush"}'


def arguments_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_a_broker_in_a_process_of_its_own_is_told_secrets_apart(tmp_path: Path) -> None:
    config = BrokerConfig(
        broker_name="b",
        broker_ip1="127.0.0.1",
        bind_address="127.0.0.1",
        listen_port=0,
        authentication_enabled=True,
        init_authentication_user=USER,
    )
    store = StoreConfig(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20)
    async with broker_processes([(config, store)], LogOptions()) as (process,):
        address = await process.ready()
        arguments = arguments_of(process.pid)
        assert b"authenticationEnabled" in arguments
        assert b"hush" not in arguments
        client = RemotingClient(hooks=[RequestSigner("root", "hush-hush")])
        reply = await client.call(address, Command(RequestCode.GET_BROKER_CONFIG))
        assert reply.code == 0
        assert b"hush" not in reply.body
        await client.close()


def test_printed_settings_hide_them() -> None:
    for command in ("broker", "namesrv"):
        shown = run(command, "-p", "--set", f"initAuthenticationUser={USER}").stdout
        assert "initAuthenticationUser=******" in shown
        assert "hush" not in shown

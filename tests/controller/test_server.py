"""A controller on the wire, alone, with its state in a file."""

import asyncio
import json
from pathlib import Path

import pytest

from rocketq.common.config import ConfigError
from rocketq.controller import ControllerConfig
from rocketq.controller.access import CONTROLLER_RULES
from rocketq.controller.keeper.keeper import CannotKeep
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.bodies.controller import ElectMasterResponseBody, SyncStateSet
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.headers.controller import ElectMasterResponse, GetReplicaInfo
from rocketq.remoting.headers.namesrv import BrokerHeartbeat
from rocketq.remoting.link.client import RemotingClient
from rocketq.remoting.wire.command import Command
from tests.controller.wire_broker import (
    CLUSTER,
    Asker,
    WireBroker,
    controlled,
    running_controller,
    wire_brokers,
)
from tests.waiting import PATIENCE_S, eventually


async def test_brokers_join_and_the_first_becomes_master(tmp_path: Path) -> None:
    async with controlled(tmp_path, 3) as (first, second, third):
        assert (await first.join()).master_broker_id is None
        elected = await first.become_master()
        assert elected.master_epoch == 1
        assert elected.master_address == first.address
        for number, each in ((2, second), (3, third)):
            registered = await each.join()
            assert each.broker_id == number
            assert registered.master_broker_id == 1
            assert registered.master_epoch == 1
            answer = await each.elect()
            assert answer.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
            assert answer.header(ElectMasterResponse).master_broker_id == 1
            body = ElectMasterResponseBody.decode(answer.body)
            assert body.broker_member_group is None
            assert body.sync_state_set == [1]
        info = await third.info()
        assert SyncStateSet.decode(info.body) == SyncStateSet(
            sync_state_set=[1], sync_state_set_epoch=1
        )


async def test_a_master_whose_connection_closes_is_replaced_at_once(tmp_path: Path) -> None:
    async with controlled(tmp_path, 3, scan_inactive_master_interval=60_000) as (
        first,
        second,
        third,
    ):
        await first.join()
        master = await first.become_master()
        await second.join()
        await third.join()
        await first.share(master, second)

        await first.hang_up()
        await asyncio.wait_for(second.told.wait(), PATIENCE_S)

        notice, in_sync = second.notices[-1]
        assert notice.master_broker_id == 2
        assert notice.master_address == second.address
        assert notice.master_epoch == 2
        assert in_sync == SyncStateSet(sync_state_set=[2], sync_state_set_epoch=3)
        await asyncio.wait_for(third.told.wait(), PATIENCE_S)
        assert (await third.master()).master_broker_id == 2
        assert not first.notices[1:]


async def test_a_silent_master_is_replaced_when_its_time_is_up(tmp_path: Path) -> None:
    async with controlled(tmp_path, 2) as (first, second):
        await first.join()
        master = await first.become_master()
        await second.join()
        await first.share(master, second)
        first.timeout_ms = 300
        await first.beat()
        last = asyncio.get_running_loop().time()
        await asyncio.wait_for(second.told.wait(), PATIENCE_S)
        assert asyncio.get_running_loop().time() - last >= 0.3
        assert (await second.master()).master_broker_id == 2


async def test_a_master_that_asks_is_not_replaced(tmp_path: Path) -> None:
    """The answer lets it go on, so it counts as a heartbeat does."""
    async with controlled(tmp_path, 2) as (first, second):
        await first.join()
        master = await first.become_master()
        await second.join()
        await first.share(master, second)
        first.timeout_ms = 500
        await first.beat()
        until = asyncio.get_running_loop().time() + 1.5
        while asyncio.get_running_loop().time() < until:
            assert (await first.master()).master_broker_id == 1
            await asyncio.sleep(0.05)


async def test_a_set_without_master_elects_the_first_in_sync_that_comes_back(
    tmp_path: Path,
) -> None:
    async with controlled(tmp_path, 3) as (first, second, third):
        await first.join()
        master = await first.become_master()
        await second.join()
        await third.join()
        await first.share(master, second)
        await second.hang_up()
        await first.hang_up()

        async def is_headless() -> bool:
            return (await third.master()).master_broker_id is None

        await eventually(is_headless)
        headless = (await third.master()).master_epoch
        assert headless == 2
        refused = await third.elect()
        assert refused.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        assert (await third.master()).master_epoch == headless

        await second.beat()
        await asyncio.wait_for(third.told.wait(), PATIENCE_S)
        assert (await third.master()).master_broker_id == 2
        assert (await third.master()).master_epoch == 3


async def test_unclean_election_is_switched_on_while_it_runs(tmp_path: Path) -> None:
    async with controlled(tmp_path, 2) as (first, second):
        await first.join()
        await first.become_master()
        await second.join()
        await first.hang_up()
        assert (await second.elect()).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        changed = await second.ask(
            RequestCode.UPDATE_CONTROLLER_CONFIG, b"enableElectUncleanMaster=true"
        )
        assert changed.code == 0, changed.remark

        async def is_master() -> bool:
            return (await second.master()).master_broker_id == 2

        await eventually(is_master)
    assert "enableElectUncleanMaster=true" in (tmp_path / "controller.properties").read_text()


async def test_an_administrator_moves_the_master(tmp_path: Path) -> None:
    async with controlled(tmp_path, 2) as (first, second):
        await first.join()
        master = await first.become_master()
        await second.join()
        await first.share(master, second)
        moved = await first.elect(designated=True, broker_id=2)
        assert moved.code == 0, moved.remark
        assert moved.header(ElectMasterResponse).master_epoch == 2
        assert b'"brokerAddrs":{"1":"' in bytes(moved.body)  # what Java's mqadmin can skip
        group = ElectMasterResponseBody.decode(moved.body).broker_member_group
        assert group is not None
        assert group.broker_addrs == {1: first.address, 2: second.address}
        await eventually(lambda: len(first.notices) == 2 and len(second.notices) == 1)
        late = await first.alter(1, [1, 2], 2)
        assert late.code == ResponseCode.CONTROLLER_INVALID_MASTER


async def test_the_state_survives_the_controller(tmp_path: Path) -> None:
    async with (
        wire_brokers("", 2) as (first, second),
        running_controller(tmp_path) as controller,
    ):
        first.controller = second.controller = controller.address
        await first.join()
        master = await first.become_master()
        await second.join()
        await first.share(master, second)
    async with running_controller(tmp_path) as controller:
        asker = Asker(controller.address)
        replicas = await asker.replicas()
        assert replicas is not None
        assert replicas.master_broker_id == 1
        assert replicas.master_epoch == 1
        assert replicas.sync_state_set_epoch == 2
        assert [each.broker_id for each in replicas.in_sync_replicas] == [1, 2]
        # Nobody was heard yet, and nobody is dead for that.
        assert [each.alive for each in replicas.in_sync_replicas] == [True, False]
        await asker.close()


async def test_two_controllers_do_not_share_a_file(tmp_path: Path) -> None:
    async with running_controller(tmp_path):
        with pytest.raises((CannotKeep, ExceptionGroup)) as caught:
            async with running_controller(tmp_path):
                pass
        assert "in use" in str(caught.value)


async def test_a_damaged_file_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "brokerSets.json").write_text('{"brokerSets":{"broker-a":{}}}')
    with pytest.raises((CannotKeep, ExceptionGroup)):
        async with running_controller(tmp_path):
            pass


async def test_what_a_controller_says_of_itself(tmp_path: Path) -> None:
    async with running_controller(tmp_path, controller_group="g") as controller:
        asker = Asker(controller.address)
        metadata = await asker.metadata()
        assert metadata.group == "g"
        assert metadata.is_leader
        assert metadata.controller_leader_id == "n0"
        assert metadata.controller_leader_address == controller.address
        assert metadata.peers == f"n0:{controller.address};"
        await asker.close()


async def test_cleaning(tmp_path: Path) -> None:
    async with controlled(tmp_path, 2) as (first, second):
        await first.join()
        await first.become_master()
        await second.join()
        wrong = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
        assert (await first.clean("nobody", "1")).code == wrong
        assert (await first.clean("broker-a", "2")).code == wrong  # it lives
        await second.hang_up()
        await eventually(lambda: _cleaned(first, "2"))
        replicas = await first.replicas()
        assert replicas is not None
        assert [each.broker_id for each in replicas.in_sync_replicas] == [1]
        assert replicas.not_in_sync_replicas == []
        assert await first.next_id() == 3
        assert (await first.clean("broker-a", None)).code == wrong
        assert (await first.clean("broker-a", None, living=True)).code == 0
        assert await first.replicas() is None
        answer = await first.info()
        assert answer.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST


async def _cleaned(asker: Asker, ids: str) -> bool:
    return (await asker.clean("broker-a", ids)).code == 0


async def test_a_heartbeat_must_name_its_broker(tmp_path: Path) -> None:
    async with running_controller(tmp_path) as controller:
        asker = Asker(controller.address)
        heartbeat = BrokerHeartbeat(cluster_name=CLUSTER, broker_addr="x", broker_name="b")
        answer = await asker.ask(heartbeat)
        assert answer.code == ResponseCode.CONTROLLER_INVALID_REQUEST
        long = BrokerHeartbeat(
            cluster_name=CLUSTER, broker_addr="x", broker_name="b" * 300, broker_id=1
        )
        assert (await asker.ask(long)).code == ResponseCode.CONTROLLER_INVALID_REQUEST
        await asker.close()


async def test_questions_that_make_no_sense(tmp_path: Path) -> None:
    async with running_controller(tmp_path) as controller:
        asker = Asker(controller.address)
        data = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        assert (await asker.ask(data)).code == ResponseCode.SYSTEM_ERROR
        assert (await asker.ask(data, b"[]")).code == ResponseCode.SYSTEM_ERROR
        assert (await asker.ask(data, b"{")).code == ResponseCode.SYSTEM_ERROR
        assert await asker.replicas("unknown") is None
        unserved = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        assert unserved.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        await asker.close()


async def test_settings_over_the_wire(tmp_path: Path) -> None:
    async with running_controller(
        tmp_path, init_authentication_user='{"username":"u","password":"secret-word"}'
    ) as controller:
        asker = Asker(controller.address)
        shown = await asker.ask(RequestCode.GET_CONTROLLER_CONFIG)
        assert b"enableElectUncleanMaster=false" in bytes(shown.body)
        assert b"secret-word" not in bytes(shown.body)
        update = RequestCode.UPDATE_CONTROLLER_CONFIG
        listed = await asker.ask(update, b"configStorePath=/tmp/elsewhere")
        assert listed.code == ResponseCode.NO_PERMISSION
        assert listed.remark == "Can not update config in black list."
        for refused in (b"listenPort=1", b"scanNotActiveBrokerInterval=x", b"\xff"):
            assert (await asker.ask(update, refused)).code == ResponseCode.SYSTEM_ERROR
        assert (await asker.ask(update, b"scanNotActiveBrokerInterval=50")).code == 0
        shown = await asker.ask(RequestCode.GET_CONTROLLER_CONFIG)
        assert b"scanNotActiveBrokerInterval=50" in bytes(shown.body)
        await asker.close()
    assert "secret-word" in (tmp_path / "controller.properties").read_text()


async def test_only_users_are_answered(tmp_path: Path) -> None:
    credentials = json.dumps({"accessKey": "brokers", "secretKey": "12345678"})
    async with running_controller(
        tmp_path,
        authentication_enabled=True,
        inner_client_authentication_credentials=credentials,
    ) as controller:
        stranger = WireBroker(controller.address)
        question = Command.request(GetReplicaInfo(broker_name="b"))
        answer = await stranger.client.call(controller.address, question)
        assert answer.code == ResponseCode.NO_PERMISSION
        friend = RemotingClient(hooks=[RequestSigner("brokers", "12345678")])
        answer = await friend.call(controller.address, question)
        assert answer.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST
        liar = RemotingClient(hooks=[RequestSigner("brokers", "87654321")])
        assert (await liar.call(controller.address, question)).code == ResponseCode.NO_PERMISSION
        for each in (friend, liar, stranger.client):
            await each.close()


@pytest.mark.parametrize(
    "options",
    [
        {"etcd_endpoints": "nowhere"},
        {"etcd_user": "root"},
        {"etcd_endpoints": "h:1", "etcd_cert_file": "x"},
        {"controller_peers": "n0-h:1;n1-h:2"},
        {"controller_peers": "n0-h:1", "controller_id": "n7"},
        {"controller_peers": "h:1"},
        {"etcd_prefix": "/"},
        {"authorization_enabled": True},
        {"scan_not_active_broker_interval": 0},
    ],
)
def test_settings_that_cannot_be_meant(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ControllerConfig(**options)  # type: ignore[arg-type]


async def test_every_request_has_its_rule(tmp_path: Path) -> None:
    async with running_controller(tmp_path) as controller:
        assert controller.served_codes == CONTROLLER_RULES.keys()

"""mqadmin's commands about controllers, against one that runs; the lines are Java's."""

import asyncio
import json
from pathlib import Path

from tests.cli.programs import run
from tests.controller.wire_broker import WireBroker, running_controller, wire_brokers


async def ask(*words: str, code: int = 0) -> str:
    """What `rocketq admin` prints."""
    ended = await asyncio.to_thread(run, "admin", *words)
    assert ended.returncode == code, ended.stderr
    return ended.stdout if code == 0 else ended.stderr


async def test_controllers_from_the_command_line(tmp_path: Path) -> None:
    async with (
        running_controller(tmp_path, controller_group="group1") as controller,
        wire_brokers(controller.address, 2) as (first, second),
    ):
        at = ("-a", controller.address)
        await first.join()
        master = await first.become_master()
        await second.join()
        await first.share(master, second)

        assert await ask("getControllerMetaData", *at) == (
            "\n#ControllerGroup\tgroup1\n"
            "#ControllerLeaderId\tn0\n"
            f"#ControllerLeaderAddress\t{controller.address}\n"
            f"#Peer:\tn0:{controller.address}\n"
        )
        assert await ask("getSyncStateSet", *at, "-b", "broker-a") == (
            "\n#brokerName\tbroker-a\n"
            "#MasterBrokerId\t1\n"
            f"#MasterAddr\t{first.address}\n"
            "#MasterEpoch\t1\n"
            "#SyncStateSetEpoch\t2\n"
            "#SyncStateSetNums\t2\n"
            f"\nInSyncReplica:\t{identity(first)}\n"
            f"\nInSyncReplica:\t{identity(second)}\n"
        )
        words = ("-b", "2", "-bn", "broker-a", "-c", "DefaultCluster")
        assert await ask("electMaster", *at, *words) == (
            "\n#ClusterName\tDefaultCluster\n"
            "#BrokerName\tbroker-a\n"
            f"#BrokerMasterAddr\t{second.address}\n"
            "#MasterEpoch\t2\n"
            "#SyncStateSetEpoch\t3\n"
            f"\t#Broker\t1\t{first.address}\n"
            f"\t#Broker\t2\t{second.address}\n"
        )
        config = await ask("getControllerConfig", *at)
        assert config.startswith(f"============{controller.address}============\n")
        assert f"{'enableElectUncleanMaster':<50}=  false\n" in config
        change = ("-k", "enableElectUncleanMaster", "-v", "true")
        assert await ask("updateControllerConfig", *at, *change) == (
            f"update controller config success![{controller.address}]\n"
            "enableElectUncleanMaster : true\n"
        )
        clean = ("cleanBrokerMetadata", *at, "-bn", "broker-a")
        assert "2009" in await ask(*clean, "-b", "1", code=1)
        assert "1;2;3" in await ask(*clean, "-b", "one", code=1)
        assert await ask(*clean, "-b", "1", "-l") == (
            "clear broker broker-a metadata from controller success! \n"
        )
        found = json.loads(await ask("getSyncStateSet", *at, "-b", "broker-a", "--json"))
        assert [each["brokerId"] for each in found["broker-a"]["inSyncReplicas"]] == [2]


def identity(broker: WireBroker) -> str:
    return (
        f"ReplicaIdentity{{brokerName='broker-a', brokerId={broker.broker_id}, "
        f"brokerAddress='{broker.address}', alive=true}}"
    )

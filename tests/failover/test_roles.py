"""Roles that change while brokers run: what belongs to a master stops here and starts there."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rocketq.message.flags import SysFlag
from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.bodies.controller import EpochEntryCache
from rocketq.remoting.headers import (
    ElectMaster,
    EndTransaction,
    NotifyBrokerRoleChanged,
    SendMessageResponse,
)
from tests.broker.harness import TestBroker
from tests.broker.replication.pairs import broker, name_server
from tests.failover.processes import runtime
from tests.failover.sets import controller
from tests.waiting import eventually


class Group:
    """Brokers of one name in this process."""

    def __init__(self, decider: str, brokers: list[TestBroker]) -> None:
        self.decider = decider
        self.brokers = brokers

    async def master(
        self, wanted: TestBroker | None = None, *, among: int | None = None
    ) -> TestBroker:
        """Wait until there is one, or a certain one, and this many are in sync with it."""

        async def find() -> TestBroker | None:
            found: dict[int, TestBroker] = {}
            for each in self.brokers:
                table = await runtime(each.client, each.address)
                members = [each for each in table.get("syncStateSet", "").split(",") if each]
                if table["isFenced"] == "false" and len(members) == (among or len(self.brokers)):
                    found[int(table["masterEpoch"])] = each
            newest = found.get(max(found, default=0))
            return newest if wanted in (None, newest) else None

        one = await eventually(find, "a master with all in sync")
        assert one is not None
        return one

    async def elect(self, one: TestBroker) -> None:
        """Have a certain one become master, as an administrator does."""
        table = await runtime(one.client, one.address)
        assert "syncStateSet" not in table, "it is the master already"
        broker_id = self.brokers.index(one) + 1
        reply = await one.client.call(
            self.decider,
            Command.request(
                ElectMaster(
                    cluster_name="DefaultCluster",
                    broker_name="broker-a",
                    broker_id=broker_id,
                    designate_elect=True,
                )
            ),
            5.0,
        )
        assert reply.code == ResponseCode.SUCCESS, reply.remark


@asynccontextmanager
async def group(root: Path, count: int = 2) -> AsyncIterator[Group]:
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(name_server(root))
        decider = await stack.enter_async_context(controller(root))
        one = Group(decider.address, [])
        for number in range(1, count + 1):
            one.brokers.append(
                await stack.enter_async_context(
                    broker(
                        root / f"broker-{number}",
                        namesrv.address,
                        enable_controller_mode=True,
                        controller_addr=decider.address,
                        all_ack_in_sync_state_set=True,
                        broker_heartbeat_interval=100,
                        # Nobody is to lose its role because the machine is busy.
                        controller_heart_beat_timeout_mills=60_000,
                        master_lease_timeout=30_000,
                        timer_precision_ms=100,
                        message_delay_level="1s 2s",
                    )
                )
            )
            await one.master(among=number)  # ids in the order of their start
        yield one


async def test_what_a_master_does_goes_on_with_the_next_both_ways(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        first, second = brokers.brokers
        master, other = first, second
        for turn in range(4):
            await brokers.master(master)
            assert (await other.send("orders", b"refused")).code != ResponseCode.SUCCESS
            name = b"%d" % turn
            # Before the change: kept by this master, to be delivered by the next.
            assert (
                await master.send("orders", b"level " + name, properties={"DELAY": "2"})
            ).code == ResponseCode.SUCCESS
            assert (
                await master.send("orders", b"timer " + name, properties={"TIMER_DELAY_MS": "1500"})
            ).code == ResponseCode.SUCCESS
            half = await master.send(
                "orders",
                b"half " + name,
                properties={"TRAN_MSG": "true", "PGROUP": "producers"},
                sys_flag=SysFlag.TRANSACTION_PREPARED,
            )
            assert half.code == ResponseCode.SUCCESS
            place = half.header(SendMessageResponse)
            await brokers.elect(other)
            master, other = other, master
            await brokers.master(master)
            # After it: decided at the one that is master now.
            end = await master.call(
                Command.request(
                    EndTransaction(
                        producer_group="producers",
                        tran_state_table_offset=place.queue_offset,
                        commit_log_offset=_position(place),
                        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
                        from_transaction_check=False,
                        msg_id=place.msg_id,
                        transaction_id=place.transaction_id,
                    )
                )
            )
            assert end.code == ResponseCode.SUCCESS, end.remark
            wanted = {b"level " + name, b"timer " + name, b"half " + name}

            async def delivered(at: TestBroker = master, wanted: set[bytes] = wanted) -> bool:
                return wanted <= {each.body for each in await at.messages("orders")}

            await eventually(delivered, "everything that waited to be delivered")
        # What was due in the last seconds before a change may come twice; what was decided not.
        halves = [each.body for each in await master.messages("orders") if b"half" in each.body]
        assert halves == [b"half %d" % turn for turn in range(4)]


def _position(place: SendMessageResponse) -> int:
    """Where the message lies in the log: the last half of its id of old."""
    return int(place.msg_id[-16:], 16)


async def test_reigns_can_be_asked_for(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        first, second = brokers.brokers
        await first.send("orders", b"one")
        await brokers.elect(second)
        await brokers.master(second)
        request = Command.request(RequestCode.GET_BROKER_EPOCH_CACHE)
        for one, broker_id in ((first, 1), (second, 0)):

            async def are_known(one: TestBroker = one) -> bool:
                body = EpochEntryCache.decode((await one.call(request)).body)
                return [entry.epoch for entry in body.epoch_list] == [1, 2]

            await second.send("orders", b"two")
            await eventually(are_known, "both reigns")
            body = EpochEntryCache.decode((await one.call(request)).body)
            assert (body.broker_name, body.broker_id) == ("broker-a", broker_id)
            assert body.epoch_list[0].end_offset == body.epoch_list[1].start_offset > 0


async def test_anybodys_word_that_there_is_another_master_changes_nothing(tmp_path: Path) -> None:
    async with group(tmp_path, count=1) as brokers:
        (only,) = brokers.brokers
        lie = NotifyBrokerRoleChanged(
            master_address="127.0.0.1:1",
            master_epoch=99,
            master_broker_id=2,
            sync_state_set_epoch=9,
        )
        assert (await only.call(Command.request(lie))).code == ResponseCode.SUCCESS
        assert (await only.send("orders", b"one")).code == ResponseCode.SUCCESS
        assert (await runtime(only.client, only.address))["masterEpoch"] == "1"


async def test_without_controller_mode_there_are_no_reigns(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, broker(tmp_path / "a", namesrv.address) as one:
        reply = await one.call(Command.request(RequestCode.GET_BROKER_EPOCH_CACHE))
        assert reply.code == ResponseCode.SYSTEM_ERROR

"""All that can be cut, killed, frozen, filled or set wrong, each for the length of a block."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from tests.controller.controller_process import ControllerProcess
from tests.failover.etcd_sets import EtcdSet
from tests.failover.history import History
from tests.waiting import eventually

Fault = Callable[[EtcdSet], AbstractAsyncContextManager[None]]
"""Is there for the length of a block."""


async def _leading(brokers: EtcdSet) -> ControllerProcess:
    found = await eventually(brokers.leading, "a controller that leads")
    assert found is not None
    return found


# The master


@asynccontextmanager
async def master_without_controllers(brokers: EtcdSet) -> AsyncIterator[None]:
    ways = brokers.ways_to_controllers(await brokers.complete())
    for each in ways:
        each.lose_everything()
    yield
    for each in ways:
        each.lose_everything(is_lost=False)


@asynccontextmanager
async def master_is_not_answered(brokers: EtcdSet) -> AsyncIterator[None]:
    ways = brokers.ways_to_controllers(await brokers.complete())
    for each in ways:
        each.loses_answers = True
    yield
    for each in ways:
        each.loses_answers = False


@asynccontextmanager
async def master_without_slaves(brokers: EtcdSet) -> AsyncIterator[None]:
    way = brokers.to_log[await brokers.complete()]
    way.lose_everything()
    yield
    way.lose_everything(is_lost=False)


@asynccontextmanager
async def master_hears_no_reports(brokers: EtcdSet) -> AsyncIterator[None]:
    way = brokers.to_log[await brokers.complete()]
    way.loses_reports = True
    yield
    way.lose_everything(is_lost=False)


@asynccontextmanager
async def master_alone(brokers: EtcdSet) -> AsyncIterator[None]:
    async with master_without_controllers(brokers), master_without_slaves(brokers):
        yield


@asynccontextmanager
async def master_killed(brokers: EtcdSet) -> AsyncIterator[None]:
    master = brokers.member_at(await brokers.complete())
    master.end()
    yield
    await master.start()


@asynccontextmanager
async def master_frozen(brokers: EtcdSet) -> AsyncIterator[None]:
    master = brokers.member_at(await brokers.complete())
    master.send_signal(signal.SIGSTOP)
    yield
    master.send_signal(signal.SIGCONT)


@asynccontextmanager
async def clocks_set_wrong(brokers: EtcdSet) -> AsyncIterator[None]:
    """One an hour back, one ahead; later on both are right again."""
    one, two, *_ = brokers.members
    one.send_signal(signal.SIGUSR1)
    two.send_signal(signal.SIGUSR2)
    yield
    one.send_signal(signal.SIGUSR2)
    two.send_signal(signal.SIGUSR1)


# Controllers


@asynccontextmanager
async def controller_without_etcd(brokers: EtcdSet) -> AsyncIterator[None]:
    ways = brokers.to_etcd[(await _leading(brokers)).name]
    for each in ways:
        each.hold()
    yield
    for each in ways:
        each.hold(there=False, back=False)


@asynccontextmanager
async def etcd_does_not_hear_the_controller(brokers: EtcdSet) -> AsyncIterator[None]:
    ways = brokers.to_etcd[(await _leading(brokers)).name]
    for each in ways:
        each.hold(back=False)
    yield
    for each in ways:
        each.hold(there=False, back=False)


@asynccontextmanager
async def controller_does_not_hear_etcd(brokers: EtcdSet) -> AsyncIterator[None]:
    ways = brokers.to_etcd[(await _leading(brokers)).name]
    for each in ways:
        each.hold(there=False)
    yield
    for each in ways:
        each.hold(there=False, back=False)


@asynccontextmanager
async def controller_killed(brokers: EtcdSet) -> AsyncIterator[None]:
    leading = await _leading(brokers)
    leading.kill()
    yield
    await asyncio.to_thread(leading.again)


@asynccontextmanager
async def controller_frozen(brokers: EtcdSet) -> AsyncIterator[None]:
    leading = await _leading(brokers)
    leading.pause()
    yield
    leading.go_on()


# etcd


@asynccontextmanager
async def etcd_leader_killed(brokers: EtcdSet) -> AsyncIterator[None]:
    node = await eventually(lambda: asyncio.to_thread(brokers.etcd.leader), "etcd to have a leader")
    assert node is not None
    node.kill()
    yield
    node.start()


@asynccontextmanager
async def etcd_leader_frozen(brokers: EtcdSet) -> AsyncIterator[None]:
    node = await eventually(lambda: asyncio.to_thread(brokers.etcd.leader), "etcd to have a leader")
    assert node is not None
    node.pause()
    yield
    node.go_on()


@asynccontextmanager
async def most_of_etcd_frozen(brokers: EtcdSet) -> AsyncIterator[None]:
    for node in brokers.etcd.nodes[1:]:
        node.pause()
    yield
    for node in brokers.etcd.nodes[1:]:
        node.go_on()


def together(*faults: Fault) -> Fault:
    @asynccontextmanager
    async def all_of_them(brokers: EtcdSet) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in faults:
                await stack.enter_async_context(each(brokers))
            yield

    all_of_them.__name__ = " and ".join(each.__name__ for each in faults)
    return all_of_them


FAULTS: list[Fault] = [
    master_without_controllers,
    master_is_not_answered,
    master_without_slaves,
    master_hears_no_reports,
    master_alone,
    master_killed,
    master_frozen,
    clocks_set_wrong,
    controller_without_etcd,
    etcd_does_not_hear_the_controller,
    controller_does_not_hear_etcd,
    controller_killed,
    controller_frozen,
    etcd_leader_killed,
    etcd_leader_frozen,
    most_of_etcd_frozen,
    together(controller_frozen, master_alone),
    together(controller_killed, master_killed),
    together(controller_without_etcd, master_frozen),
    together(etcd_leader_frozen, controller_frozen, master_without_slaves),
    together(most_of_etcd_frozen, master_killed),
    together(clocks_set_wrong, master_killed),
]


async def strike(brokers: EtcdSet, history: History, fault: Fault, last_s: float) -> None:
    print(f"{fault.__name__}, {last_s:g} s", flush=True)
    async with fault(brokers):
        await asyncio.sleep(last_s)
    await brokers.complete(120)
    took_s = await history.next_acknowledged(60)
    print(f"  acknowledged {took_s:.2f} s after all is well again", flush=True)

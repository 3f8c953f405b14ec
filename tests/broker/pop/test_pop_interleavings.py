"""Any interleaving of pops, acks, changes, time, revivals and crashes.

Every message is delivered at least once. What was acknowledged in time does not come again, but
for what a crash may double: messages popped or revived since the offsets were last written,
and with buffer merge those whose check points were still in memory then.
"""

import asyncio
import base64
import functools
import inspect
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, ParamSpec

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rocketq.broker.config import BrokerConfig
from rocketq.common.clock import ManualClock
from rocketq.common.loop.slices import at_once
from rocketq.message.pop_topics import retry_topic_v1
from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.bodies.assignment import BatchAck, BatchAckRequest
from tests.broker.pop.pops import Popped, Pops, ack_request
from tests.broker.services import opened

TOPIC: Final = "orders"
GROUP: Final = "group"
FIFO: Final = "fifo"
QUEUES: Final = 2
SETTINGS: Final = settings(
    deadline=None,
    max_examples=12,
    stateful_step_count=40,
    # Shrinking takes long with a store in each example; the steps are few as they are.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)


P = ParamSpec("P")
Step = Callable[[], object]


def inside(step: Callable[P, None]) -> Callable[P, None]:
    """Run a step of a machine on its loop, in the one task that has opened the store."""

    @functools.wraps(step)
    def outside(*args: P.args, **named: P.kwargs) -> None:
        machine = args[0]
        assert isinstance(machine, PopMachine)
        machine.do(lambda: step(*args, **named))

    return outside


class PopMachine(RuleBasedStateMachine):
    """One topic, a group that pops as it likes and one that keeps the order."""

    IS_MERGING = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.folder = Path(tempfile.mkdtemp(prefix="pops-"))
        self.rounds = 0
        self.loop = asyncio.new_event_loop()
        self.steps: asyncio.Queue[tuple[Step, asyncio.Future[None]] | None] = asyncio.Queue()
        self.pops: Pops
        self.life = self.start()

        self.sent: set[bytes] = set()
        self.seen: set[bytes] = set()
        self.out: dict[bytes, Popped] = {}
        self.acked: set[bytes] = set()
        self.acked_late: set[bytes] = set()  # these may come again, or not
        self.touched: set[bytes] = set()  # popped since the offsets were last written
        self.revived: set[bytes] = set()  # or brought back since then
        self.may_double: set[bytes] = set()
        self.retries_read = 0

        self.fifo_out: list[Popped] = []
        self.fifo_acked: set[int] = set()

    @property
    def root(self) -> Path:
        return self.folder / str(self.rounds)

    def start(self) -> "asyncio.Task[None]":
        life = self.loop.create_task(self.live())
        self.do(lambda: self.pops.services.topics.ensure(TOPIC, QUEUES))
        return life

    def do(self, step: Step) -> None:
        """Have something done on the loop, and wait for it."""
        done = self.loop.create_future()
        self.steps.put_nowait((step, done))
        self.loop.run_until_complete(done)

    def end(self) -> None:
        self.steps.put_nowait(None)
        self.loop.run_until_complete(self.life)

    async def live(self) -> None:
        config = BrokerConfig(
            broker_name="broker-a",
            broker_ip1="127.0.0.1",
            enable_pop_buffer_merge=self.IS_MERGING,
            revive_queue_num=2,
            auto_create_subscription_group=True,
        )
        async with opened(self.root, self.clock, config) as services:
            services.timers.load()
            self.pops = Pops(services, self.root)
            while (asked := await self.steps.get()) is not None:
                step, done = asked
                try:
                    result = step()
                    if inspect.isawaitable(result):
                        await result
                except BaseException as error:
                    done.set_exception(error)
                else:
                    done.set_result(None)

    # What clients do

    @rule(queue_id=st.integers(0, QUEUES - 1), count=st.integers(1, 5))
    @inside
    def send(self, queue_id: int, count: int) -> None:
        for _ in range(count):
            body = b"%d" % len(self.sent)
            self.pops.services.put(TOPIC, body, queue_id)
            self.sent.add(body)

    @rule(
        most=st.integers(1, 8),
        invisible_ms=st.sampled_from([500, 3_000, 8_000, 20_000]),
        queue_id=st.sampled_from([-1, 0, 1]),
    )
    @inside
    def pop(self, most: int, invisible_ms: int, queue_id: int) -> None:
        for each in self.pops.pop(
            TOPIC, GROUP, max_msg_nums=most, invisible_time=invisible_ms, queue_id=queue_id
        ):
            self.delivered(each)

    @rule(invisible_ms=st.sampled_from([8_000, 20_000]), step=st.integers(1, 3))
    @inside
    def pop_and_ack_some(self, invisible_ms: int, step: int) -> None:
        found = self.pops.pop(TOPIC, GROUP, max_msg_nums=6, invisible_time=invisible_ms)
        for each in found:
            self.delivered(each)
        for each in found[::step]:
            self.out.pop(each.body, None)  # after a crash one may come twice
            assert self.pops.call(ack_request(each, GROUP)).code == ResponseCode.SUCCESS
            self.acked.add(each.body)

    def delivered(self, each: Popped) -> None:
        body = each.body
        assert body in self.sent
        assert body not in self.acked or body in self.may_double, f"{body!r} came again"
        self.seen.add(body)
        self.out[body] = each
        self.touched.add(body)

    def _in_time(self, each: Popped) -> bool:
        return self.clock.now_ms() < each.visible_at - 1_000

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    @inside
    def ack(self, data: st.DataObject) -> None:
        body = data.draw(st.sampled_from(sorted(self.out)))
        each = self.out.pop(body)
        in_time = self._in_time(each)
        assert self.pops.call(ack_request(each, GROUP)).code == ResponseCode.SUCCESS
        (self.acked if in_time else self.acked_late).add(body)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    @inside
    def ack_a_batch(self, data: st.DataObject) -> None:
        first = self.out[data.draw(st.sampled_from(sorted(self.out)))]
        head = first.receipt.split(" ")[:7]
        batch = [each for each in self.out.values() if each.receipt.split(" ")[:7] == head]
        start, pop_time, invisible_time, revive_queue, kind, broker, queue_id = head
        bits = 0
        for each in batch:
            bits |= 1 << each.message.queue_offset - int(start)
        ack = BatchAck(
            consumer_group=GROUP,
            topic=TOPIC,
            retry=kind,
            start_offset=int(start),
            queue_id=int(queue_id),
            revive_queue_id=int(revive_queue),
            pop_time=int(pop_time),
            invisible_time=int(invisible_time),
            bit_set=base64.b64encode(bits.to_bytes(64, "little")).decode(),
        )
        body = BatchAckRequest(broker_name=broker, acks=[ack])
        reply = self.pops.call(Command(RequestCode.BATCH_ACK_MESSAGE, body=body.encode()))
        assert reply.code == ResponseCode.SUCCESS
        for each in batch:
            del self.out[each.body]
            (self.acked if self._in_time(each) else self.acked_late).add(each.body)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), invisible_ms=st.sampled_from([0, 1_500, 10_000]))
    @inside
    def change(self, data: st.DataObject, invisible_ms: int) -> None:
        each = self.out[data.draw(st.sampled_from(sorted(self.out)))]
        if self._in_time(each):
            self.pops.change(each, GROUP, invisible_ms)

    # In order

    @rule(most=st.integers(1, 4), invisible_ms=st.sampled_from([2_000, 9_000]))
    @inside
    def pop_in_order(self, most: int, invisible_ms: int) -> None:
        now_ms = self.clock.now_ms()
        open_ones = [
            each for each in self.fifo_out if each.message.queue_offset not in self.fifo_acked
        ]
        found = self.pops.pop(
            TOPIC, FIFO, order=True, queue_id=0, max_msg_nums=most, invisible_time=invisible_ms
        )
        offsets = [each.message.queue_offset for each in found]
        assert offsets == sorted(offsets)
        if not found:
            return
        assert all(each.visible_at <= now_ms for each in open_ones), "the queue was blocked"
        lowest = next(offset for offset in itertools.count() if offset not in self.fifo_acked)
        assert offsets[0] <= lowest, "one was left out"
        self.fifo_out = found

    @precondition(lambda self: self.fifo_out)
    @rule(data=st.data())
    @inside
    def ack_in_order(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(self.fifo_out))
        assert self.pops.call(ack_request(each, FIFO)).code == ResponseCode.SUCCESS
        self.fifo_acked.add(each.message.queue_offset)

    # What happens meanwhile

    @rule(ms=st.sampled_from([100, 1_000, 2_500, 7_000, 15_000]))
    @inside
    def time_passes(self, ms: int) -> None:
        for _ in range(max(ms // 500, 1)):
            self.clock.advance(min(ms, 500))
            self.pops.work()
            self.note_revived()

    def note_revived(self) -> None:
        messages = self.pops.services.read(retry_topic_v1(GROUP, TOPIC))
        self.revived |= {bytes(each.body) for each in messages[self.retries_read :]}
        self.retries_read = len(messages)

    @rule()
    def offsets_are_written(self) -> None:
        self.do(self.pops.save)
        if not len(self.pops.buffer):
            self.touched.clear()
        if self.pops.is_all_revived:
            self.revived.clear()

    def copy(self, before: Path) -> None:
        """With cp, which leaves out the holes of the wheel, and misses what is being replaced."""
        copying = ["cp", "-a", str(before), str(self.root)]
        for _ in range(5):
            if subprocess.run(copying, capture_output=True).returncode == 0:
                return
            shutil.rmtree(self.root)
        raise AssertionError(f"{before} changes all the time")

    @precondition(lambda self: self.rounds < 4)
    @rule()
    def crash(self) -> None:
        """The files as kill -9 leaves them."""
        self.may_double |= self.touched | self.revived
        self.do(self.pops.tables_written)
        before = self.root
        self.rounds += 1
        self.copy(before)
        self.end()
        # Names of check points hold the time: no broker is back in the same millisecond.
        self.clock.advance(50)
        self.life = self.start()
        shutil.rmtree(before)
        self.fifo_out = []  # what blocked the queue may be forgotten

    @precondition(lambda self: self.IS_MERGING)
    @rule()
    def stop_and_start(self) -> None:
        """A clean stop writes what was in memory: nothing may come twice for that."""
        self.do(lambda: at_once(self.pops.buffer.leave_early()))
        assert not len(self.pops.buffer)
        self.do(self.pops.save)
        self.end()
        self.life = self.start()

    def teardown(self) -> None:
        try:
            self.do(self.take_everything)
            assert self.seen == self.sent, "lost"
            assert self.acked | self.acked_late == self.sent, "never came again"
        finally:
            self.end()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def take_everything(self) -> None:
        for _ in range(60):
            self.clock.advance(1_000)
            self.pops.work()
            for each in self.pops.pop(TOPIC, GROUP, invisible_time=60_000):
                self.delivered(each)
                assert self.pops.call(ack_request(each, GROUP)).code == ResponseCode.SUCCESS
                self.acked.add(each.body)


class MergingPopMachine(PopMachine):
    """The same with check points and acks that wait in memory for one another."""

    IS_MERGING = True


LONG: Final = settings(SETTINGS, max_examples=300, stateful_step_count=80)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [PopMachine, MergingPopMachine])
def test_many_interleavings(machine: type[PopMachine]) -> None:
    run_state_machine_as_test(machine, settings=LONG)


TestPops = PopMachine.TestCase
TestPops.settings = SETTINGS
TestMergingPops = MergingPopMachine.TestCase
TestMergingPops.settings = SETTINGS


@pytest.mark.parametrize("machine", [PopMachine, MergingPopMachine])
def test_time_given_in_the_moment_of_the_pop_loses_nothing(machine: type[PopMachine]) -> None:
    state = machine()
    state.send(queue_id=0, count=1)
    state.pop(most=1, invisible_ms=8_000, queue_id=0)
    state.do(lambda: state.pops.change(state.out[b"0"], GROUP, 1_500))
    state.do(lambda: state.pops.change(state.out[b"0"], GROUP, 10_000))
    state.teardown()

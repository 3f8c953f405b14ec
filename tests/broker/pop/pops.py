"""Everything pop consists of, over a real store and a clock that is moved by hand."""

from pathlib import Path
from typing import Any, cast

from rocketq.broker.pop import (
    HeldPops,
    MergeBuffer,
    OrderedQueues,
    Popping,
    Revival,
    ReviveLog,
)
from rocketq.broker.pop.revival import REVIVE_GROUP
from rocketq.broker.processor.ack import AckProcessor
from rocketq.broker.processor.pop import PopProcessor
from rocketq.common.loop.turns import Turns
from rocketq.message.message import MessageExt
from rocketq.message.record.reader import decode_records
from rocketq.remoting import Command, Connection, RequestCode, ResponseCode, RunHandler
from rocketq.remoting.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    PopMessage,
    PopMessageResponse,
)
from tests.broker.services import HOST, Services


class Popped:
    """One message as a client sees it, with the receipt it makes of the answer."""

    def __init__(self, message: MessageExt, receipt: str, topic: str) -> None:
        self.message = message
        self.receipt = receipt
        self.topic = topic

    @property
    def body(self) -> bytes:
        return bytes(self.message.body)

    @property
    def visible_at(self) -> int:
        words = self.receipt.split(" ")
        return int(words[1]) + int(words[2])


def popped(reply: Command, topic: str, group: str, broker: str) -> list[Popped]:
    """What a Java client does with a pop's answer."""
    assert reply.code == ResponseCode.SUCCESS, reply
    header = PopMessageResponse.from_ext_fields(reply.ext_fields)
    starts = dict(_entries(header.start_offset_info))
    offsets = {key: value.split(",") for key, value in _entries(header.msg_offset_info)}
    found = []
    taken: dict[tuple[str, str], int] = {}
    for message in decode_records(reply.body):
        receipt = message.get_property("POP_CK")
        if receipt is None:
            key = ("0", str(message.queue_id))
            index = taken.get(key, 0)
            taken[key] = index + 1
            assert offsets[key][index] == str(message.queue_offset)
            receipt = (
                f"{starts[key]} {header.pop_time} {header.invisible_time} {header.revive_qid} 0 "
                f"{broker} {message.queue_id} {message.queue_offset}"
            )
        kind = receipt.split(" ")[4]
        name = topic if kind == "0" else f"%RETRY%{group}{'_' if kind == '1' else '+'}{topic}"
        found.append(Popped(message, receipt, name))
    return found


def _entries(info: str | None) -> list[tuple[tuple[str, str], str]]:
    words = [entry.split(" ") for entry in (info or "").split(";") if entry]
    return [((kind, queue_id), value) for kind, queue_id, value in words]


def ack_request(each: Popped, group: str = "group", **more: Any) -> Command:
    options: dict[str, Any] = {
        "consumer_group": group,
        "topic": each.topic,
        "queue_id": each.message.queue_id,
        "extra_info": each.receipt,
        "offset": each.message.queue_offset,
    }
    return Command.request(AckMessage(**(options | more)))


class _Nobody:
    """A connection that nothing is sent to later."""

    is_closing = False
    peer_address = "127.0.0.1:1"

    def __init__(self) -> None:
        self.attributes: dict[object, Any] = {}

    def send(self, reply: Command) -> None:
        raise AssertionError(reply)


class Pops:
    """The parts, moved on by hand: `pass_time` is what the services would do meanwhile."""

    def __init__(self, services: Services, folder: Path) -> None:
        self.services = services
        live, topics, groups = services.live, services.topics, services.groups
        offsets, store, clock = services.offsets, services.store, services.clock
        self.revive_log = ReviveLog(live, services.writer, clock, HOST)
        self.ordered = OrderedQueues(folder / "config" / "consumerOrderInfo.json", clock)
        self.ordered.load()
        self.buffer = MergeBuffer(
            *(live, offsets, self.revive_log),
            lambda topic, group: topic in topics and group in groups,
            clock,
        )
        self.buffer.serve(True)
        held = HeldPops(clock, lambda listener: None, newest_first=False)
        popping = Popping(
            *(live, topics, groups, offsets, store, self.revive_log, self.buffer, self.ordered),
            *(services.stats, clock),
        )
        self.revival = Revival(
            live, topics, groups, offsets, store, self.revive_log, services.timers, services.stats
        )
        self._handlers = {
            **PopProcessor(
                live, topics, groups, popping, held, held, store, Turns(), clock
            ).handlers(),
            **AckProcessor(
                *(live, topics, offsets, store, self.revive_log, self.buffer, self.ordered),
                *((held,), services.stats, Turns(), clock),
            ).handlers(),
        }

    def call(self, request: Command) -> Command:
        handler = self._handlers[RequestCode(request.code)]
        nobody = cast(Connection, _Nobody())
        if isinstance(handler, RunHandler):
            (answer,) = handler.handle_run([request], nobody) or []
            return answer
        reply = handler(request, nobody)
        assert isinstance(reply, Command), reply
        return reply

    def pop(self, topic: str, group: str, **more: Any) -> list[Popped]:
        options: dict[str, Any] = {
            "consumer_group": group,
            "topic": topic,
            "queue_id": -1,
            "max_msg_nums": 32,
            "invisible_time": 60_000,
            "poll_time": 0,
            "born_time": 0,
            "init_mode": 0,
        }
        reply = self.call(Command.request(PopMessage(**(options | more))))
        if reply.code == ResponseCode.POLLING_TIMEOUT:
            return []
        return popped(reply, topic, group, self.services.live.broker.broker_name)

    def change(self, each: Popped, group: str, invisible_time: int) -> None:
        """Give a message more or less time; its receipt changes with that."""
        request = ChangeInvisibleTime(
            consumer_group=group,
            topic=each.topic,
            queue_id=each.message.queue_id,
            extra_info=each.receipt,
            offset=each.message.queue_offset,
            invisible_time=invisible_time,
        )
        reply = self.call(Command.request(request))
        assert reply.code == ResponseCode.SUCCESS, reply
        renewed = ChangeInvisibleTimeResponse.from_ext_fields(reply.ext_fields)
        words = each.receipt.split(" ")
        words[0] = str(each.message.queue_offset)
        words[1:4] = [str(renewed.pop_time), str(renewed.invisible_time), str(renewed.revive_qid)]
        each.receipt = " ".join(words)

    def work(self) -> None:
        """What the background services do when they have time."""
        timers = self.services.timers
        while self.buffer.leave_due():
            pass
        for _ in range(3):
            while timers.place():
                pass
            while timers.deliver_due():
                pass
            while self.revival.turn():
                pass

    @property
    def is_all_revived(self) -> bool:
        """Whether nothing that has come out of the wheel waits for its revival."""
        topic, store = self.revive_log.topic, self.services.store
        return all(
            self.services.offsets.query(REVIVE_GROUP, topic, queue_id) + 1
            == store.max_offset(topic, queue_id)
            for queue_id in range(self.revive_log.queues)
        )

    async def save(self) -> None:
        """Write everything that is written now and then."""
        self.services.offsets.save()
        self.ordered.save()
        await self.services.store.flush()
        await self.services.timers._save()
        await self.services.offsets._file.saved()
        await self.ordered._file.saved()

    async def tables_written(self) -> None:
        """Topics and groups are written when they change: wait for that."""
        await self.services.topics.saved()
        await self.services.groups.saved()

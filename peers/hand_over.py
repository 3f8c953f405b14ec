"""Columns 6 and 7: one store, by turns under a Java broker and under rocketq.

The two take turns three times with clean stops, and again with `kill -9`. Before each end
messages of every kind are left behind that the next broker has to see through:

    plain, batch    sent while no consumer is there
    delayed         not due yet
    transaction     undecided; the next broker has to ask the producer
    retry           failed once, on its way back
    timer           for a time after the next broker's start (RocketMQ 5)
    popped          taken and not acknowledged; their neighbours were (RocketMQ 5)

The consumer group goes on at its offsets. Over clean stops every message has to arrive exactly
once; after a kill once or twice, for offsets are stored every few seconds only.
"""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from peers import java
from peers.outcomes import Column, Outcome, Outcomes
from peers.sdk.trial import Trial, until
from peers.servers import Cluster, Server
from rocketq.admin import messages as admin_messages
from rocketq.admin.session import connected
from rocketq.aio import (
    ConsumeLater,
    Message,
    MessageExt,
    RocketqError,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
    run,
)

TURNS = int(os.environ.get("ROCKETQ_PEERS_TURNS", "3"))
TOPIC = "HandedOver"
GROUP = "HandOverGroup"
KINDS = ("plain", "batch", "delayed", "transaction", "retry")
POP_TOPIC = "HandedOverByPop"
POP_GROUP = "HandOverPoppers"
TIMER_S = 15.0
INVISIBLE_S = 15.0
DELAY_LEVEL = 3  # 10 s: longer than a broker takes to stop
WITHIN_S = 90.0
NOTED_WITHIN_S = 11.0  # both sides store their offsets every 5 or 10 s
JAVA, ROCKETQ = "Java", "rocketq"


@dataclass(slots=True)
class Ledger:
    """What was sent, and what came."""

    turn: int = 0
    sent: dict[str, str] = field(default_factory=dict)
    """Body -> unique id of the message."""
    stored: dict[str, str] = field(default_factory=dict)
    """Body -> where it is stored, of plain messages."""
    received: Counter[str] = field(default_factory=Counter)
    acknowledged: set[str] = field(default_factory=set)
    """Popped, and done before the broker ended: these must not come again."""
    failed_once: set[str] = field(default_factory=set)

    async def consume(self, message: MessageExt) -> None:
        """The group's listener: retry messages fail the first time."""
        body = message.body.decode()
        if body.startswith("retry") and message.reconsume_times == 0:
            self.failed_once.add(body)
            raise ConsumeLater("once more", delay_level=DELAY_LEVEL)
        self.received[body] += 1

    async def look_up(self, message: MessageExt) -> TransactionState:
        """The producer's answer about a transaction: decided once its broker is gone."""
        turn = int(message.body.decode().split("-")[1])
        return TransactionState.COMMIT if turn < self.turn else TransactionState.UNKNOWN

    def of_kind(self, kind: str) -> set[str]:
        return {body for body in self.sent if body.startswith(f"{kind}-")}

    def missing(self, kind: str) -> set[str]:
        return self.of_kind(kind) - self.received.keys()

    def is_complete(self, kind: str) -> bool:
        return not self.missing(kind)

    def more_often_than(self, often: int, *, without: Sequence[str] = ()) -> dict[str, int]:
        return {
            body: count
            for body, count in self.received.items()
            if count > often and body.partition("-")[0] not in without
        }


async def leave_popped(trial: Trial, ledger: Ledger, producer: TransactionProducer) -> None:
    """Messages that are popped; half of them are acknowledged, the others time out later."""
    names = {f"popped-{ledger.turn}-{number}" for number in range(6)}
    for name in sorted(names):
        await producer.send(Message(POP_TOPIC, name.encode()))
    taken: set[str] = set()
    async with popper(trial) as consumer:

        async def has_taken() -> bool:
            for message in await consumer.receive(invisible_s=INVISIBLE_S, wait_s=5):
                name = message.body.decode()
                taken.add(name)
                if name not in names or name[-1] not in "024":
                    await consumer.ack(message)
                    ledger.acknowledged.add(name)
                    ledger.received[name] += 1
            return names <= taken

        await until(has_taken, "popped messages", WITHIN_S)
    ledger.sent |= dict.fromkeys(names, "")


def popper(trial: Trial) -> SimpleConsumer:
    return SimpleConsumer(POP_GROUP, namesrv=trial.namesrv, topics=POP_TOPIC, consume_from="first")


async def take_popped(trial: Trial, ledger: Ledger, may_double: bool) -> Outcome:
    """What the last broker had given out and was not acknowledged, and nothing else."""
    again: list[str] = []
    async with popper(trial) as consumer:

        async def has_all() -> bool:
            for message in await consumer.receive(invisible_s=60, wait_s=2):
                name = message.body.decode()
                if name in ledger.acknowledged:
                    again.append(name)
                ledger.received[name] += 1
                ledger.acknowledged.add(name)
                await consumer.ack(message)
            return ledger.is_complete("popped")

        try:
            await until(has_all, "popped messages", WITHIN_S)
        except AssertionError:
            return Outcome(False, f"missing: {sorted(ledger.missing('popped'))}")
    # A killed broker has not written the offsets of its last seconds.
    if may_double or not again:
        return Outcome(True)
    return Outcome(False, f"acknowledged, and came again: {again}")


async def leave_behind(trial: Trial, ledger: Ledger, producer: TransactionProducer) -> None:
    """Messages of every kind but retry, nobody there to consume them."""
    turn = ledger.turn
    for number in range(20):
        body = f"plain-{turn}-{number}"
        result = await producer.send(Message(TOPIC, body.encode(), keys=[body], tags=f"t{turn}"))
        ledger.sent[body], ledger.stored[body] = result.msg_id, result.offset_msg_id
    names = [f"batch-{turn}-{number}" for number in range(10)]
    results = await producer.send_batch([Message(TOPIC, name.encode()) for name in names])
    ledger.sent |= {name: each.msg_id for name, each in zip(names, results, strict=True)}
    for number in range(2):
        body = f"transaction-{turn}-{number}"
        sent = await producer.send_in_transaction(Message(TOPIC, body.encode()))
        ledger.sent[body] = sent.msg_id
    for number in range(3):
        body = f"delayed-{turn}-{number}"
        message = Message(TOPIC, body.encode(), delay_level=DELAY_LEVEL)
        ledger.sent[body] = (await producer.send(message)).msg_id


async def leave_timers(ledger: Ledger, producer: TransactionProducer) -> None:
    for number in range(5):
        body = f"timer-{ledger.turn}-{number}"
        message = Message(TOPIC, body.encode(), delay=TIMER_S + number / 2)
        ledger.sent[body] = (await producer.send(message)).msg_id


async def undecided(message: Message, argument: object) -> TransactionState:
    return TransactionState.UNKNOWN


async def one_turn(
    namesrv: str, ledger: Ledger, may_double: bool, is_five: bool
) -> dict[str, Outcome]:
    """Everything the last broker left behind, found under this one; then new things are left."""
    found: dict[str, Outcome] = {}
    async with Trial(namesrv) as trial:
        producer = await trial.opened(
            TransactionProducer(
                "HandOverProducer",
                execute=undecided,
                check=ledger.look_up,
                namesrv=namesrv,
                send_timeout_s=30,
            )
        )
        # A producer is introduced to a broker by sending; only then can the broker ask it.
        await producer.send(Message(TOPIC, f"greeting-{ledger.turn}".encode()))
        if ledger.turn:
            found["index and ids"] = await look_at_earlier(namesrv, ledger)
        consumer = trial.consumer(GROUP, ledger.consume, topics=TOPIC)
        async with consumer:
            if is_five and ledger.turn:
                found["popped"] = await take_popped(trial, ledger, may_double)
            for kind in (*KINDS, "timer") if is_five else KINDS:
                wanted = f"{kind} messages of turn {ledger.turn - 1}"
                try:
                    await until(partial(ledger.is_complete, kind), wanted, WITHIN_S)
                    found[kind] = Outcome(True)
                except AssertionError:
                    found[kind] = Outcome(False, f"missing: {sorted(ledger.missing(kind))}")
            # A killed broker forgets what it noted last, so the messages of a turn may come once
            # more in the next one; those before must not. Retries and popped messages go through
            # three offsets (topic, delay level or revive log, retry topic), each of which may be
            # behind, and are left out.
            row, often = ("offsets go on", 2) if may_double else ("nothing twice", 1)
            without = ("retry", "popped") if may_double else ()
            repeated = ledger.more_often_than(often, without=without)
            found[row] = Outcome(not repeated, f"{repeated or ''}")
            if may_double:
                await asyncio.sleep(NOTED_WITHIN_S)
            for number in range(2):
                body = f"retry-{ledger.turn}-{number}"
                result = await producer.send(Message(TOPIC, body.encode()))
                ledger.sent[body] = result.msg_id
            failing = {f"retry-{ledger.turn}-{number}" for number in range(2)}
            await until(lambda: failing <= ledger.failed_once, "first attempts", WITHIN_S)
        await leave_behind(trial, ledger, producer)
        if is_five:
            await leave_timers(ledger, producer)
            await leave_popped(trial, ledger, producer)
    return found


async def look_at_earlier(namesrv: str, ledger: Ledger) -> Outcome:
    """The oldest and the newest plain message, by key, by unique id and by place."""
    bodies = list(ledger.stored)
    wrong = []
    async with connected(namesrv) as api:
        for body in (bodies[0], bodies[-1]):
            try:
                ways: list[Sequence[MessageExt | None]] = [
                    await admin_messages.by_key(api, TOPIC, body),
                    await admin_messages.by_unique_key(api, TOPIC, ledger.sent[body]),
                    [await admin_messages.by_id(api, TOPIC, ledger.stored[body])],
                ]
            except RocketqError as failure:
                wrong.append(f"{body}: {failure}")
                continue
            for way, found in zip(("key", "unique id", "place"), ways, strict=True):
                if [each.body.decode() for each in found if each] != [body]:
                    wrong.append(f"{body} by {way}: {found}")
    return Outcome(not wrong, "; ".join(wrong))


def take_turns(folder: Path, release: str, *, by_kill: bool) -> dict[str, dict[str, Outcome]]:
    """Direction -> what worked; a row that failed in one turn has failed."""
    results: dict[str, dict[str, Outcome]] = {JAVA: {}, ROCKETQ: {}}
    ledger = Ledger()
    with Cluster(folder) as cluster:
        namesrv = cluster.rocketq_namesrv()
        for turn in range(2 * TURNS + 1):
            ledger.turn = turn
            side = JAVA if turn % 2 == 0 else ROCKETQ
            broker = start(cluster, side, namesrv, release, turn)
            try:
                found = run(one_turn(namesrv.address, ledger, by_kill, release == java.V5))
            except AssertionError as failure:
                found = {"plain": Outcome(False, str(failure))}
            if turn:
                merge(results[ROCKETQ if side == JAVA else JAVA], found, by_kill, turn)
            if by_kill:
                broker.crash()
            else:
                broker.stop()
    return results


def start(cluster: Cluster, side: str, namesrv: Server, release: str, turn: int) -> Server:
    if side == JAVA:
        return cluster.java_broker("a", namesrv, release)
    # Every other time with acks that wait in memory, and are part of what is written at the end.
    merges = "true" if turn % 4 == 1 else "false"
    return cluster.rocketq_broker("a", namesrv, enablePopBufferMerge=merges)


def merge(into: dict[str, Outcome], found: Outcomes, by_kill: bool, turn: int) -> None:
    how = "kill -9" if by_kill else "clean stop"
    for name, outcome in found.items():
        row = f"store, {how}: {name}"
        if into.get(row, Outcome(True)).ok:
            into[row] = Outcome(outcome.ok, outcome.detail and f"turn {turn}: {outcome.detail}")


_results: dict[str, dict[str, dict[str, Outcome]]] = {}


def handed_over(release: str, origin: str, folder: Path, rows: Sequence[str]) -> Outcomes:
    """Both directions come out of the same turns, which are taken once for a release."""
    if release not in _results:
        found: dict[str, dict[str, Outcome]] = {JAVA: {}, ROCKETQ: {}}
        for by_kill in (False, True):
            place = folder / ("killed" if by_kill else "stopped")
            for direction, outcomes in take_turns(place, release, by_kill=by_kill).items():
                found[direction].update(outcomes)
            shutil.rmtree(place, ignore_errors=True)
        _results[release] = found
    return _results[release][origin]


COLUMNS = [
    Column(
        "store-from-java",
        "store Java 5.5.0 → rocketq",
        lambda folder, rows: handed_over(java.V5, JAVA, folder, rows),
    ),
    Column(
        "store-from-rocketq",
        "store rocketq → Java 5.5.0",
        lambda folder, rows: handed_over(java.V5, ROCKETQ, folder, rows),
    ),
    Column(
        "store-from-java-4",
        "store Java 4.9.7 → rocketq",
        lambda folder, rows: handed_over(java.V4, JAVA, folder, rows),
    ),
    Column(
        "store-to-java-4",
        "store rocketq → Java 4.9.7",
        lambda folder, rows: handed_over(java.V4, ROCKETQ, folder, rows),
    ),
]

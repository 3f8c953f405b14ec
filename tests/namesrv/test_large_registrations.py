"""Brokers with very many topics, honest ones and others, and what they cost everybody else."""

import asyncio
import json
import struct
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.common.loop.slices import at_once
from rocketq.namesrv.registration_body import TOPIC_LIMIT, ReportedTopics, read_registration
from rocketq.remoting.bodies.registration import RegisterBrokerBody, TopicConfig, TopicConfigWrapper
from rocketq.remoting.codes import ResponseCode
from rocketq.remoting.errors import RequestRejected
from tests.namesrv.test_server import VERSION, Caller, config, register_body, running, topic_config
from tests.waiting import eventually

# A tenth of a second is many times what a slice takes, and far below what the whole takes.
LONGEST_TURN_S = 0.1


class Turns:
    """The longest turn of the loop, in time of this process's own."""

    longest_s = 0.0

    async def watch(self) -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.process_time() - before)


@asynccontextmanager
async def watched() -> AsyncIterator[Turns]:
    turns = Turns()
    task = asyncio.ensure_future(turns.watch())
    try:
        yield turns
    finally:
        task.cancel()


def packed(count: int) -> bytes:
    def sized(data: bytes) -> bytes:
        return struct.pack(">i", len(data)) + data

    topics = b"".join(sized(b"t%d 4 4 6 SINGLE_TAG {}" % number) for number in range(count))
    version = sized(json.dumps(VERSION).encode())
    return zlib.compress(version + struct.pack(">i", count) + topics + sized(b"[]") + bytes(4), 1)


def read(body: bytes) -> ReportedTopics:
    return at_once(read_registration(body, broker_name="b", version=479))


@pytest.mark.parametrize("form", ["plain", "packed"])
async def test_many_topics_are_taken_over_and_given_up_in_slices(tmp_path: Path, form: str) -> None:
    count = 30_000
    topics = {f"t{number}": 6 for number in range(count)}
    body = register_body(topics) if form == "plain" else packed(count)
    async with running(config(tmp_path)) as caller, watched() as turns:
        await caller.ask(-1)
        turns.longest_s = 0.0
        assert (await caller.register(body=body)).code == 0
        assert len(list(caller.server.registry.topics)) == count
        assert (await caller.route("t29999")).code == 0

        other = Caller(caller.server)
        await caller.close()
        await eventually(lambda: not list(caller.server.registry.topics))
        assert (await other.route("t29999")).code == ResponseCode.TOPIC_NOT_EXIST
        await other.close()
        assert turns.longest_s < LONGEST_TURN_S


async def test_a_registration_beyond_all_measure_is_refused_and_holds_up_nobody(
    tmp_path: Path,
) -> None:
    body = packed(250_000)
    assert len(body) < 16 << 20
    async with running(config(tmp_path)) as caller, watched() as turns:
        await caller.ask(-1)
        turns.longest_s = 0.0
        answer = await caller.register(body=body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"more than {TOPIC_LIMIT} topics" in (answer.remark or "")
        assert turns.longest_s < LONGEST_TURN_S


async def test_news_that_come_meanwhile_have_the_last_word(tmp_path: Path) -> None:
    topics = {f"t{number}": 6 for number in range(20_000)}
    async with running(config(tmp_path)) as caller:
        everything = asyncio.ensure_future(caller.register(topics))
        await eventually(lambda: len(list(caller.server.registry.topics)) > 1000)
        newer = {**VERSION, "counter": 2}
        body = json.loads(register_body({"t19999": 4}))
        body["topicConfigSerializeWrapper"]["dataVersion"] = newer
        assert (await caller.register(body=json.dumps(body).encode())).code == 0
        assert (await everything).code == 0
        route = json.loads(bytes((await caller.route("t19999")).body))
        assert route["queueDatas"][0]["perm"] == 4


async def test_nobody_has_a_second_large_registration_waiting(tmp_path: Path) -> None:
    body = register_body({f"t{number}": 6 for number in range(40_000)})
    async with running(config(tmp_path)) as caller:
        answers = await asyncio.gather(
            *(caller.register(body=body, address=f"10.0.0.{n}:10911") for n in range(3))
        )
        # The third is refused, too, unless the first is done before it has come.
        codes = sorted(answer.code for answer in answers)
        assert (codes[0], codes[-1]) == (0, 2)
        assert (await caller.register(body=body)).code == 0


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
tables = st.dictionaries(
    names,
    st.builds(
        lambda read, write, perm, attributes: TopicConfig(
            topic_name="x",
            read_queue_nums=read,
            write_queue_nums=write,
            perm=perm,
            attributes=attributes,
        ),
        *[st.integers(0, 100)] * 3,
        st.dictionaries(names, names, max_size=2),
    ),
    max_size=5,
)


@given(tables, st.booleans(), st.sampled_from(["compact", "blanks", "dialect"]))
def test_the_table_is_read_alike_in_slices_and_as_a_whole(
    table: dict[str, TopicConfig], bare: bool, style: str
) -> None:
    wrapper = TopicConfigWrapper(topic_config_table=table)
    plain = json.loads(
        (wrapper if bare else RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)).encode()
    )
    indent = 1 if style == "blanks" else None
    text = json.dumps(plain, indent=indent).encode()
    if style == "dialect":
        # A stray comma, which only fastjson takes.
        text = text.replace(b'"topicConfigTable": {', b'"topicConfigTable": {,')
    reported = read(text)
    assert {
        topic: (queues.read_queue_nums, queues.write_queue_nums, queues.perm)
        for topic, queues in reported.topics.items()
    } == {topic: (c.read_queue_nums, c.write_queue_nums, c.perm) for topic, c in table.items()}


@given(st.binary(max_size=40), st.integers(0, 400))
def test_a_damaged_registration_is_read_or_refused(damage: bytes, at: int) -> None:
    body = register_body({"a": 6, "b": 6})
    try:
        read(body[:at] + damage + body[at + len(damage) :])
    except RequestRejected:
        pass


@pytest.mark.parametrize("number", ["9" * 5_000, 1e400, None, [], {}, "x"])
def test_numbers_that_are_not_numbers_are_refused(number: object) -> None:
    plain = json.loads(register_body({"a": 6}))
    plain["topicConfigSerializeWrapper"]["topicConfigTable"]["a"] = {
        **topic_config("a", 6),
        "readQueueNums": number,
    }
    with pytest.raises(RequestRejected, match="makes no sense"):
        read(json.dumps(plain).encode())

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.client.producer.latency_faults import LatencyFaults
from rocketq.client.producer.selectors import QueueRotation, by_hash, by_random, by_sharding_key
from rocketq.common.clock import ManualClock
from rocketq.message.message import Message
from rocketq.message.queue import MessageQueue


def queues_of(*broker_names: str, count: int = 4) -> list[MessageQueue]:
    return [MessageQueue("t", name, number) for name in broker_names for number in range(count)]


MESSAGE = Message("t", b"x")


@pytest.mark.parametrize(
    ("argument", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        (7, 7),
        (-7, -7),
        (2**40 + 5, 2**8 + 5),
        (True, 1231),
        (False, 1237),
    ],
)
def test_by_hash_agrees_with_java(argument: object, java_hash: int) -> None:
    queues = queues_of("a", count=7)
    chosen = by_hash(queues, MESSAGE, argument)
    assert chosen.queue_id == abs(java_hash) % 7


@given(st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1)), st.integers(1, 64))
def test_by_hash_always_finds_a_queue(argument: str | int, count: int) -> None:
    queues = queues_of("a", count=count)
    assert by_hash(queues, MESSAGE, argument) in queues


def test_equal_sharding_keys_share_a_queue() -> None:
    queues = queues_of("a", "b")
    chosen = {
        by_sharding_key(queues, Message("t", b"%d" % n, sharding_key="order-42"), None)
        for n in range(10)
    }
    assert len(chosen) == 1


def test_by_random_stays_within_the_queues() -> None:
    queues = queues_of("a", "b")
    assert by_random(queues, MESSAGE, None) in queues


def test_rotation_uses_every_queue_equally() -> None:
    queues = queues_of("a", "b")
    rotation = QueueRotation()
    used = Counter(rotation.next_queue("t", queues) for _ in range(80))
    assert set(used.values()) == {10}


def test_rotation_starts_anywhere() -> None:
    queues = queues_of("a", "b")
    starts = {
        QueueRotation(chance=random.Random(seed)).next_queue("t", queues) for seed in range(100)
    }
    assert starts == set(queues)


def test_a_retry_goes_to_another_broker() -> None:
    queues = queues_of("a", "b")
    rotation = QueueRotation()
    for _ in range(20):
        assert rotation.next_queue("t", queues, avoid_broker="a").broker_name == "b"


def test_a_retry_stays_when_there_is_only_one_broker() -> None:
    rotation = QueueRotation()
    assert rotation.next_queue("t", queues_of("a"), avoid_broker="a").broker_name == "a"


def test_slow_brokers_are_left_out_until_they_have_recovered() -> None:
    clock = ManualClock()
    faults = LatencyFaults(clock=clock)
    rotation = QueueRotation(faults=faults)
    queues = queues_of("a", "b")
    faults.answered("a", 1000)
    assert {rotation.next_queue("t", queues).broker_name for _ in range(20)} == {"b"}
    clock.advance(2000)
    assert {rotation.next_queue("t", queues).broker_name for _ in range(20)} == {"a", "b"}


def test_among_slow_brokers_a_reachable_one_is_preferred() -> None:
    faults = LatencyFaults(clock=ManualClock())
    rotation = QueueRotation(faults=faults)
    faults.failed("a", reachable=False)
    faults.answered("b", 1000)
    queues = queues_of("a", "b")
    assert {rotation.next_queue("t", queues).broker_name for _ in range(20)} == {"b"}

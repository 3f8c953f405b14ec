"""A broker for other people's tests."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rocketq import Message, Producer
from rocketq.testing import LocalBroker, running_broker


def test_it_is_ready_at_once(local_broker: LocalBroker) -> None:
    """The first broker of a process also pays for its imports; that one is `local_broker`."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        with LocalBroker():
            times.append(time.perf_counter() - began)
    assert min(times) < 0.2


def test_it_keeps_ports_and_messages_over_a_restart() -> None:
    with LocalBroker() as broker:
        topic = broker.create_topic("orders", queues=2)
        with Producer("p", namesrv=broker.namesrv) as producer:
            producer.send(Message(topic, b"x"))
        namesrv, address = broker.namesrv, broker.address
        broker.stop()
        broker.start()
        assert (broker.namesrv, broker.address) == (namesrv, address)
        assert [message.body for message in broker.wait_for_messages(topic, 1)] == [b"x"]


def test_nothing_is_left_of_it() -> None:
    with LocalBroker() as broker:
        folder = broker._folder
        assert folder is not None
        assert folder.exists()
    assert not folder.exists()


def test_a_folder_of_yours_is_kept(tmp_path: Path) -> None:
    with LocalBroker(folder=tmp_path):
        pass
    assert (tmp_path / "store").exists()


def test_settings_are_rocketmqs() -> None:
    with LocalBroker({"brokerName": "mine", "brokerClusterName": "shop"}) as broker:
        assert broker.cluster == "shop"
        topic = broker.create_topic()
        with Producer("p", namesrv=broker.namesrv) as producer:
            assert producer.send(Message(topic, b"x")).queue.broker_name == "mine"


def test_a_broker_that_cannot_start_says_why() -> None:
    with pytest.raises(Exception, match="flushDiskType"), LocalBroker({"flushDiskType": "NEVER"}):
        pass


def test_it_cannot_be_started_twice(local_broker: LocalBroker) -> None:
    with pytest.raises(RuntimeError, match="already"):
        local_broker.start()


def test_waiting_in_vain_says_what_was_there(local_broker: LocalBroker) -> None:
    with pytest.raises(TimeoutError, match="0 of 1 messages"):
        local_broker.wait_for_messages("nothing-here", 1, timeout_s=0.05)


async def test_asyncio_tests_have_it_too() -> None:
    async with running_broker() as broker:
        assert broker.messages("none") == []


def test_the_fixture_works_in_a_suite_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(
        textwrap.dedent(
            """
            from rocketq import Message, Producer

            def place_order(namesrv):
                with Producer("shop", namesrv=namesrv) as producer:
                    producer.send(Message("orders", b"42", tags="paid"))

            def test_an_order_is_announced(rocketq_broker):
                place_order(rocketq_broker.namesrv)
                (message,) = rocketq_broker.wait_for_messages("orders", 1)
                assert message.tags == "paid"

            def test_every_test_starts_empty(rocketq_broker):
                assert rocketq_broker.messages("orders") == []
            """
        )
    )
    process = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-W", "error", str(tmp_path)),
            # By hand, because the entry point is there only in an installed package.
            *("-p", "no:rocketq", "-p", "rocketq.pytest_plugin"),
            *("-p", "no:cacheprovider", "-p", "no:asyncio"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "2 passed" in process.stdout

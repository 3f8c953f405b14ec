"""The blocking SDK: threads, forks, interpreter exits."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import rocketq
from rocketq import (
    LitePullConsumer,
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from rocketq.client.blocking.loop_thread import loop_thread
from rocketq.client.errors import (
    ClientClosed,
    ClientNotStarted,
    ForkedClient,
    InvalidState,
    NoRoute,
)
from rocketq.testing import LocalBroker

PATIENCE_S = 30.0


@pytest.fixture
def broker(local_broker: LocalBroker) -> LocalBroker:
    return local_broker


@pytest.fixture
def topic(broker: LocalBroker) -> str:
    return broker.create_topic()


def test_a_message_is_sent_and_stored(broker: LocalBroker, topic: str) -> None:
    with Producer("p", namesrv=broker.namesrv) as producer:
        result = producer.send(Message(topic, b"hello", tags="t"))
        assert result.is_ok
        assert producer.publish_queues(topic)
    (message,) = broker.messages(topic)
    assert (message.body, message.msg_id) == (b"hello", result.msg_id)


def test_every_way_of_sending_has_its_blocking_twin(broker: LocalBroker, topic: str) -> None:
    with Producer("p", namesrv=broker.namesrv) as producer:
        producer.send_batch([Message(topic, b"1"), Message(topic, b"2")])
        producer.send_oneway(Message(topic, b"3"))
        future = producer.send_soon(Message(topic, b"4"))
        producer.flush()
        assert future.result(PATIENCE_S).is_ok
    assert {m.body for m in broker.wait_for_messages(topic, 4)} == {b"1", b"2", b"3", b"4"}


def test_threads_share_a_producer(broker: LocalBroker, topic: str) -> None:
    with Producer("p", namesrv=broker.namesrv) as producer, ThreadPoolExecutor(16) as pool:
        sends = pool.map(lambda n: producer.send(Message(topic, b"%d" % n)), range(200))
        soon = pool.map(lambda n: producer.send_soon(Message(topic, b"%d" % n)), range(200, 400))
        assert all(result.is_ok for result in sends)
        assert all(future.result(PATIENCE_S).is_ok for future in soon)
    assert {m.body for m in broker.messages(topic)} == {b"%d" % n for n in range(400)}


def test_send_soon_waits_when_too_many_are_unanswered(broker: LocalBroker, topic: str) -> None:
    with Producer("p", namesrv=broker.namesrv, max_pending_sends=10) as producer:
        futures = [producer.send_soon(Message(topic, b"x")) for _ in range(100)]
        assert all(future.result(PATIENCE_S).is_ok for future in futures)


@pytest.mark.parametrize("how", ["flush", "close"])
def test_nothing_that_was_accepted_is_forgotten(how: str, broker: LocalBroker, topic: str) -> None:
    with Producer("p", namesrv=broker.namesrv) as producer:
        producer.send(Message(topic, b"x"))
        futures = [producer.send_soon(Message(topic, b"x")) for _ in range(3000)]
        if how == "flush":
            producer.flush()
            assert all(future.done() for future in futures)
    assert all(future.result(0).is_ok for future in futures)


def test_errors_come_to_the_caller(broker: LocalBroker) -> None:
    with Producer("p", namesrv=broker.namesrv, template_topic="none") as producer:
        with pytest.raises(NoRoute):
            producer.send(Message("missing", b"x"))
        with pytest.raises(rocketq.errors.InvalidMessage):
            producer.send_soon(Message("missing", b"")).result(PATIENCE_S)
    with pytest.raises(ClientClosed):
        producer.send(Message("missing", b"x"))
    producer.close()
    with pytest.raises(ClientNotStarted):
        Producer("p", namesrv=broker.namesrv).send(Message("missing", b"x"))


def test_a_push_consumer_calls_plain_functions_in_threads(broker: LocalBroker, topic: str) -> None:
    arrived = threading.Event()
    threads = []

    consumer = PushConsumer(
        broker.new_name(), namesrv=broker.namesrv, topics=topic, consume_from="first"
    )

    @consumer.listener
    def listen(message: MessageExt) -> None:
        threads.append(threading.current_thread().name)
        arrived.set()

    with consumer, Producer("p", namesrv=broker.namesrv) as producer:
        producer.send(Message(topic, b"x"))
        assert arrived.wait(PATIENCE_S)
        assert consumer.assignment
        assert consumer.client_id
        consumer.suspend()
        assert consumer.is_suspended
        consumer.resume()
        consumer.concurrency = 3
        assert consumer.concurrency == 3
    assert threads[0] != "rocketq-loop"


def test_a_lite_pull_consumer_polls_and_iterates(broker: LocalBroker, topic: str) -> None:
    with Producer("p", namesrv=broker.namesrv) as producer:
        producer.send_batch([Message(topic, b"%d" % n) for n in range(10)])
    with LitePullConsumer(
        broker.new_name(), namesrv=broker.namesrv, topics=topic, consume_from="first"
    ) as consumer:
        bodies = []
        for message in consumer:
            bodies.append(message.body)
            if len(bodies) == 10:
                break
        assert bodies == [b"%d" % n for n in range(10)]
        consumer.commit()
        for queue in consumer.assignment:
            consumer.seek_to_begin(queue)
        assert len(consumer.poll(PATIENCE_S)) > 0


def test_a_pull_consumer_pulls(broker: LocalBroker, topic: str) -> None:
    with Producer("p", namesrv=broker.namesrv) as producer:
        sent = producer.send(Message(topic, b"x"))
    with PullConsumer(broker.new_name(), namesrv=broker.namesrv) as consumer:
        assert sent.queue in consumer.message_queues(topic)
        result = consumer.pull(sent.queue, 0)
        assert [message.body for message in result.messages] == [b"x"]
        assert consumer.max_offset(sent.queue) == 1


def test_a_local_transaction_runs_in_the_calling_thread(broker: LocalBroker, topic: str) -> None:
    threads = []
    producer = TransactionProducer(broker.new_name(), namesrv=broker.namesrv)

    @producer.on_execute
    def execute(message: Message, argument: object) -> TransactionState:
        threads.append(threading.current_thread())
        return TransactionState.COMMIT if argument == 1 else TransactionState.ROLLBACK

    @producer.on_check
    def check(message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOWN

    async def execute_async(message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT

    with producer:
        assert producer.send_in_transaction(Message(topic, b"1"), 1).state.name == "COMMIT"
        assert producer.send_in_transaction(Message(topic, b"2"), 2).state.name == "ROLLBACK"
        producer.send_in_transaction(Message(topic, b"3"), execute=execute_async)

        def fail(message: Message, argument: object) -> TransactionState:
            raise RuntimeError("no")

        failed = producer.send_in_transaction(Message(topic, b"4"), execute=fail)
        assert failed.state is TransactionState.UNKNOWN
    assert threads == [threading.current_thread()] * 2
    assert {m.body for m in broker.wait_for_messages(topic, 2)} == {b"1", b"3"}


def test_it_works_where_a_loop_is_already_running(broker: LocalBroker, topic: str) -> None:
    """As in a notebook, whose own loop runs the cells."""

    async def cell() -> None:
        with Producer("p", namesrv=broker.namesrv) as producer:
            assert producer.send(Message(topic, b"x")).is_ok

    asyncio.run(cell())


def test_blocking_calls_on_the_shared_loop_are_refused(broker: LocalBroker, topic: str) -> None:
    """They would wait for themselves for ever."""
    with Producer("p", namesrv=broker.namesrv) as producer:

        async def on_the_loop() -> None:
            with pytest.raises(InvalidState, match=r"rocketq\.aio"):
                producer.send(Message(topic, b"x"))

        loop_thread().run(on_the_loop())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_old_clients_say_so_and_new_ones_work(broker: LocalBroker, topic: str) -> None:
    with Producer("p", namesrv=broker.namesrv) as producer:
        producer.send(Message(topic, b"parent"))
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                with pytest.raises(ForkedClient, match="after the fork"):
                    producer.send(Message(topic, b"x"))
                producer.close()
                with Producer("child", namesrv=broker.namesrv) as own:
                    own.send(Message(topic, b"child"))
                os.write(writing, b"fine")
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == b"fine"
        os.waitpid(pid, 0)
        producer.send(Message(topic, b"parent again"))
    assert {m.body for m in broker.messages(topic)} == {b"parent", b"child", b"parent again"}


def run_script(script: str, broker: LocalBroker, topic: str) -> str:
    """Run a program with every warning an error; what it says, on both channels."""
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        env={**os.environ, "NAMESRV_ADDR": broker.namesrv, "TOPIC": topic},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return process.stdout + process.stderr


def test_a_program_that_closes_nothing_ends_silently_and_loses_nothing(
    broker: LocalBroker, topic: str
) -> None:
    output = run_script(
        """
        import os
        from rocketq import Message, Producer, PushConsumer
        topic = os.environ["TOPIC"]
        producer = Producer("p", linger_ms=1000)
        producer.start()
        consumer = PushConsumer("group-at-exit", topics=topic, listener=lambda message: None)
        consumer.start()
        for number in range(100):
            producer.send_soon(Message(topic, b"%d" % number))
        """,
        broker,
        topic,
    )
    assert output == ""
    assert len(broker.messages(topic)) == 100


def test_an_exception_ends_a_program_with_its_own_traceback_only(
    broker: LocalBroker, topic: str
) -> None:
    output = run_script(
        """
        import os
        from rocketq import Message, Producer
        producer = Producer("p")
        producer.start()
        producer.send(Message(os.environ["TOPIC"], b"x"))
        raise SystemExit("on purpose")
        """,
        broker,
        topic,
    )
    assert output == "on purpose\n"


def test_a_waiting_call_can_be_interrupted(broker: LocalBroker, topic: str) -> None:
    output = run_script(
        """
        import os, signal, threading
        from rocketq import Message, Producer
        # Programs started in the background may inherit that it is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with Producer("p") as producer:
            producer.send(Message(os.environ["TOPIC"], b"x"))
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                producer.request(Message(os.environ["TOPIC"], b"?"), timeout_s=60)
            except KeyboardInterrupt:
                print("interrupted")
        """,
        broker,
        topic,
    )
    assert output == "interrupted\n"

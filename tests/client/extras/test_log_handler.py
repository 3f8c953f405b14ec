"""Log records as messages."""

import logging
import time
from collections.abc import Iterator

import pytest

from rocketq.client.extras import log_handler
from rocketq.client.extras.log_handler import RocketqHandler
from rocketq.testing import LocalBroker


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Iterator[logging.Logger]:
    logger = logging.getLogger(f"test.{request.node.name}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def test_records_arrive_formatted(local_broker: LocalBroker, log: logging.Logger) -> None:
    topic = local_broker.create_topic(queues=1)
    handler = RocketqHandler(topic, namesrv=local_broker.namesrv, tag="web")
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    log.info("hello %s", "world")
    log.warning("careful")
    messages = local_broker.wait_for_messages(topic, 2)
    assert [message.body for message in messages] == [b"INFO hello world", b"WARNING careful"]
    assert messages[0].tags == "web"
    assert messages[0].get_property("APPENDER_TYPE") == log_handler.APPENDER_TYPE
    assert messages[1].get_property("LEVEL") == "WARNING"
    assert messages[0].get_property("LOGGER") == log.name


def test_closing_sends_what_was_logged(local_broker: LocalBroker, log: logging.Logger) -> None:
    topic = local_broker.create_topic()
    handler = RocketqHandler(topic, namesrv=local_broker.namesrv)
    log.addHandler(handler)
    for number in range(200):
        log.info("%d", number)
    handler.close()
    assert len(local_broker.messages(topic)) == 200
    assert handler.dropped == 0


def test_handlers_share_a_producer(local_broker: LocalBroker, log: logging.Logger) -> None:
    topic = local_broker.create_topic()
    first = RocketqHandler(topic, namesrv=local_broker.namesrv)
    second = RocketqHandler(topic, namesrv=local_broker.namesrv)
    assert first._sender is second._sender
    first.close()
    log.addHandler(second)
    log.info("still there")
    assert local_broker.wait_for_messages(topic, 1)


def test_nobody_to_send_to_harms_nobody(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[logging.LogRecord] = []
    handler = RocketqHandler("logs", namesrv="127.0.0.1:1", group="nobody-there")
    monkeypatch.setattr(handler, "handleError", errors.append)
    log.addHandler(handler)
    began = time.monotonic()
    for number in range(100):
        log.info("%d", number)
    assert time.monotonic() - began < 20, "logging does not wait"
    handler.flush()
    assert handler.dropped
    assert errors


def test_what_is_too_much_is_dropped(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_handler, "_WAITING_MAX", 10)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler = RocketqHandler("logs", namesrv="127.0.0.1:1", group="too-much")
    log.addHandler(handler)
    for number in range(100):
        log.info("%d", number)
    assert handler.dropped > 0


def test_the_sdks_own_records_are_not_sent(local_broker: LocalBroker) -> None:
    topic = local_broker.create_topic(queues=1)
    handler = RocketqHandler(topic, namesrv=local_broker.namesrv)
    own = logging.getLogger("rocketq.client.producer.producer")
    own.addHandler(handler)
    try:
        own.warning("about sending")
        handler.emit(logging.makeLogRecord({"name": "app", "msg": "from the application"}))
        (message,) = local_broker.wait_for_messages(topic, 1)
    finally:
        own.removeHandler(handler)
        handler.close()
    assert message.body == b"from the application"

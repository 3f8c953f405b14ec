"""Which names are allowed, which are the system's, and how namespaces wrap them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message import names
from rocketq.message.names import InvalidName

plain_names = st.text("abcXYZ019-_", min_size=1, max_size=20).filter(
    lambda name: not names.is_system_topic(name) and not names.is_system_group(name)
)


@pytest.mark.parametrize("topic", ["orders", "%RETRY%group", "a|b", "A-b_9", "x" * 127])
def test_a_topic_of_allowed_characters_is_valid(topic: str) -> None:
    names.validate_topic(topic)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("x" * 128, "at most 127"),
        ("a b", "other than"),
        ("a.b", "other than"),
        ("заказы", "other than"),
        ("a\n", "other than"),
    ],
)
def test_an_invalid_topic_says_why(topic: str, reason: str) -> None:
    with pytest.raises(InvalidName, match=reason):
        names.validate_topic(topic)


def test_a_retry_topic_may_be_longer_where_the_broker_allows_it() -> None:
    topic = names.retry_topic("g" * 120)
    names.validate_topic(topic, names.DERIVED_TOPIC_MAX_LENGTH)
    with pytest.raises(InvalidName):
        names.validate_topic("x" * 256, names.DERIVED_TOPIC_MAX_LENGTH)


def test_a_group_has_at_most_120_characters() -> None:
    names.validate_group("g" * 120)
    with pytest.raises(InvalidName, match=r"group .* at most 120"):
        names.validate_group("g" * 121)


def test_derived_topics_are_recognised() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("c") == "c_REPLY_TOPIC"
    assert names.is_retry_topic("%RETRY%g")
    assert names.is_dlq_topic("%DLQ%g")
    assert not names.is_retry_topic("orders")


@pytest.mark.parametrize(
    "topic", ["TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "rmq_sys_anything"]
)
def test_system_topics_are_recognised(topic: str) -> None:
    assert names.is_system_topic(topic)


def test_a_broker_adds_system_topics_of_its_own() -> None:
    assert not names.is_system_topic("DefaultCluster")
    assert names.is_system_topic("DefaultCluster", also={"DefaultCluster", "broker-a"})


def test_nobody_may_send_to_what_the_broker_writes_itself() -> None:
    assert names.is_forbidden_topic("SCHEDULE_TOPIC_XXXX")
    assert names.is_forbidden_topic("RMQ_SYS_TRANS_HALF_TOPIC")
    assert not names.is_forbidden_topic("TBW102")
    assert not names.is_forbidden_topic("orders")


def test_system_groups_are_recognised() -> None:
    assert names.is_system_group("CID_RMQ_SYS_TRANS")
    assert names.is_system_group("TOOLS_CONSUMER")
    assert not names.is_system_group("orders-service")


@pytest.mark.parametrize(
    ("resource", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%g", "%DLQ%ns%g"),
        ("ns%orders", "ns%orders"),
        ("%RETRY%ns%g", "%RETRY%ns%g"),
        ("TBW102", "TBW102"),
        ("rmq_sys_x", "rmq_sys_x"),
        ("CID_RMQ_SYS_x", "CID_RMQ_SYS_x"),
        ("", ""),
    ],
)
def test_a_namespace_goes_after_the_prefix(resource: str, wrapped: str) -> None:
    assert names.wrap_namespace("ns", resource) == wrapped


def test_no_namespace_changes_nothing() -> None:
    assert names.wrap_namespace("", "orders") == "orders"
    assert names.unwrap_namespace("", "ns%orders") == "ns%orders"


@given(plain_names, plain_names, st.sampled_from(["", "%RETRY%", "%DLQ%"]))
def test_unwrapping_undoes_wrapping(namespace: str, name: str, prefix: str) -> None:
    wrapped = names.wrap_namespace(namespace, prefix + name)
    assert names.unwrap_namespace(namespace, wrapped) == prefix + name
    assert names.wrap_namespace(namespace, wrapped) == wrapped
    assert names.namespace_of(wrapped) == namespace


def test_another_namespace_is_left_alone() -> None:
    assert names.unwrap_namespace("mine", "yours%orders") == "yours%orders"
    assert names.namespace_of("orders") == ""
    assert names.namespace_of("TBW102") == ""

"""Subscriptions: tags, SQL, versions, names on the wire."""

import pytest

from rocketq.client.consumer.subscription import Sql, Subscription, Subscriptions
from rocketq.client.errors import InvalidSettings
from rocketq.message.hashing import java_hash
from rocketq.message.message import MessageExt
from rocketq.message.names import InvalidName
from rocketq.message.properties.codec import encode_properties
from rocketq.message.record.writer import new_record


def tagged(tag: str | None) -> MessageExt:
    properties = encode_properties({"TAGS": tag} if tag else {})
    return MessageExt(new_record(b"orders", b"x", properties))


def test_tags_travel_with_their_hashes() -> None:
    data = Subscription("orders", " paid || sent ", 5).data()
    assert data.tags_set == ["paid", "sent"]
    assert data.code_set == [java_hash("paid"), java_hash("sent")]
    assert (data.expression_type, data.sub_version) == ("TAG", 5)


@pytest.mark.parametrize("expression", ["", "*", "  * "])
def test_everything_has_no_tags(expression: str) -> None:
    data = Subscription("orders", expression, 0).data()
    assert (data.sub_string, data.tags_set, data.code_set) == ("*", [], [])


def test_an_expression_without_a_tag_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="name none"):
        Subscription("orders", " || ", 0)


def test_sql_is_the_brokers_business() -> None:
    data = Subscription("orders", Sql("total > 100"), 0).data()
    assert (data.expression_type, data.sub_string) == ("SQL92", "total > 100")


def test_a_tag_with_the_same_hash_is_left_out() -> None:
    """`Aa` and `BB` have the same hash, which is all that a broker compares."""
    subscription = Subscription("orders", "Aa", 0)
    same, other, none = tagged("Aa"), tagged("BB"), tagged(None)
    assert subscription.wanted([same, other, none]) == [same]


def test_topics_may_be_given_in_three_ways() -> None:
    assert Subscriptions("orders").topics() == ["orders"]
    assert Subscriptions(["orders", "bills"]).topics() == ["orders", "bills"]
    by_tag = Subscriptions({"orders": "paid"}).get("orders")
    assert by_tag is not None
    assert by_tag.tags == {"paid"}


def test_a_namespace_is_part_of_the_wire_name_only() -> None:
    subscriptions = Subscriptions("orders", namespace="shop")
    assert subscriptions.topics() == ["shop%orders"]
    assert subscriptions.user_topics() == ["orders"]
    assert subscriptions.remove("orders")
    assert len(subscriptions) == 0


def test_a_changed_expression_has_a_newer_version() -> None:
    subscriptions = Subscriptions()
    first = subscriptions.add("orders", "paid", now_ms=1000)
    second = subscriptions.add("orders", "sent", now_ms=1000)
    assert second.version > first.version
    assert second.pull_version == second.version


def test_a_changed_assignment_does_not_hold_up_pulls() -> None:
    subscriptions = Subscriptions()
    subscription = subscriptions.add("orders", "paid", now_ms=1000)
    subscriptions.raise_version("orders", now_ms=2000)
    assert (subscription.version, subscription.pull_version) == (2000, 1000)


def test_a_name_no_broker_would_take_is_refused() -> None:
    with pytest.raises(InvalidName):
        Subscriptions("orders of today")

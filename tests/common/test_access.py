"""Policies and decisions: who may do what, and which entry counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.common.access import (
    Acl,
    Action,
    Entry,
    InvalidPolicy,
    Need,
    PolicyType,
    Resource,
    ResourceType,
    User,
    UserType,
    refusal,
)

ALICE = User("alice", "12345678")
HERE = "10.0.0.9"


def acl(*entries: tuple[str, str, str], default: tuple[tuple[str, str, str], ...] = ()) -> Acl:
    """Entries as (resource, actions, decision)."""
    made = Acl()
    for kind, given_entries in ((PolicyType.CUSTOM, entries), (PolicyType.DEFAULT, default)):
        parsed = [
            Entry.parse(resource, actions.split("|"), decision)
            for resource, actions, decision in given_entries
        ]
        made = made.merged(kind, parsed)
    return made


def may(policies: Acl | None, resource: str, action: str, address: str = HERE) -> bool:
    kind, _, name = resource.partition(":")
    need = Need(ResourceType(kind), name, frozenset({Action(action)}))
    return refusal(ALICE, policies, need, address) is None


def test_a_password_is_never_printed() -> None:
    assert "12345678" not in repr(ALICE)


def test_a_super_user_may_do_everything_and_others_nothing_without_policies() -> None:
    need = Need(ResourceType.TOPIC, "orders", frozenset({Action.PUB}))
    assert refusal(User("root", "x", UserType.SUPER), None, need, HERE) is None
    assert refusal(ALICE, None, need, HERE) == (
        "User:alice has no permission to access Topic:orders from 10.0.0.9, no matched policies."
    )


def test_an_entry_allows_its_actions_on_its_resource() -> None:
    policies = acl(("Topic:orders", "Pub|Sub", "Allow"))
    assert may(policies, "Topic:orders", "Pub")
    assert not may(policies, "Topic:orders", "Delete")
    assert not may(policies, "Topic:others", "Pub")
    assert not may(policies, "Group:orders", "Pub")


def test_all_stands_for_every_action() -> None:
    assert may(acl(("*", "All", "Allow")), "Cluster:c", "Update")


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([("Topic:*", "Pub", "Deny"), ("Topic:orders", "Pub", "Allow")], True),
        ([("Topic:*", "Pub", "Allow"), ("Topic:orders", "Pub", "Deny")], False),
        ([("Topic:ord*", "Pub", "Deny"), ("Topic:orde*", "Pub", "Allow")], True),
        ([("Topic:ord*", "Pub", "Allow"), ("*", "All", "Deny")], True),
        ([("*", "All", "Allow"), ("Topic:*", "Pub", "Deny")], False),
    ],
)
def test_the_most_exact_entry_decides(entries: list[tuple[str, str, str]], allowed: bool) -> None:
    assert may(acl(*entries), "Topic:orders", "Pub") is allowed


def test_default_entries_count_only_where_no_custom_one_does() -> None:
    policies = acl(("Topic:orders", "Pub", "Deny"), default=(("Topic:*", "All", "Allow"),))
    assert not may(policies, "Topic:orders", "Pub")
    assert may(policies, "Topic:orders", "Sub")
    assert may(policies, "Topic:others", "Pub")


def test_addresses_limit_an_entry() -> None:
    entry = Entry.parse("Topic:orders", ["Pub"], "Allow", ["10.0.0.0/24", "::1"])
    policies = Acl().merged(PolicyType.CUSTOM, [entry])
    assert may(policies, "Topic:orders", "Pub", "10.0.0.77")
    assert may(policies, "Topic:orders", "Pub", "::1")
    assert not may(policies, "Topic:orders", "Pub", "10.0.1.1")
    assert not may(policies, "Topic:orders", "Pub", "nonsense")


@pytest.mark.parametrize(
    "text", ["", "Topic", "Topic:", "Nothing:x", "Any:x", "Topic:" + "x" * 999]
)
def test_a_resource_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidPolicy):
        Resource.parse(text)


@given(
    st.sampled_from(["Topic", "Group", "Cluster"]),
    st.text("abc", min_size=1, max_size=5),
    st.booleans(),
)
def test_a_resource_is_read_back_from_its_text(kind: str, name: str, is_prefix: bool) -> None:
    text = f"{kind}:{name}{'*' if is_prefix else ''}"
    assert str(Resource.parse(text)) == text


def test_entries_of_the_same_resource_are_replaced_and_can_be_taken_away() -> None:
    policies = acl(("Topic:a", "Pub", "Allow"), ("Topic:b", "Pub", "Allow"))
    changed = policies.merged(PolicyType.CUSTOM, [Entry.parse("Topic:a", ["Sub"], "Allow")])
    assert not may(changed, "Topic:a", "Pub")
    assert may(changed, "Topic:b", "Pub")
    assert not may(changed.without(None, Resource.parse("Topic:b")), "Topic:b", "Pub")
    assert changed.without(None, None).is_empty


@pytest.mark.parametrize(
    ("actions", "decision", "sources"),
    [([], "Allow", []), (["Fly"], "Allow", []), (["Pub"], "Maybe", []), (["Pub"], "Deny", ["*"])],
)
def test_an_entry_that_means_nothing_is_refused(
    actions: list[str], decision: str, sources: list[str]
) -> None:
    with pytest.raises(InvalidPolicy):
        Entry.parse("Topic:a", actions, decision, sources)

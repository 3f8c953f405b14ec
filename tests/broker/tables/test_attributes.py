"""Changes of attributes: what is taken, what is refused."""

import pytest

from rocketq.broker.tables.attributes import (
    TOPIC_ATTRIBUTES,
    InvalidAttribute,
    apply_changes,
    parse_changes,
)


def test_a_list_of_changes_keeps_the_signs() -> None:
    assert parse_changes("+message.type=FIFO, -reserve.time") == {
        "+message.type": "FIFO",
        "-reserve.time": "",
    }
    assert parse_changes("") == {}


@pytest.mark.parametrize(
    "text", ["message.type=FIFO", "reserve.time", "+a=b=c", "+a=1,+a=2", "+a=1,,+b=2"]
)
def test_a_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidAttribute):
        parse_changes(text)


def test_what_is_stored_carries_no_sign() -> None:
    made = apply_changes(TOPIC_ATTRIBUTES, None, {"+message.type": "FIFO"})
    assert made == {"message.type": "FIFO"}

    changed = apply_changes(TOPIC_ATTRIBUTES, made, {"+message.type": "DELAY"})
    assert changed == {"message.type": "DELAY"}

    assert apply_changes(TOPIC_ATTRIBUTES, changed, {"-message.type": ""}) == {}


@pytest.mark.parametrize(
    ("current", "changes"),
    [
        (None, {"+no.such": "1"}),
        (None, {"+message.type": "PINK"}),
        (None, {"+reserve.time": "soon"}),
        (None, {"+reserve.time": "-2"}),
        (None, {"-message.type": ""}),
        ({}, {"-message.type": ""}),
        ({}, {"+queue.type": "BatchCQ"}),
        ({"cleanup.policy": "DELETE"}, {"-cleanup.policy": ""}),
        ({}, {"message.type": "FIFO"}),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}),
    ],
)
def test_changes_that_cannot_be_made_are_refused(
    current: dict[str, str] | None, changes: dict[str, str]
) -> None:
    with pytest.raises(InvalidAttribute):
        apply_changes(TOPIC_ATTRIBUTES, current, changes)

"""Every page in a real browser, against a real broker."""

import json
from typing import Any

import pytest

from rocketq.testing import LocalBroker
from tests.cli.programs import run
from tests.console.browser import ARTIFACTS, PHONE, Browser
from tests.console.sample import Shop
from tests.waiting import wait_until


def said(broker: LocalBroker, *words: str) -> Any:
    """What a command says, as data."""
    done = run(*words, "-n", broker.namesrv, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def cells(browser: Browser, table: str, name: str) -> list[str]:
    """The row that begins with a name."""

    def found() -> list[str] | None:
        return next((row for row in browser.rows(table) if row and row[0] == name), None)

    row = wait_until(found, f"{name} in {table}: {browser.rows(table)}")
    assert row is not None
    return row


# The pages


def test_the_overview_says_what_goes_in_and_out(browser: Browser, url: str) -> None:
    browser.open(url)
    browser.wait_for("1 / 1", ".r-figure-brokers")
    browser.wait_for("all answer", ".r-figure-brokers")
    assert cells(browser, ".r-brokers", "broker-a")[1] == "master"
    browser.wait_for("of 3 groups behind", ".r-figure-lag")
    assert cells(browser, ".r-behind", "warehouse")
    browser.one(".r-rates canvas, .r-rates svg")
    browser.picture(ARTIFACTS / "overview.png")


def test_topics_are_filtered_by_kind_and_name(browser: Browser, url: str) -> None:
    browser.open(f"{url}/topics")
    assert cells(browser, ".r-topics", "ledger")[1] == "Fifo"
    assert not any(row[0].startswith("%DLQ%") for row in browser.rows(".r-topics"))

    browser.click(".r-chip-dlq")
    cells(browser, ".r-topics", "%DLQ%labels")
    browser.type(".r-filter", "ORD")
    wait_until(lambda: [row[0] for row in browser.rows(".r-topics")] == ["orders"], "orders alone")
    browser.picture(ARTIFACTS / "topics.png")


def test_a_topic_is_made_changed_and_deleted(
    browser: Browser, url: str, broker: LocalBroker
) -> None:
    browser.open(f"{url}/topics")
    browser.click(".r-new-topic")
    browser.type(".r-topic-name", "no such name!")
    browser.click(".r-confirm")
    browser.wait_for("letters, digits", ".r-problem")
    browser.type(".r-topic-name", "returns")
    browser.type(".r-write", "3")
    browser.type(".r-read", "3")
    browser.click(".r-confirm")
    assert cells(browser, ".r-topics", "returns")[2] == "3"
    assert len(said(broker, "topic", "describe", "returns")["queues"]) == 3

    browser.open(f"{url}/topic?name=returns")
    browser.click(".r-change")
    browser.type(".r-write", "5")
    browser.type(".r-read", "5")
    browser.click(".r-confirm")
    wait_until(lambda: len(browser.rows(".r-queues")) == 5, "five queues")

    browser.click(".r-delete")
    browser.wait_for("All messages of returns are lost", ".r-dialog")
    browser.click(".r-dialog .r-confirm")
    wait_until(lambda: browser.where.endswith("/topics"), "back at the list")
    assert "returns" not in [row["topic"] for row in said(broker, "topic", "list")]


def test_a_dialog_that_is_cancelled_changes_nothing(
    browser: Browser, url: str, broker: LocalBroker
) -> None:
    browser.open(f"{url}/topic?name=ledger")
    browser.click(".r-delete")
    browser.click(".r-dialog .r-cancel")
    browser.wait_for_none(".r-dialog")
    assert "ledger" in [row["topic"] for row in said(broker, "topic", "list")]


def test_a_message_is_sent_and_found_by_its_key(browser: Browser, url: str) -> None:
    browser.open(f"{url}/topic?name=ledger")
    browser.click(".r-send")
    browser.type(".r-tag", "test")
    browser.type(".r-keys", "from-the-console")
    browser.type(".r-message-body", '{"a": [1, 2]}')
    browser.click(".r-confirm")
    browser.wait_for("SEND_OK", ".q-notification")
    browser.wait_for("1", ".r-figure-messages .r-figure-value")
    browser.picture(ARTIFACTS / "topic.png")

    browser.open(f"{url}/messages?by=key&key=from-the-console&topic=ledger")
    wait_until(lambda: len(browser.rows(".r-messages")) == 1, "the message")
    browser.click(".r-messages .r-link")
    browser.wait_for('"a": [\n    1,\n    2\n  ]', ".r-body-json")
    browser.click(".r-tab-hex")
    browser.wait_for("00000000  7b 22 61 22", ".r-body-hex")


def test_a_group_shows_its_lag_and_who_reads(
    browser: Browser, url: str, broker: LocalBroker
) -> None:
    browser.open(f"{url}/groups")
    assert cells(browser, ".r-groups", "billing")[1] == "online"
    assert cells(browser, ".r-groups", "warehouse")[1] == "offline"
    browser.picture(ARTIFACTS / "groups.png")

    browser.open(f"{url}/group?name=billing")
    wait_until(lambda: len(browser.rows(".r-members")) == 1, "its member")
    browser.one(".r-lag-bars canvas, .r-lag-bars svg")
    browser.click(".r-compare")
    browser.wait_for("All members subscribe to the same", ".r-compared")
    browser.wait_for("orders TAG paid || sent", ".r-compared")
    browser.picture(ARTIFACTS / "group.png")


def test_offsets_are_reset_and_skipped(browser: Browser, url: str, broker: LocalBroker) -> None:
    browser.open(f"{url}/group?name=warehouse")
    cells(browser, ".r-subscriptions", "orders")
    browser.click(".r-subscriptions .act-reset")
    browser.click(".r-confirm")
    browser.wait_for("102", ".r-figure-lag .r-figure-value")
    browser.wait_for_none(".r-dialog")
    browser.click(".r-subscriptions .act-skip")
    browser.wait_for("warehouse will never read", ".r-dialog")
    browser.click(".r-dialog .r-confirm")
    wait_until(lambda: browser.text(".r-figure-lag .r-figure-value") == "0", "nothing left")


def test_messages_are_found_by_time_and_by_id(browser: Browser, url: str, filled: Shop) -> None:
    browser.open(f"{url}/messages?topic=orders")
    wait_until(lambda: len(browser.rows(".r-messages")) == 25, "a page of messages")
    browser.wait_for("102 found", ".r-result-note")
    browser.picture(ARTIFACTS / "messages.png")

    browser.type(".r-search", filled.ids[1])
    browser.enter(".r-search")
    wait_until(lambda: len(browser.rows(".r-messages")) == 1, "the message")
    browser.click(".r-messages .r-link")
    browser.wait_for('"order": 4201', ".r-body-json")
    browser.wait_for("consumed", ".r-tracks")
    browser.wait_for("sent by shop", ".r-timeline")
    browser.wait_for("consumed by billing", ".r-timeline")
    browser.picture(ARTIFACTS / "message.png")


def test_a_message_that_is_not_there_says_so(browser: Browser, url: str) -> None:
    browser.open(f"{url}/message?topic=orders&id=00000000000000000000000000000000")
    browser.wait_for("not there", ".r-empty")


def test_a_topic_that_is_not_there_says_so(browser: Browser, url: str) -> None:
    browser.open(f"{url}/topic?name=nothing")
    browser.wait_for("no broker serves the topic nothing", ".r-trouble")


# Numbers


def test_numbers_are_those_of_mqadmin(browser: Browser, url: str, broker: LocalBroker) -> None:
    browser.open(f"{url}/topic?name=orders")
    wait_until(lambda: len(browser.rows(".r-queues")) == 4, "four queues")
    wanted = [
        [row["broker"], *(f"{row[key]:,}" for key in ("queue", "first", "end"))]
        for row in said(broker, "topic", "describe", "orders")["queues"]
    ]
    assert [row[:4] for row in browser.rows(".r-queues")] == wanted

    browser.open(f"{url}/group?name=billing")
    lag = said(broker, "group", "lag", "billing")["queues"]
    wait_until(lambda: len(browser.rows(".r-queues")) >= len(lag), "its queues")
    shown = {(row[0], row[2]): row[3:6] for row in browser.rows(".r-queues")}
    for row in lag:
        place = (row["topic"], str(row["queue"]))
        assert shown[place] == [f"{row[key]:,}" for key in ("end", "at", "behind")]


# Phones


@pytest.fixture
def phone(browser: Browser) -> Any:
    browser.resize(PHONE, is_phone=True)
    yield browser
    browser.resize((1366, 860))


@pytest.mark.parametrize("path", ["/", "/topics", "/topic?name=orders", "/groups", "/messages"])
def test_a_page_fits_on_a_phone(phone: Browser, url: str, path: str) -> None:
    phone.open(url + path)
    phone.one(".r-menu-button")
    phone.one(".r-card")
    overhang = phone.run(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overhang == 0

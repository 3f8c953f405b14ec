"""Every page in a real browser, against a real broker."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from rocketq import Message, TransactionProducer, TransactionState
from rocketq.testing import LocalBroker
from tests.cli.programs import run
from tests.console.browser import ARTIFACTS, PHONE, Browser
from tests.console.sample import HOSTILE, Shop
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
    browser.click(".r-change")
    browser.wait_for("no broker serves the topic nothing", ".q-notification")


def test_the_cluster_and_the_settings_of_a_broker(
    browser: Browser, url: str, broker: LocalBroker
) -> None:
    browser.open(f"{url}/cluster")
    wait_until(lambda: any("broker-a" in row for row in browser.rows(".r-brokers")), "the broker")
    browser.picture(ARTIFACTS / "cluster.png")
    browser.click(".r-brokers .r-link")
    browser.type(".r-filter", "fileReservedTime")
    wait_until(lambda: len(browser.rows(".r-settings")) == 1, "one setting")
    browser.click(".r-settings .act-edit")
    browser.type(".r-setting-value", "71")
    browser.click(".r-confirm")
    wait_until(lambda: browser.rows(".r-settings")[0][1] == "71", "the new value")
    assert said(broker, "cluster", "config", "broker-a", "fileReservedTime") == "71"
    browser.picture(ARTIFACTS / "broker.png")


def test_a_setting_that_cannot_be_changed_is_refused(browser: Browser, url: str) -> None:
    browser.open(f"{url}/cluster")
    browser.click(".r-brokers .r-link")
    browser.type(".r-filter", "brokerClusterName")
    wait_until(lambda: len(browser.rows(".r-settings")) == 1, "one setting")
    browser.click(".r-settings .act-edit")
    browser.type(".r-setting-value", "Another")
    browser.click(".r-confirm")
    browser.one(".q-notification.bg-negative")
    wait_until(lambda: browser.rows(".r-settings")[0][1] == "DefaultCluster", "the old value")


def test_a_client_shows_its_queues_and_its_threads(browser: Browser, url: str) -> None:
    browser.open(f"{url}/group?name=billing")
    browser.click(".r-members .r-link")
    wait_until(lambda: any(row[0] == "orders" for row in browser.rows(".r-queues")), "its queues")
    wait_until(lambda: len(browser.rows(".r-subscriptions")) == 2, "its subscriptions")
    browser.click(".r-stacks")
    browser.wait_for("File ", ".r-stack-text")
    browser.picture(ARTIFACTS / "client.png")


def test_producers_are_listed(browser: Browser, url: str) -> None:
    browser.open(f"{url}/producers")
    assert cells(browser, ".r-producers", "shop")[3] == "PYTHON"
    browser.picture(ARTIFACTS / "producers.png")


def test_dead_letters_are_found_and_given_back(
    browser: Browser, url: str, broker: LocalBroker
) -> None:
    browser.open(f"{url}/dead-letters?group=labels")
    wait_until(lambda: len(browser.rows(".r-letters")) == 12, "twelve letters")
    assert {row[4] for row in browser.rows(".r-letters")} == {"parcels"}
    browser.picture(ARTIFACTS / "dead-letters.png")

    browser.type(".r-contains", "P7")
    browser.click(".r-find")
    wait_until(lambda: len(browser.rows(".r-letters")) == 1, "one letter")
    browser.click(".r-letters tbody .q-checkbox")
    browser.click(".r-give-back")
    browser.wait_for("1 messages go to labels again", ".r-dialog")
    browser.click(".r-dialog .r-confirm")

    # It fails again, and is a dead letter once more.
    def letters() -> int:
        rows = said(broker, "topic", "list", "--all")
        return next(row["messages"] for row in rows if row["topic"] == "%DLQ%labels")

    wait_until(lambda: letters() == 13, "the thirteenth letter")


def test_delays_and_timers_are_counted(browser: Browser, url: str) -> None:
    browser.open(f"{url}/waiting")
    assert cells(browser, ".r-timed", "reminders")[2] == "1"
    assert cells(browser, ".r-levels", "broker-a")[1:4] == ["14", "10m", "1"]
    browser.wait_for("0", ".r-figure-undecided .r-figure-value")
    browser.picture(ARTIFACTS / "waiting.png")


def test_an_undecided_transaction_is_shown(browser: Browser, url: str, broker: LocalBroker) -> None:
    producer = TransactionProducer("bank", namesrv=broker.namesrv)

    @producer.on_execute
    def book(message: Message, decision: TransactionState | None) -> TransactionState | None:
        return decision

    @producer.on_check
    def is_booked(message: Message) -> None:
        return None

    with producer:
        producer.send_in_transaction(Message("transfers", b"100"), None)
        producer.send_in_transaction(Message("transfers", b"200"), TransactionState.COMMIT)
        browser.open(f"{url}/waiting")
        wait_until(lambda: len(browser.rows(".r-transactions")) == 1, "one transaction")
        row = browser.rows(".r-transactions")[0]
        assert row[3:5] == ["transfers", "bank"]


def test_what_moves_without_members_is_a_query(browser: Browser, url: str) -> None:
    browser.open(f"{url}/spark")
    row = cells(browser, ".r-queries", "warehouse")
    assert row[1] in ("stands still", "has read everything", "moves")
    assert row[-1] == "orders"
    browser.picture(ARTIFACTS / "spark.png")


def test_name_servers_keep_what_they_are_told(browser: Browser, url: str) -> None:
    browser.open(f"{url}/settings")
    browser.wait_for("answers", ".r-servers")
    browser.click(".r-new-entry")
    browser.type(".r-entry-key", "ledger")
    browser.type(".r-entry-value", "broker-a:2")
    browser.click(".r-confirm")
    wait_until(lambda: len(browser.rows(".r-kept")) == 1, "the entry")
    browser.picture(ARTIFACTS / "settings.png")
    browser.wait_for_none(".r-dialog")
    browser.click(".r-kept .act-delete")
    browser.click(".r-dialog .r-confirm")
    browser.wait_for("ordered topics and the like", ".r-kept")


# Hostile contents


def test_what_messages_hold_is_text_to_the_browser(browser: Browser, url: str) -> None:
    browser.open(f"{url}/messages?by=key&key=hostile&topic=orders")
    browser.wait_for("<script>window.hacked=1</script>{{7*7}}", ".r-messages")
    browser.click(".r-messages .r-link")
    browser.wait_for(HOSTILE, ".r-body-text")
    browser.wait_for(HOSTILE, ".r-properties")
    assert browser.run("return window.hacked") is None
    assert "49" not in browser.text(".r-body-text")


@pytest.mark.parametrize(
    "path",
    [
        "topic?name={}",
        "group?name={}",
        "client?group={}&id={}",
        "broker?address={}",
        "topics?q={}",
        "message?topic={}&id={}",
        "messages?topic={}&by=id&id={}",
        "dead-letters?group={}",
    ],
)
def test_names_in_a_link_are_text_to_the_browser(browser: Browser, url: str, path: str) -> None:
    word = quote(HOSTILE)
    browser.open(f"{url}/{path.format(word, word)}")
    browser.one(".r-card, .r-trouble")
    assert browser.run("return window.hacked") is None
    assert browser.run("return document.querySelectorAll('img[onerror]').length") == 0
    browser.problems()  # what is not there is said on the page


# Languages and themes


def test_the_console_speaks_chinese_when_asked(browser: Browser, url: str) -> None:
    browser.open(f"{url}/topics")
    browser.click(".r-lang")
    browser.wait_for("主题", ".r-h1")
    browser.wait_for("新建主题", ".r-new-topic")
    browser.click(".r-lang")
    browser.wait_for("Topics", ".r-h1")


def test_the_theme_is_kept_for_the_next_page(browser: Browser, url: str) -> None:
    browser.open(f"{url}/topics")
    browser.one(".r-topics")
    before = browser.run("return document.documentElement.dataset.theme")
    browser.click(".r-theme")
    after = browser.run("return document.documentElement.dataset.theme")
    assert {before, after} == {"light", "dark"}
    browser.open(f"{url}/groups")
    browser.one(".r-groups")
    assert browser.run("return document.documentElement.dataset.theme") == after


# Numbers


def printed(broker: LocalBroker, *words: str) -> list[list[str]]:
    """The rows of a table that mqadmin prints."""
    done = run("admin", *words, "-n", broker.namesrv)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    return [row for row in rows if "broker-a" in row]


def test_numbers_are_those_of_mqadmin(browser: Browser, url: str, broker: LocalBroker) -> None:
    browser.open(f"{url}/topic?name=orders")
    wait_until(lambda: len(browser.rows(".r-queues")) == 4, "four queues")
    wanted = [row[:4] for row in printed(broker, "topicStatus", "-t", "orders")]
    assert [row[:4] for row in browser.rows(".r-queues")] == wanted

    browser.open(f"{url}/group?name=billing")
    progress = printed(broker, "consumerProgress", "-g", "billing")
    wait_until(lambda: len(browser.rows(".r-queues")) == len(progress), "its queues")
    # Topic, broker, queue, end, offset, lag.
    assert sorted(row[:6] for row in browser.rows(".r-queues")) == sorted(
        row[:6] for row in progress
    )
    browser.open(f"{url}/groups")
    (group,) = [
        line.split()
        for line in run("admin", "consumerProgress", "-n", broker.namesrv).stdout.splitlines()
        if line.startswith("billing ")
    ]
    row = cells(browser, ".r-groups", "billing")
    assert (row[2], row[3]) == (group[1], group[-1])


# Phones


@pytest.fixture
def phone(browser: Browser) -> Any:
    browser.resize(PHONE, is_phone=True)
    yield browser
    browser.resize((1366, 860))


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/cluster",
        "/topics",
        "/topic?name=orders",
        "/groups",
        "/group?name=billing",
        "/messages",
        "/dead-letters",
        "/waiting",
        "/users",
        "/settings",
    ],
)
def test_a_page_fits_on_a_phone(phone: Browser, url: str, path: str) -> None:
    phone.open(url + path)
    phone.one(".r-menu-button")
    phone.one(".r-card")
    overhang = phone.run(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overhang == 0


@pytest.mark.parametrize(
    ("path", "table"),
    [
        ("/groups", ".r-groups"),
        ("/topics", ".r-topics"),
        ("/dead-letters?group=labels", ".r-letters"),
    ],
)
def test_the_buttons_of_a_row_are_in_sight_on_a_phone(
    phone: Browser, url: str, path: str, table: str
) -> None:
    phone.open(url + path)
    phone.one(f"{table} .r-actions .q-btn")
    right = phone.run(
        f"return document.querySelector('{table} .r-actions').getBoundingClientRect().right"
    )
    assert isinstance(right, int | float)
    assert right <= PHONE[0]

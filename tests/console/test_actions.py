"""What can be done on a page, each in a real browser: asked for once, done, and written down."""

import json
from collections.abc import Callable
from typing import Any

from rocketq import Message, Producer
from rocketq.testing import LocalBroker
from tests.cli.programs import run
from tests.console.browser import Browser
from tests.console.sample import Shop
from tests.waiting import wait_until

Audited = Callable[[str], None]


def said(broker: LocalBroker, *words: str) -> Any:
    """What a command says, as data."""
    done = run(*words, "-n", broker.namesrv, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def row_of(browser: Browser, table: str, name: str) -> list[str]:
    def found() -> list[str] | None:
        return next((row for row in browser.rows(table) if name in row), None)

    row = wait_until(found, f"{name} in {table}: {browser.rows(table)}")
    assert row is not None
    return row


def act(browser: Browser, table: str, name: str, action: str) -> None:
    """Click on an action of the row with a name."""
    row_of(browser, table, name)
    number = next(at for at, row in enumerate(browser.rows(table), 1) if name in row)
    browser.click(f"{table} tbody tr:nth-child({number}) .act-{action}")


# Messages


def test_a_message_is_exported_sent_again_and_consumed_directly(
    browser: Browser, url: str, broker: LocalBroker, filled: Shop, audited: Audited
) -> None:
    known = filled.ids[5]
    browser.open(f"{url}/message?topic=orders&id={known}")
    browser.click(".r-export")
    kept = json.loads(browser.downloaded(f"{known}.json"))
    assert (kept["msgId"], kept["topic"], kept["keys"]) == (known, "orders", ["4205"])
    assert json.loads(kept["body"])["order"] == 4205

    browser.click(".r-resend")
    browser.wait_for("A copy goes to orders", ".r-dialog")
    browser.click(".r-dialog .r-confirm")
    audited(f"Message sent again: '{known} to orders'")
    words = ("admin", "queryMsgByKey", "-t", "orders", "-k", "4205")
    wait_until(lambda: len(said(broker, *words)) == 2, "the copy")

    browser.wait_for_none(".r-dialog")
    browser.click(".r-consume")
    browser.wait_for("Who shall consume it now?", ".r-dialog")
    browser.wait_for("billing: ", ".r-dialog")
    browser.click(".r-dialog .r-confirm")
    browser.wait_for("CR_SUCCESS", ".q-notification")
    audited(f"Message consumed directly: '{known} by ")


def test_messages_that_were_found_are_exported(browser: Browser, url: str, filled: Shop) -> None:
    browser.open(f"{url}/messages?by=key&key=binary&topic=orders")
    wait_until(lambda: len(browser.rows(".r-messages")) == 1, "the message")
    browser.click(".r-export")
    (line,) = browser.downloaded("messages.jsonl").splitlines()
    assert json.loads(line)["bodyBase64"].startswith("AAECAwQF")


def test_older_messages_follow_the_newest(browser: Browser, url: str, broker: LocalBroker) -> None:
    with Producer("many", namesrv=broker.namesrv) as producer:
        for number in range(230):
            producer.send(Message("parcels-of-old", f"{number}".encode()))
    browser.open(f"{url}/messages?topic=parcels-of-old")
    browser.wait_for("200 found", ".r-result-note")
    browser.click(".r-older")
    browser.wait_for("230 found", ".r-result-note")


def test_many_dead_letters_are_exported_and_given_back(
    browser: Browser, url: str, broker: LocalBroker, audited: Audited
) -> None:
    def letters() -> int:
        rows = said(broker, "topic", "list", "--all")
        return next(int(row["messages"]) for row in rows if row["topic"] == "%DLQ%labels")

    browser.open(f"{url}/dead-letters?group=labels")
    browser.type(".r-contains", "parcel 1")
    browser.click(".r-find")
    wait_until(lambda: len(browser.rows(".r-letters")) == 3, "1, 10 and 11")
    browser.click(".r-export")
    exported = browser.downloaded("dead-letters-labels.jsonl").splitlines()
    assert sorted(json.loads(line)["body"] for line in exported) == [
        *("parcel 1", "parcel 10", "parcel 11")
    ]
    before = letters()
    browser.click(".r-letters thead .q-checkbox")
    browser.click(".r-give-back")
    browser.wait_for("3 messages go to labels again", ".r-dialog")
    browser.click(".r-dialog .r-confirm")
    audited("Dead letters given back: '3 of labels'")
    # They fail again, and are dead letters once more.
    wait_until(lambda: letters() == before + 3, "three more")


# Topics and groups


def test_a_topic_says_where_it_is_and_lets_its_readers_be_moved(
    browser: Browser, url: str, audited: Audited
) -> None:
    browser.open(f"{url}/topic?name=parcels")
    row = row_of(browser, ".r-route", "broker-a")
    assert row[0] == "DefaultCluster"
    assert row[-2:] == ["2 / 2", "RW"]
    row_of(browser, ".r-consumers", "labels")
    act(browser, ".r-consumers", "labels", "reset")
    browser.click(".r-dialog .r-confirm")
    audited("Offsets reset: 'labels in parcels to earliest'")
    browser.wait_for_none(".r-dialog")
    act(browser, ".r-consumers", "labels", "skip")
    browser.wait_for("labels will never read", ".r-dialog")
    browser.click(".r-dialog .r-confirm")
    audited("Messages skipped: 'labels in parcels'")


def test_a_group_is_made_changed_and_deleted(
    browser: Browser, url: str, broker: LocalBroker, audited: Audited
) -> None:
    browser.open(f"{url}/groups")
    browser.click(".r-new-group")
    browser.type(".r-group-name", "no such name!")
    browser.click(".r-confirm")
    browser.wait_for("letters, digits", ".r-problem")
    browser.type(".r-group-name", "auditors")
    browser.type(".r-retries", "3")
    browser.click(".r-confirm")
    audited("Group created: 'auditors'")

    def retries() -> str:
        return str(said(broker, "group", "describe", "auditors")[0]["settings"]["retryMaxTimes"])

    assert retries() == "3"
    browser.open(f"{url}/group?name=auditors")
    browser.click(".r-change")
    browser.type(".r-retries", "5")
    browser.click(".r-confirm")
    audited("Group changed: 'auditors'")
    assert retries() == "5"

    browser.wait_for_none(".r-dialog")
    browser.click(".r-delete")
    browser.wait_for("auditors forgets how far it has read", ".r-dialog")
    browser.click(".r-dialog .r-confirm")
    audited("Group deleted: 'auditors'")
    wait_until(lambda: browser.where.endswith("/groups"), "back at the list")


# Brokers and NameServers


def test_producers_are_kept_off_a_broker_and_let_in_again(
    browser: Browser, url: str, broker: LocalBroker, audited: Audited
) -> None:
    def rights() -> int:
        (queues,) = said(broker, "admin", "topicRoute", "-t", "orders")["queueDatas"]
        return int(queues["perm"])

    browser.open(f"{url}/cluster")
    try:
        act(browser, ".r-brokers", "broker-a", "close")
        browser.wait_for("no longer offer broker-a to producers", ".r-dialog")
        browser.click(".r-dialog .r-confirm")
        audited("Write permission taken: 'broker-a'")
        wait_until(lambda: rights() == 4, "reading alone")
    finally:
        browser.wait_for_none(".r-dialog")
        act(browser, ".r-brokers", "broker-a", "open")
        browser.click(".r-dialog .r-confirm")
    audited("Write permission given: 'broker-a'")
    wait_until(lambda: rights() == 6, "both")


def test_a_broker_cleans_up_when_asked(browser: Browser, url: str, audited: Audited) -> None:
    browser.open(f"{url}/cluster")
    browser.click(".r-brokers .r-link")
    row_of(browser, ".r-runtime", "bootTimestamp")
    browser.click(".r-clean")
    browser.click(".r-dialog .r-confirm")
    audited("Expired queues cleaned: ")


def test_an_option_of_name_servers_is_changed(
    browser: Browser, url: str, broker: LocalBroker, audited: Audited
) -> None:
    browser.open(f"{url}/settings")
    browser.type(".r-filter", "waitSecondsForService")
    wait_until(lambda: len(browser.rows(".r-options")) == 1, "one option")
    browser.click(".r-options .act-edit")
    browser.type(".r-setting-value", "46")
    browser.click(".r-dialog .r-confirm")
    audited("NameServer setting changed: 'waitSecondsForService=46'")
    wait_until(lambda: "46" in browser.rows(".r-options")[0], "the new value")
    configs = run("admin", "getNamesrvConfig", "-n", broker.namesrv).stdout
    assert any(line.split()[-1:] == ["46"] for line in configs.splitlines())


# The overview


def test_charts_go_back_as_far_as_they_are_told(browser: Browser, url: str) -> None:
    browser.open(url)
    browser.one(".r-rates canvas, .r-rates svg")
    for span in ("6 h", "1 h", "15 min", "5 min"):
        (choice,) = [each for each in browser.all(".r-spans button") if each.text == span]
        choice.click()
        chosen = ".r-spans [aria-pressed=true]"
        wait_until(lambda: browser.text(chosen) == span, f"{span}: {browser.text(chosen)}")  # noqa: B023
    browser.one(".r-rates canvas, .r-rates svg")

"""What is written down, and what a read-only console leaves undone."""

import re
from pathlib import Path

from rocketq.testing import LocalBroker
from tests.cli.programs import run, serving
from tests.console.browser import Browser
from tests.console.sample import Shop
from tests.waiting import wait_until


def test_every_change_is_a_line_of_the_audit_log(
    browser: Browser, broker: LocalBroker, filled: Shop, tmp_path: Path
) -> None:
    log = tmp_path / "console.log"
    with serving("console", "-n", broker.namesrv, "--port", "0", "--log-file", str(log)) as server:
        url = server.facts["console"]
        browser.open(f"{url}/topics")
        browser.click(".r-new-topic")
        browser.type(".r-topic-name", "audited")
        browser.click(".r-confirm")
        wait_until(lambda: any(r[0] == "audited" for r in browser.rows(".r-topics")), "audited")
        browser.open("about:blank")
        assert server.stop() == 0
    pattern = r"INFO +rocketq.audit: console: Topic created: 'audited' by '-' from 127.0.0.1"
    assert re.search(pattern, log.read_text())


def test_a_read_only_console_has_nothing_to_change_with(
    browser: Browser, broker: LocalBroker, filled: Shop
) -> None:
    with serving("console", "-n", broker.namesrv, "--port", "0", "--read-only") as server:
        url = server.facts["console"]
        browser.open(f"{url}/topics")
        browser.wait_for("read-only", ".r-header")
        wait_until(lambda: any(r[0] == "orders" for r in browser.rows(".r-topics")), "orders")
        assert browser.all(".r-new-topic, .act-delete") == []
        for path in ("/topic?name=orders", "/group?name=billing", "/users", "/settings"):
            browser.open(url + path)
            browser.one(".r-card")
            assert browser.all(".r-send, .r-change, .r-delete, .r-new-user, .r-new-entry") == []
        browser.open("about:blank")
    listed = run("topic", "list", "-n", broker.namesrv)
    assert "orders" in listed.stdout

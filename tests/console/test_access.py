"""Who is let in, and what they may do: a cluster that wants signatures."""

import asyncio
import http.client
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from rocketq.admin import access, connected
from rocketq.console.access import Access, LoginRefused, Role, role_by_policies
from rocketq.remoting.bodies.access import AclInfo, Policy, PolicyEntry, UserInfo
from tests.cli.programs import Server, serving
from tests.console.browser import ARTIFACTS, Browser
from tests.waiting import wait_until

ROOT = ("root", "rootpass")
VIEWER = ("vera", "verapass")
OPERATOR = ("otto", "ottopass")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cluster with three users."""
    first = json.dumps({"username": ROOT[0], "password": ROOT[1]})
    inner = json.dumps({"accessKey": "inner", "secretKey": "innerpass"})
    with serving(
        "up",
        *("--dir", str(tmp_path_factory.mktemp("guarded"))),
        *("--namesrv-port", "0", "--broker-port", "0"),
        *("--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true"),
        *("--set", f"initAuthenticationUser={first}"),
        *("--set", f"innerClientAuthenticationCredentials={inner}"),
    ) as server:
        asyncio.run(_make_users(server.facts["namesrv"]))
        yield server


async def _make_users(namesrv: str) -> None:
    everything = ["Topic:*", "Group:*"]
    async with connected(namesrv, credentials=ROOT) as api:
        for (name, password), entries in (
            (VIEWER, [("Cluster:*", ["Get"]), *((each, ["Get", "Sub"]) for each in everything)]),
            (
                OPERATOR,
                [
                    ("Cluster:*", ["Get"]),
                    *((each, ["Get", "Sub", "Pub", "Create", "Delete"]) for each in everything),
                ],
            ),
        ):
            for address in await access.holders(api):
                info = UserInfo(username=name, password=password)
                await access.create_user(api, address, info)
                for resource, actions in entries:
                    entry = PolicyEntry(resource=resource, actions=actions, decision="Allow")
                    await access.create_acl(api, address, access.subject_of(name), entry)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "console.log"


@pytest.fixture(scope="module")
def url(guarded: Server, log: Path) -> Iterator[str]:
    where = ("-n", guarded.facts["namesrv"], "--port", "0", "--log-file", str(log))
    with serving("console", *where) as console:
        yield console.facts["console"]


def ask(
    url: str, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def login(url: str, user: str, password: str, **headers: str) -> tuple[int, dict[str, str], str]:
    form = urlencode({"user": user, "password": password})
    content = {"Content-Type": "application/x-www-form-urlencoded"}
    return ask(url, "POST", "/login", form, **content, **headers)


# Over HTTP


def test_nothing_is_shown_without_a_login(url: str) -> None:
    for path in ("/", "/topics", "/message?topic=a&id=b", "/users"):
        status, headers, body = ask(url, "GET", path)
        assert (status, headers["location"]) == (303, "/login")
        assert body == ""


def test_a_session_is_a_cookie_that_scripts_cannot_read(url: str) -> None:
    status, headers, _ = login(url, *ROOT)
    cookie = headers["set-cookie"]
    assert status == 303
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    token = cookie.split(";")[0]
    assert ask(url, "GET", "/topics", Cookie=token)[0] == 200
    assert ask(url, "GET", "/topics", Cookie=token + "x")[0] == 303

    assert ask(url, "GET", "/logout", Cookie=token)[0] == 303
    assert ask(url, "GET", "/topics", Cookie=token)[0] == 303


def test_a_wrong_password_and_an_unknown_user_look_alike(url: str) -> None:
    wrong = login(url, ROOT[0], "guess")
    unknown = login(url, "nobody", "guess")
    assert wrong[0] == unknown[0] == 401
    assert wrong[2] == unknown[2]
    assert "set-cookie" not in wrong[1]


def test_other_sites_are_kept_out(url: str) -> None:
    host = urlsplit(url).netloc
    assert ask(url, "GET", "/login", Host=host)[0] == 200
    assert ask(url, "GET", "/login", Host="evil.example")[0] == 403
    assert ask(url, "GET", "/login", Host=host, Origin="http://evil.example")[0] == 403
    assert login(url, *ROOT, Origin="http://evil.example")[0] == 403
    assert login(url, *ROOT, Origin=url)[0] == 303


def test_a_web_socket_needs_our_origin_and_a_session(url: str) -> None:
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    token = login(url, *ROOT)[1]["set-cookie"].split(";")[0]
    assert ask(url, "GET", path, **upgrade, Origin=url)[0] == 403
    assert ask(url, "GET", path, **upgrade, Origin="http://evil.example", Cookie=token)[0] == 403


def test_browsers_are_told_to_load_nothing_from_elsewhere(url: str) -> None:
    _, headers, _ = ask(url, "GET", "/login")
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


# In a browser


def log_in(browser: Browser, url: str, who: tuple[str, str]) -> None:
    browser.open(f"{url}/login")
    browser.one("[name=user]").send_keys(who[0])
    browser.one("[name=password]").send_keys(who[1])
    browser.click("button[type=submit]")
    browser.wait_for("1 / 1", ".r-figure-brokers")


def test_an_admin_makes_users_and_policies(browser: Browser, url: str, log: Path) -> None:
    log_in(browser, url, ROOT)
    browser.open(f"{url}/users")
    wait_until(lambda: any(row[0] == "vera" for row in browser.rows(".r-users")), "vera")
    browser.click(".r-new-user")
    browser.type(".r-user-name", "nina")
    browser.type(".r-password", "ninapass")
    browser.click(".r-confirm")
    wait_until(lambda: any(row[0] == "nina" for row in browser.rows(".r-users")), "nina")

    browser.wait_for_none(".r-dialog")
    browser.click(".r-new-policy")
    browser.type(".r-what", "Topic:orders")
    browser.click(".r-confirm")
    wait_until(
        lambda: any(row[1] == "Topic:orders" for row in browser.rows(".r-policies")), "the policy"
    )
    browser.picture(ARTIFACTS / "users.png")
    assert "rootpass" not in browser.driver.page_source
    assert "ninapass" not in browser.driver.page_source

    text = log.read_text()
    assert "logged in: 'root'" in text
    assert re.search(r"rocketq.audit: console: User created: 'nina' by 'root' from 127", text)
    assert "ninapass" not in text


def test_a_viewer_sees_and_changes_nothing(browser: Browser, url: str) -> None:
    log_in(browser, url, VIEWER)
    browser.open(f"{url}/topics")
    browser.one(".r-filter")
    assert browser.all(".r-new-topic") == []
    browser.open(f"{url}/settings")
    browser.wait_for("viewer", ".r-about")


def test_an_operator_makes_topics_and_no_users(browser: Browser, url: str) -> None:
    log_in(browser, url, OPERATOR)
    browser.open(f"{url}/topics")
    browser.click(".r-new-topic")
    browser.type(".r-topic-name", "by-otto")
    browser.click(".r-confirm")
    wait_until(lambda: any(row[0] == "by-otto" for row in browser.rows(".r-topics")), "by-otto")
    browser.open(f"{url}/topic?name=by-otto")
    browser.click(".r-send")
    browser.type(".r-message-body", "hello")
    browser.click(".r-confirm")
    browser.wait_for("SEND_OK", ".q-notification")

    browser.open(f"{url}/users")
    wait_until(lambda: len(browser.rows(".r-users")) > 3, "users")
    assert browser.all(".r-new-user") == []


def test_a_page_that_is_open_ends_with_its_session(browser: Browser, url: str) -> None:
    log_in(browser, url, ROOT)
    browser.run("fetch('/logout')")
    wait_until(lambda: browser.where.endswith("/login"), "the login page")


# Without servers


def test_guesses_are_slowed_down() -> None:
    """The sixth failure in a row waits, and a success forgets them."""
    now = 0.0

    async def guess() -> str:
        async with connected("127.0.0.1:1", credentials=("", "")) as api:
            gate = Access(api, always_login=True, now=lambda: now)
            said = ""
            for _ in range(7):
                try:
                    await gate.login("", "", "192.0.2.1")
                except LoginRefused as error:
                    said = str(error)
            return said

    assert asyncio.run(guess()).startswith("too many failures")


@pytest.mark.parametrize(
    ("resource", "actions", "decision", "role"),
    [
        ("*", ["All"], "Allow", Role.ADMIN),
        ("Cluster:*", ["Update"], "Allow", Role.ADMIN),
        ("Cluster:*", ["Get"], "Allow", Role.VIEWER),
        ("Topic:orders", ["Pub"], "Allow", Role.OPERATOR),
        ("Topic:*", ["All"], "Deny", Role.VIEWER),
        ("Group:*", ["Sub"], "Allow", Role.VIEWER),
    ],
)
def test_roles_follow_rights(resource: str, actions: list[str], decision: str, role: Role) -> None:
    entry = PolicyEntry(resource=resource, actions=actions, decision=decision)
    acl = AclInfo(subject="User:x", policies=[Policy(policy_type="Custom", entries=[entry])])
    assert role_by_policies(acl) is role
    assert role_by_policies(None) is Role.VIEWER


def test_sessions_do_not_show_secrets_in_logs(caplog: pytest.LogCaptureFixture) -> None:
    from rocketq.console.access import Session

    session = Session(
        token="t0ken", user="u", role=Role.VIEWER, api=None, used_at=0.0,  # type: ignore[arg-type]
        credentials=("u", "pass-word"),
    )  # fmt: skip
    logging.getLogger("x").warning("%r", session)
    assert "t0ken" not in caplog.text
    assert "pass-word" not in caplog.text

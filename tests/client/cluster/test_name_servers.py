import random

import pytest

from rocketq.client.cluster.name_servers import NameServers
from rocketq.client.errors import InvalidSettings, NoNameServer


def test_addresses_come_from_text_or_a_list() -> None:
    assert NameServers("a:1;b:2").addresses == ("a:1", "b:2")
    assert NameServers(["a:1", "b:2"]).addresses == ("a:1", "b:2")


def test_the_environment_is_asked_when_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:9876")
    assert NameServers().addresses == ("env:9876",)
    assert NameServers("own:1").addresses == ("own:1",)


def test_without_any_address_it_is_where_rocketq_up_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert NameServers().addresses == NameServers("").addresses == ("127.0.0.1:9876",)


def test_a_list_of_nothing_is_refused_and_the_error_says_how_to_give_one() -> None:
    with pytest.raises(NoNameServer, match="NAMESRV_ADDR"):
        NameServers(" ; ")


def test_a_missing_port_is_the_usual_one() -> None:
    assert NameServers("localhost").addresses == ("localhost:9876",)


@pytest.mark.parametrize("text", ["a:x", ":9876", "a:0", "a:70000"])
def test_an_address_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InvalidSettings, match="host:port"):
        NameServers(text)


def test_it_stays_with_one_until_that_one_fails() -> None:
    servers = NameServers("a:1;b:2;c:3")
    first = servers.current
    assert servers.current == first
    servers.failed(first)
    assert servers.current != first
    second = servers.current
    servers.failed(first)
    assert servers.current == second, "a late failure of another server moves nobody"


def test_every_server_gets_its_turn() -> None:
    servers = NameServers("a:1;b:2;c:3")
    asked = set()
    for _ in range(3):
        asked.add(servers.current)
        servers.failed(servers.current)
    assert asked == set(servers.addresses)


def test_clients_spread_over_the_servers() -> None:
    starts = {NameServers("a:1;b:2;c:3", chance=random.Random(seed)).current for seed in range(50)}
    assert starts == {"a:1", "b:2", "c:3"}


def test_a_new_list_that_still_has_the_current_one_changes_nothing() -> None:
    servers = NameServers("a:1;b:2")
    current = servers.current
    servers.replace(f"x:1;{current};y:2")
    assert servers.current == current

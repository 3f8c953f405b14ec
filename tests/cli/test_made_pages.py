"""docs/settings.md and docs/metrics.md are as the code says, and name every key of every server."""

from pathlib import Path

import pytest

from rocketq.broker.settings.table import TABLE
from rocketq.cli import metrics_page
from rocketq.cli.settings_page import _SHARED_KEYS, SERVERS, Server, page
from rocketq.common.config import settings
from rocketq.common.naming import camel_case


def test_the_page_is_made_from_the_code() -> None:
    written = Path(__file__).parents[2] / "docs" / "settings.md"
    assert written.read_text() == page(), "python -m rocketq.cli.settings_page > docs/settings.md"
    assert str(Path.home()) not in page()


def test_the_page_of_figures_is_made_from_the_code() -> None:
    written = Path(__file__).parents[2] / "docs" / "metrics.md"
    made = "\n".join(metrics_page.page()).rstrip() + "\n"
    assert written.read_text() == made, "python -m rocketq.cli.metrics_page > docs/metrics.md"


def test_every_key_is_on_the_page() -> None:
    text = page()
    keys = [*TABLE, *(key for server in SERVERS for key in settings(server.config))]
    assert [key for key in keys if f"`{key}`" not in text] == []


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.title)
def test_what_is_said_of_a_server_is_said_of_keys_it_has(server: Server) -> None:
    known = settings(server.config)
    assert known.keys() >= _SHARED_KEYS
    assert server.meanings.keys() <= server.keys.keys()
    assert server.live <= server.meanings.keys()
    assert server.ours <= server.meanings.keys()
    assert all(camel_case(name) in known or name in _fields(server) for name in server.ranges)
    # A number has a range.
    unlimited = [
        key for key, each in server.keys.items()
        if each.kind is int and key in server.meanings and each.field not in server.ranges
    ]  # fmt: skip
    assert unlimited == []


def _fields(server: Server) -> set[str]:
    return {each.field for each in settings(server.config).values()}

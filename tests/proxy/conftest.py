"""Every test of an RPC runs in both modes: in the broker's process, and before it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.proxy.bare_client import Client
from tests.proxy.harness import BEFORE, HERE, Place, place


@pytest.fixture(params=[HERE, BEFORE])
async def at(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path, request.param) as running:
        yield running


@pytest.fixture
def client(at: Place) -> Client:
    return at.client()

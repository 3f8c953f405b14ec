"""Tests of this package run on both event loops: asyncio's in debug mode, and uvloop."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def debug_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_debug(True)
    return loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": debug_loop, "uvloop": uvloop.new_event_loop}

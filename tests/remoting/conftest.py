"""Tests of this package run on both event loops: asyncio's in debug mode, and uvloop."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop

from rocketq.remoting.wire import frame


def debug_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_debug(True)
    return loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": debug_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def scanning() -> Iterator[None]:
    """Uncompiled, frames are scanned too, which is slower there than the general decoders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame, "SCANS", True, raising=False)
        yield

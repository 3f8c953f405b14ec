"""The code in docs/sdk.md runs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from os import environ
from pathlib import Path

import pytest

from rocketq import Message, Producer
from rocketq.testing import LocalBroker

PAGE = Path(__file__).parents[2] / "docs" / "sdk.md"
PROGRAMS = [
    pytest.param(code, id=f"line {PAGE.read_text()[: match.start()].count(chr(10)) + 1}")
    for match in re.finditer(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    if "def test_" not in (code := match[1])
]


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    """A broker with what the page takes to be there."""
    with LocalBroker({"recallMessageEnable": "true"}) as broker:
        with Producer("earlier", namesrv=broker.namesrv) as producer:
            producer.send_batch(
                [Message("orders", b"%d" % number, tags="paid") for number in range(2000)]
            )
            producer.send(Message("template-orders", b"{}"))
        yield broker.namesrv


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_of_the_page_runs(code: str, namesrv: str) -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**environ, "NAMESRV_ADDR": namesrv},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) >= 10

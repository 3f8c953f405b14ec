"""Every example runs, and says what it should."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from rocketq.testing import LocalBroker

EXAMPLES = Path(__file__).parents[2] / "examples"

SAYS = {
    "batch": "pipelined: 1000 messages, all ok: True",
    "delay": "tea is ready after",
    "filter": "by SQL: ['buy 4000', 'sell 200']",
    "lite_pull": "20 events read again",
    "ordered": "order-4: created -> paid -> shipped -> delivered",
    "quick_start": "10 messages consumed",
    "request_reply": "a lamp costs 28",
    "simple_consumer": "10 parcels delivered",
    "transaction": "announced: three books",
}


def test_every_example_is_run() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {*SAYS, "fastapi_app"}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_runs(name: str, local_broker: LocalBroker) -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", local_broker.namesrv],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "Traceback" not in process.stderr
    assert "Warning" not in process.stderr
    assert SAYS[name] in process.stdout


async def test_the_fastapi_example_serves(
    local_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fastapi")
    httpx = pytest.importorskip("httpx")
    monkeypatch.setenv("NAMESRV_ADDR", local_broker.namesrv)
    spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLES / "fastapi_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fastapi_app", module)
    spec.loader.exec_module(module)
    async with (
        module.app.router.lifespan_context(module.app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=module.app), base_url="http://shop"
        ) as client,
    ):
        receipt = await client.post("/orders", json={"id": 42, "total": 9.5})
        assert receipt.json()["message_id"]
        assert (await client.get("/billed")).json() == [42]

"""`--metrics-port`: where figures and health of the servers on the command line are."""

import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.programs import run, serving
from tests.waiting import wait_until


def page(url: str, path: str = "/metrics") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url.removesuffix("/metrics") + path, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_up_says_where_the_figures_of_both_servers_are(tmp_path: Path) -> None:
    words = ("up", "--dir", str(tmp_path), "--namesrv-port", "0", "--broker-port", "0")
    with serving(*words, "--metrics-port", "0") as server:
        url = server.facts["metrics"]
        assert url.startswith("http://127.0.0.1:")
        assert run("send", "orders", "hello", "-n", server.facts["namesrv"]).returncode == 0
        status, text = page(url)
        assert status == 200
        assert 'rocketq_namesrv_brokers{node_type="namesrv"} 1.0' in text
        assert 'rocketmq_broker_permission{cluster="DefaultCluster"' in text
        assert [page(url, path)[0] for path in ("/livez", "/readyz", "/healthz")] == [200] * 3
        assert server.stop(signal.SIGTERM) == 0


def test_several_brokers_have_figures_of_their_own(tmp_path: Path) -> None:
    words = ("up", "--dir", str(tmp_path), "--namesrv-port", "0", "--broker-port", "0")
    with serving(*words, "--metrics-port", "0", "--brokers", "2") as server:
        urls = server.facts["metrics"].split(",")
        assert len(urls) == 3  # the NameServer's and one for each
        nodes = [f'node_id="broker-{number}"' for number in (0, 1)]
        assert [node in page(url)[1] for node, url in zip(nodes, urls[1:], strict=True)] == [
            True,
            True,
        ]


def test_without_the_option_nothing_is_said(tmp_path: Path) -> None:
    words = ("up", "--dir", str(tmp_path), "--namesrv-port", "0", "--broker-port", "0")
    with serving(*words) as server:
        assert "metrics" not in server.facts


@pytest.mark.parametrize("kind", ["SOMETIMES", "4"])
def test_another_kind_of_exporter_is_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    for server in ("broker", "namesrv"):
        ended = run(server, "--port", "0", "--set", f"metricsExporterType={kind}")
        assert ended.returncode == 1
        assert "metricsExporterType" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


def test_servers_of_their_own_have_figures_of_their_own(tmp_path: Path) -> None:
    with (
        serving("namesrv", "--host", "127.0.0.1", "--port", "0", "--metrics-port", "0") as names,
        serving(
            *("broker", "--host", "127.0.0.1", "--port", "0", "--metrics-port", "0"),
            *("-n", names.facts["namesrv"], "--set", f"storePathRootDir={tmp_path}"),
        ) as server,
    ):
        url = server.facts["metrics"]
        assert page(url, "/readyz")[0] == 200
        assert "rocketq_namesrv_topics" in page(names.facts["metrics"])[1]
        wait_until(lambda: page(url, "/healthz")[0] == 200)
        assert server.stop() == 0

"""What lies in deploy/: it can be read, and names only what exists."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from rocketq.broker.config import load_configs
from rocketq.broker.settings.table import TABLE
from rocketq.cli.app import COMMANDS
from rocketq.cli.commands import described
from rocketq.common.config import parse_properties, settings
from rocketq.namesrv import NamesrvConfig

DEPLOY = Path(__file__).parents[2] / "deploy"
YAMLS = [*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]
PORTS = {"namesrv": 9876, "broker": 10911, "vip": 10909, "copies": 10912, "metrics": 5557}


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


# --- command lines ------------------------------------------------------------------------


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Where, and the words after `rocketq`."""
    for unit in DEPLOY.rglob("*.service"):
        for line in unit.read_text().splitlines():
            if line.startswith("ExecStart="):
                program, *words = shlex.split(line.removeprefix("ExecStart="))
                assert program.endswith("/rocketq")
                yield unit.name, words
    docker = (DEPLOY / "docker" / "Dockerfile").read_text()
    (words,) = re.findall(r'^CMD (\["up".*?\])$', docker.replace("\\\n", ""), re.M)
    yield "Dockerfile", json.loads(words)
    for path in sorted((DEPLOY / "docker").glob("*.yaml")):
        for name, service in documents(path)[0]["services"].items():
            if service.get("image", "").startswith("rocketq"):
                yield f"{path.name} {name}", service["command"]
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for container in containers(path):
            if "command" in container:
                assert container["command"] == ["sh", "-c"]
                (script,) = container["args"]
                shell, program, *words = shlex.split(script)
                assert (shell, program) == ("exec", "rocketq")
                yield f"{path.name} {container['name']}", words
            else:
                yield f"{path.name} {container['name']}", container["args"]


def containers(path: Path) -> Iterator[dict[str, Any]]:
    for document in documents(path):
        if document["kind"] == "StatefulSet":
            yield from document["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize(
    ("where", "words"), [pytest.param(*each, id=each[0]) for each in command_lines()]
)
def test_commands_options_and_keys_exist(where: str, words: list[str]) -> None:
    name, *rest = words
    lazy = COMMANDS[name]
    options = described(import_module(lazy.module).run)[""].options
    names = {word.rstrip(",") for option in options for word in option.names.split()}
    given = [word for word in rest if word.startswith("-")]
    assert set(given) <= names, where
    assignments = [rest[at + 1] for at, word in enumerate(rest) if word == "--set"]
    keys = {assignment.partition("=")[0] for assignment in assignments}
    known = set(settings(NamesrvConfig)) if name == "namesrv" else set(TABLE)
    assert keys <= known, where
    for at, word in enumerate(rest):
        if word == "--metrics-port":
            assert rest[at + 1] in ("5556", "5557", "5558", "5559"), where


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.conf")), ids=lambda path: path.name)
def test_settings_of_files_are_accepted(path: Path) -> None:
    given = parse_properties(path.read_text())
    assert given.keys() <= TABLE.keys()
    load_configs(given)


def test_settings_of_the_config_map_are_accepted() -> None:
    maps = [each for each in documents(DEPLOY / "kubernetes" / "broker.yaml")
            if each["kind"] == "ConfigMap"]  # fmt: skip
    (text,) = (each["data"]["broker.conf"] for each in maps)
    given = parse_properties(text)
    assert given.keys() <= TABLE.keys()
    load_configs(given | {"brokerRole": "SYNC_MASTER"})


# --- files --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.name)
def test_yaml_can_be_read(path: Path) -> None:
    assert all(isinstance(each, dict) for each in documents(path))


def test_units_have_what_a_server_needs() -> None:
    units = sorted(DEPLOY.rglob("*.service"))
    assert [unit.name.partition("@")[0].partition(".")[0] for unit in units] == [
        "rocketq-broker",
        "rocketq-controller",
        "rocketq-namesrv",
        "rocketq-proxy",
    ]
    for unit in units:
        text = unit.read_text()
        for part in ("[Unit]", "[Service]", "[Install]", "User=rocketq", "Restart=on-failure"):
            assert part in text, unit.name
        assert re.search(r"^TimeoutStopSec=\d+$", text, re.M), unit.name
        assert re.search(r"^LimitNOFILE=\d+$", text, re.M), unit.name


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_every_line_of_the_units(tmp_path: Path) -> None:
    for unit in DEPLOY.rglob("*.service"):
        # A template is looked at as one of its instances, a program that is there as ours.
        text = unit.read_text().replace("/opt/rocketq/bin/rocketq", "/bin/true")
        (tmp_path / unit.name.replace("@.", "@a.")).write_text(text)
    ended = subprocess.run(
        ["systemd-analyze", "verify", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # What it does not know is only said: the code is 0 all the same.
    said = [line for line in ended.stderr.splitlines() if str(tmp_path) in line]
    assert (ended.returncode, said) == (0, [])


def test_the_image_is_small_and_runs_as_nobody_special() -> None:
    lines = (DEPLOY / "docker" / "Dockerfile").read_text().splitlines()
    starts = [line for line in lines if line.startswith("FROM ")]
    assert len(starts) == 2  # compilers stay behind
    assert all("-slim" in line for line in starts)
    last = lines[lines.index(starts[-1]) :]
    assert "USER rocketq" in last
    assert not any("gcc" in line for line in last)
    (exposed,) = (line.split()[1:] for line in last if line.startswith("EXPOSE"))
    assert set(map(str, PORTS.values())) <= set(exposed)


def test_compose_files_fit_together() -> None:
    for path in sorted((DEPLOY / "docker").glob("*.yaml")):
        (compose,) = documents(path)
        for name, service in compose["services"].items():
            for volume in service.get("volumes", ()):
                source = volume.partition(":")[0]
                if source.startswith("."):
                    assert (path.parent / source).is_dir(), (name, source)
                else:
                    assert source in compose["volumes"], (name, source)
            assert set(service.get("depends_on", ())) <= compose["services"].keys()
            for port in service.get("ports", ()):
                assert port.startswith("127.0.0.1:")  # nothing is opened to the world by itself
            if "build" in service:
                context = (path.parent / service["build"]["context"]).resolve()
                assert (context / service["build"]["dockerfile"]).is_file()


def test_three_nodes_know_each_other() -> None:
    (compose,) = documents(DEPLOY / "docker" / "compose-three.yaml")
    services = compose["services"]
    for part in ("etcd", "namesrv", "controller", "broker"):
        assert [name for name in services if name.startswith(f"{part}-")] == [
            f"{part}-{number}" for number in (1, 2, 3)
        ]
    for name, service in services.items():
        words = " ".join(map(str, service["command"]))
        if name.startswith("broker-"):
            for host in re.findall(r"(\S+?):(?:9876|19876)", words.replace(";", " ")):
                assert host.rpartition("=")[2] in services
        if name.startswith("controller-"):
            assert all(f"etcd-{number}:2379" in words for number in (1, 2, 3))


@pytest.mark.parametrize("path", sorted((DEPLOY / "kubernetes").glob("*.yaml")), ids=str)
def test_manifests_have_probes_budgets_and_rights(path: Path) -> None:
    found = documents(path)
    sets = [each for each in found if each["kind"] == "StatefulSet"]
    services = {each["metadata"]["name"] for each in found if each["kind"] == "Service"}
    budgets = [each for each in found if each["kind"] == "PodDisruptionBudget"]
    assert len(budgets) == len(sets) > 0
    for each in sets:
        spec = each["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["serviceName"] in services
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert any(
            budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
            for budget in budgets
        )
        pod = spec["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["terminationGracePeriodSeconds"] >= 30
        for container in pod["containers"]:
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            assert ports == {name: PORTS[name] for name in ports}
            assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
            assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
            assert "requests" in container["resources"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
            assert mounted == claims | {volume["name"] for volume in pod.get("volumes", ())}

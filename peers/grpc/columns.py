"""Official gRPC clients against RocketMQ's proxy first, then against ours, in both its places.

    java        Java proxy, Java broker     what the rows themselves are held against
    rocketq     a rocketq broker that serves gRPC itself
    proxy       `rocketq proxy` before a rocketq broker
    proxy-java  `rocketq proxy` before a Java broker
    java-ours   Java proxy before a rocketq broker

The clients are fetched once, into the cache of peers/java.py: Java's by Maven, Python's by pip,
Node's by npm, Go's by `go build`. A language whose tools are not there has no rows. Beside them a
bare client tries the protocol itself (`cases/`), case by case, all at the same time.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from peers import java
from peers.outcomes import Column, Outcome, Outcomes, run_program
from peers.servers import Cluster, Server, registered

HERE = Path(__file__).resolve().parent
CACHE = java.CACHE / "grpc-clients"
ROOT = HERE.parent.parent
ROWS = ["simple", "push", "fifo", "delay", "transaction", "orphan"]
KINDS = {"normal": "NORMAL", "fifo": "FIFO", "delay": "DELAY", "transaction": "TRANSACTION"}
JAVA_CLIENT, GO_CLIENT = "5.2.0", "v5.1.3"
WITHIN_S = 600.0
MORE_ROWS = {"java": ["fifo-push"]}
RESUME = "grpc-java-resume"
CASE = "grpc-case-"
BROKER_SETTINGS = {
    "recallMessageEnable": "true",
    "enableMixedMessageType": "true",
}
RIGHTS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"secret-of-inner"}',
}
RIGHTS_OF_BROKERS = RIGHTS | {
    "initAuthenticationUser": '{"username":"root","password":"secret-of-root"}',
}
_AUTH = "org.apache.rocketmq.auth"
RIGHTS_OF_JAVA_BROKERS = RIGHTS_OF_BROKERS | {
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider"
    ".LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider"
    ".LocalAuthorizationMetadataProvider",
}
CASE_OF_RIGHTS = "grpc-case-32-rights"
# RocketMQ's proxy believes anybody.
BELIEVED = "proxyProtocolAddresses=127.0.0.1"


# Clients


def python_client() -> list[str]:
    place = CACHE / "python"
    program = place / "bin" / "python"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        words = [str(program), "-m", "pip", "install", "-q", "rocketmq-python-client"]
        subprocess.run(words, check=True)
    return [str(program), str(HERE / "official.py")]


def node_client() -> list[str]:
    place = CACHE / "node"
    if not (place / "node_modules").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text('{"private": true}')
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
        subprocess.run([*words, "rocketmq-client-nodejs"], cwd=place, check=True)
    shutil.copy(HERE / "official.js", place)
    return ["node", str(place / "official.js")]


def go_client() -> list[str]:
    place = CACHE / "go"
    program, sources = place / "official", sorted(HERE.glob("*.go"))
    copies = {place / source.name: source.read_bytes() for source in sources}
    is_built = program.exists() and all(
        copy.exists() and copy.read_bytes() == source for copy, source in copies.items()
    )
    if not is_built:
        place.mkdir(parents=True, exist_ok=True)
        program.unlink(missing_ok=True)
        for copy, source in copies.items():
            copy.write_bytes(source)
        (place / "go.mod").write_text("module official\n\ngo 1.21\n")
        client = f"github.com/apache/rocketmq-clients/golang/v5@{GO_CLIENT}"
        for words in (["get", client], ["mod", "tidy"], ["build", "-o", "official", "."]):
            subprocess.run(["go", *words], cwd=place, check=True, capture_output=True)
    return [str(program)]


def java_client() -> list[str]:
    place = CACHE / "java"
    jars, classes = place / "jars", place / "classes"
    if not jars.exists():
        words = ["mvn", "-q", "-B", "-f", str(HERE / "client-pom.xml")]
        words += [f"-Dclient.version={JAVA_CLIENT}", "dependency:copy-dependencies"]
        words += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        subprocess.run(words, check=True)
    everything = f"{jars}{os.sep}*"
    subprocess.run(
        ["javac", "-cp", everything, "-d", str(classes), str(HERE / "Official.java")], check=True
    )
    path = os.pathsep.join([everything, str(classes)])
    return ["java", *java.SMALL_JVM, "-cp", path, "Official"]


CLIENTS: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "python": ("python3", python_client),
    "node": ("npm", node_client),
    "go": ("go", go_client),
    "java": ("mvn", java_client),
}


def install() -> None:
    """Fetch the clients; afterwards no network is needed."""
    for tool, prepare in CLIENTS.values():
        if shutil.which(tool):
            prepare()


# Servers


def java_proxy(cluster: Cluster, namesrv: Server, rights: Mapping[str, str]) -> Server:
    port = cluster.port("proxy")
    settings: dict[str, object] = {
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": namesrv.address,
        "grpcServerPort": port,
        "remotingListenPort": port + 1,
        "localServeAddr": "127.0.0.1",
        "proxyMode": "CLUSTER",
        **{key: True if value == "true" else value for key, value in rights.items()},
    }
    if rights:
        settings["enableAclRpcHookForClusterMode"] = True  # its own requests are not signed else
        for kind in ("Authentication", "Authorization"):
            provider = f"org.apache.rocketmq.proxy.auth.Proxy{kind}MetadataProvider"
            settings[f"{kind.lower()}MetadataProvider"] = provider
    conf = cluster.folder / "conf" / "rmq-proxy.json"
    conf.write_text(json.dumps(settings))
    jvm = ["-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    jvm += ["--add-exports=java.base/sun.security.x509=ALL-UNNAMED"]
    jvm += [f"-DRMQ_PROXY_HOME={cluster.folder}"]
    main = "org.apache.rocketmq.proxy.ProxyStartup"
    words = java.command(java.V5, main, cluster.folder, jvm=jvm)
    os.environ["RMQ_PROXY_HOME"] = str(cluster.folder)
    address = f"127.0.0.1:{port}"
    return cluster._started("java-proxy", [*words, "-pc", str(conf)], address, is_open)


def is_open(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    with socket.socket() as probing:
        return probing.connect_ex((host, int(port))) == 0


def our_proxy(cluster: Cluster, namesrv: Server, rights: Mapping[str, str]) -> Server:
    port = cluster.port("proxy")
    words = [sys.executable, "-m", "rocketq.cli", "proxy", "-n", namesrv.address]
    words += ["--host", "127.0.0.1", "--grpc-port", str(port), "--set", BELIEVED]
    for key, value in rights.items():
        words += ["--set", f"{key}={value}"]
    return cluster._started("rocketq-proxy", words, f"127.0.0.1:{port}", is_open)


def make_topics(namesrv: Server) -> None:
    for name, kind in KINDS.items():
        words = [sys.executable, "-m", "rocketq.cli", "admin", "updateTopic"]
        words += ["-n", namesrv.address, "-c", "DefaultCluster", "-t", f"grpc-{name}"]
        words += ["-r", "4", "-w", "4", "-a", f"+message.type={kind}"]
        subprocess.run(words, check=True, capture_output=True)
    words = [sys.executable, "-m", "rocketq.cli", "admin", "updateSubGroup"]
    words += ["-n", namesrv.address, "-c", "DefaultCluster", "-g", "grpc-ordered"]
    subprocess.run([*words, "-o", "true", "-r", "1"], check=True, capture_output=True)


class System:
    """What clients are tried against: a NameServer, a broker, a proxy unless that is the broker."""

    def __init__(self, cluster: Cluster, kind: str, settings: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._settings = dict(settings)
        self.kind = kind
        self._has_java_broker = kind in ("java", "proxy-java")
        self.namesrv = (
            cluster.java_namesrv() if self._has_java_broker else cluster.rocketq_namesrv()
        )
        self._broker = self._started_broker()
        if settings is BROKER_SETTINGS:
            make_topics(self.namesrv)
        self._proxy = self._started_proxy()
        port = cluster.port("grpc" if kind == "rocketq" else "proxy")
        self.address = f"127.0.0.1:{port}"

    def _started_broker(self) -> Server:
        cluster, namesrv = self._cluster, self.namesrv
        if self._has_java_broker:
            return cluster.java_broker("a", namesrv, **self._settings)
        if self.kind != "rocketq":
            return cluster.rocketq_broker("a", namesrv, **self._settings)
        conf, address = cluster._broker_conf("a", namesrv, self._settings)
        words = [sys.executable, "-m", "rocketq.cli", "broker", "-c", str(conf)]
        words += ["--grpc-port", str(cluster.port("grpc")), "--set", BELIEVED]
        return cluster._started("rocketq-broker-a", words, address, registered(namesrv))

    def _started_proxy(self) -> Server | None:
        if self.kind == "rocketq":
            return None
        started = java_proxy if self.kind in ("java", "java-ours") else our_proxy
        rights = {key: self._settings[key] for key in RIGHTS if key in self._settings}
        return started(self._cluster, self.namesrv, rights)

    def start_again(self) -> None:
        """Both of them, one after the other, while clients go on."""
        time.sleep(15)
        self._broker.stop()
        self._broker = self._started_broker()
        time.sleep(10)
        if self._proxy is not None:
            self._proxy.stop()
            self._proxy = self._started_proxy()


def bare_client(system: System, folder: Path, rows: Sequence[str]) -> Outcomes:
    """The cases, each a row."""
    wanted = [row.removeprefix(CASE) for row in rows if row.startswith(CASE)]
    if rows and not wanted:
        return {}
    words = ["env", "-C", str(ROOT), sys.executable, "-m", "peers.grpc.cases"]
    words += [system.kind, system.address, system.namesrv.address]
    outcomes = run_program([*words, *wanted], folder, WITHIN_S)
    return {f"{CASE}{row}": outcomes[row] for row in sorted(outcomes, key=_number)}


def _number(row: str) -> int:
    number = row.partition("-")[0]
    return int(number) if number.isdigit() else 0


def official_clients(kind: str, folder: Path, rows: Sequence[str]) -> Outcomes:
    """All rows of all clients against one system; a row is named language-feature."""
    found: dict[str, Outcome] = {}
    with Cluster(folder) as cluster:
        system = System(cluster, kind, BROKER_SETTINGS)
        for language, (tool, prepare) in CLIENTS.items():
            wanted = [
                row
                for row in (*ROWS, *MORE_ROWS.get(language, ()))
                if not rows or f"grpc-{language}-{row}" in rows
            ]
            if not wanted or not shutil.which(tool):
                continue
            command = prepare()
            outcomes = run_program([*command, system.address, *wanted], folder, WITHIN_S)
            for row in wanted:
                outcome = outcomes.get(row, Outcome(False, "no answer"))
                found[f"grpc-{language}-{row}"] = outcome
        unlocked = [row for row in rows if row != CASE_OF_RIGHTS]
        if unlocked or not rows:
            found |= bare_client(system, folder, unlocked)
        if not rows or CASE_OF_RIGHTS in rows:
            found |= rights(kind, folder / "rights")
        if (not rows or RESUME in rows) and shutil.which("mvn"):
            found[RESUME] = resumed(system, folder)
    return found


def rights(kind: str, folder: Path) -> Outcomes:
    """The case of rights, against a system that asks for them."""
    is_java = kind in ("java", "proxy-java")
    settings = RIGHTS_OF_JAVA_BROKERS if is_java else RIGHTS_OF_BROKERS
    try:
        with Cluster(folder) as cluster:
            system = System(cluster, kind, settings)
            return bare_client(system, folder, [CASE_OF_RIGHTS])
    except RuntimeError as failure:  # the other rows are not lost with it
        return {CASE_OF_RIGHTS: Outcome(False, str(failure))}


def resumed(system: System, folder: Path) -> Outcome:
    """Java's producer and push consumer, while broker and proxy are started again."""
    command = [*java_client(), system.address, "resume"]
    with ThreadPoolExecutor(1) as beside:
        again = beside.submit(system.start_again)
        outcomes = run_program(command, folder, WITHIN_S)
        again.result()
    return outcomes.get("resume", Outcome(False, "no answer"))


COLUMNS = [
    Column(f"grpc-{kind}", title, partial(official_clients, kind))
    for kind, title in (
        ("java", "gRPC clients → Java proxy → Java broker"),
        ("rocketq", "gRPC clients → rocketq broker"),
        ("proxy", "gRPC clients → rocketq proxy → rocketq broker"),
        ("proxy-java", "gRPC clients → rocketq proxy → Java broker"),
        ("java-ours", "gRPC clients → Java proxy → rocketq broker"),
    )
]

"""Users, rights and encryption: official clients and tools against brokers that let in few.

The users of a broker, and what is expected of each:

    alice    may send to `orders` and consume it in `billing`      is served
    bob      may consume, not send                                 may not send
    carol    may send, not consume                                 may not consume
    former   was a user, and is switched off                       is refused, as is who is unknown

Each case runs plain and encrypted; the last ones want encryption, and users on the NameServer, too.
mqadmin's commands for users and policies are run against a Java broker and against ours, and have
to print the same. Those of RocketMQ 4 for accounts have no Java broker to compare with: 4.9.7's, as
Maven has it, does not start with `aclEnable`. mqadmin 4.9.7 runs them against ours: it has to print
what it prints after a success, and to see what it has changed.
"""

import asyncio
import json
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from peers import java
from peers.admin_commands import Invocation
from peers.elected import start_controller
from peers.masked import difference
from peers.outcomes import Column, Outcome, Outcomes, run_program
from peers.servers import Cluster, Server, answers
from peers.tools import AdminSession
from rocketq.remoting import Command, RemotingClient, RequestCode
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.bodies.access import AclInfo, Policy, PolicyEntry, UserInfo
from rocketq.remoting.bodies.route import ClusterInfo
from rocketq.remoting.headers import CreateTopic
from rocketq.remoting.headers.access import CreateAcl, CreateUser
from rocketq.remoting.headers.namesrv import GetRouteInfo
from rocketq.remoting.tls import ClientTls

ROOT = ("root", "root-secret")
INNER = ("inner", "inner-secret")
USERS: dict[str, list[tuple[str, str]]] = {
    "alice": [("Topic:orders", "Pub"), ("Topic:orders", "Sub"), ("Group:billing", "Sub")],
    "bob": [("Topic:orders", "Sub"), ("Group:billing", "Sub")],
    "carol": [("Topic:orders", "Pub")],
    "former": [("Topic:orders", "Pub")],
}
WITH_USERS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT[0], "password": ROOT[1]}),
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": INNER[0], "secretKey": INNER[1]}
    ),
}
# RocketMQ has no default for where users are kept.
OF_JAVA = {
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider."
    "DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "org.apache.rocketmq.auth.authentication.provider."
    "LocalAuthenticationMetadataProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider."
    "DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.auth.authorization.provider."
    "LocalAuthorizationMetadataProvider",
}
# Row -> action, user, secret, topic, what is expected.
CASES = {
    "user sends": ("send", "alice", "alice-secret", "orders", "ok"),
    "user consumes": ("push", "alice", "alice-secret", "orders", "ok"),
    "user gives back": ("retry", "alice", "alice-secret", "orders", "ok"),
    "user ends a transaction": ("transaction", "alice", "alice-secret", "orders", "ok"),
    "super user sends": ("send", *ROOT, "orders", "ok"),
    "wrong secret": ("send", "alice", "alice-secre", "orders", "refused"),
    "unknown user": ("send", "nobody", "nobody-secret", "orders", "refused"),
    "no credentials": ("send", "", "", "orders", "refused"),
    "user switched off": ("send", "former", "former-secret", "orders", "refused"),
    "no right to send": ("send", "bob", "bob-secret", "orders", "refused"),
    "no right to consume": ("pull", "carol", "carol-secret", "orders", "refused"),
    "no right to the topic": ("send", "alice", "alice-secret", "stock", "refused"),
}
OTHER_AUTHORITY = {
    "certificate of another authority": ("send", "alice", "alice-secret", "orders", "fails"),
}
LOCKED = {
    "everything locked: user consumes": ("push", "alice", "alice-secret", "orders", "ok"),
    "everything locked: no right to send": ("send", "bob", "bob-secret", "orders", "refused"),
    "everything locked: no credentials": ("send", "", "", "orders", "fails"),
}
IN_THE_CLEAR = {
    "everything locked: not encrypted": ("send", "alice", "alice-secret", "orders", "fails"),
}
ENCRYPTED = " over TLS"
GO_CLIENT = "github.com/apache/rocketmq-client-go/v2@v2.1.2"
CPP_CLIENT = "rocketmq==0.4.4"
"""Apache's rocketmq-client-cpp of 2019, and what calls it from Python."""
WITHIN_S = 600.0
ELECTED_WITHIN_S = 60.0


# Servers


async def _ask(address: str, tls: ClientTls | None, *requests: Command) -> list[Command]:
    client = RemotingClient(hooks=[RequestSigner(*ROOT)], tls=tls)
    replies = [await client.call(address, request, 30.0) for request in requests]
    await client.close()
    return replies


def _administer(address: str, tls: ClientTls | None, requests: Sequence[Command]) -> None:
    for request, reply in zip(requests, asyncio.run(_ask(address, tls, *requests)), strict=True):
        if reply.code != 0:
            raise RuntimeError(f"{request.code}: {reply.remark}")


def wait_for_route(namesrv: str, topic: str, tls: ClientTls | None = None) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        request = Command.request(GetRouteInfo(topic=topic))
        [reply] = asyncio.run(_ask(namesrv, tls, request))
        if reply.code == 0:
            return
        time.sleep(0.2)
    raise RuntimeError(f"no route to {topic}: {reply.remark}")


def broker_names(namesrv: str) -> list[str]:
    request = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
    [reply] = asyncio.run(_ask(namesrv, None, request))
    return sorted(ClusterInfo.decode(reply.body).broker_addr_table)


def make_users(address: str, tls: ClientTls | None = None) -> None:
    """On one server, a broker or a NameServer."""
    requests = []
    for name, rights in USERS.items():
        info = UserInfo(
            password=f"{name}-secret",
            user_type="Normal",
            user_status="disable" if name == "former" else "enable",
        )
        requests.append(Command.request(CreateUser(username=name), info.encode()))
        entries: dict[str, list[str]] = {}
        for resource, action in rights:
            entries.setdefault(resource, []).append(action)
        policy = Policy(
            policy_type="Custom",
            entries=[
                PolicyEntry(resource=resource, actions=actions, decision="Allow")
                for resource, actions in entries.items()
            ],
        )
        body = AclInfo(policies=[policy]).encode()
        requests.append(Command.request(CreateAcl(subject=f"User:{name}"), body))
    _administer(address, tls, requests)


def make_topics(address: str, tls: ClientTls | None = None) -> None:
    requests = [
        Command.request(
            CreateTopic(
                topic=topic,
                default_topic="TBW102",
                read_queue_nums=2,
                write_queue_nums=2,
                perm=6,
                topic_filter_type="SINGLE_TAG",
            )
        )
        for topic in ("orders", "stock")
    ]
    _administer(address, tls, requests)


class Certificates:
    """An authority, a server that it vouches for, and another authority."""

    def __init__(self, folder: Path) -> None:
        self.authority = self._authority(folder, "authority")
        self.other = self._authority(folder, "other")
        self.certificate, self.key = folder / "server.crt", folder / "server.key"
        request, names = folder / "server.csr", folder / "server.ext"
        names.write_text("subjectAltName=IP:127.0.0.1\n")
        self._run(f"req -newkey rsa:2048 -nodes -subj /CN=server -keyout {self.key} -out {request}")
        self._run(
            f"x509 -req -in {request} -CA {self.authority} -CAkey {folder / 'authority.key'} "
            f"-CAcreateserial -days 3650 -extfile {names} -out {self.certificate}"
        )

    def _authority(self, folder: Path, name: str) -> Path:
        made = folder / f"{name}.crt"
        self._run(
            f"req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN={name} "
            f"-keyout {folder / name}.key -out {made}"
        )
        return made

    @staticmethod
    def _run(line: str) -> None:
        subprocess.run(["openssl", *shlex.split(line)], check=True, capture_output=True)

    @property
    def of_server(self) -> dict[str, str]:
        return {
            "tls.test.mode.enable": "false",
            "tls.server.certPath": str(self.certificate),
            "tls.server.keyPath": str(self.key),
        }


# Clients

Program = Callable[[Path, Path | None], list[str]]
"""The command of a client's program, which trusts an authority or nobody encrypts at all."""


def java_program(release: str, folder: Path, trusted: Path | None) -> list[str]:
    classes = java.compiled("Security.java", release)
    jvm = list(java.SMALL_JVM)
    if trusted is not None:
        jvm += ["-Dtls.enable=true", "-Dtls.test.mode.enable=false"]
        jvm += ["-Dtls.client.authServer=true", f"-Dtls.client.trustCertPath={trusted}"]
    return java.command(release, "Security", folder, classes, jvm=jvm)


def install() -> None:
    """Fetch the clients of Go and C++; afterwards no network is needed."""
    if shutil.which("go"):
        go_program(Path(), None)
    cpp_program(Path(), None)


def go_program(folder: Path, trusted: Path | None) -> list[str]:
    place = java.CACHE / "go-remoting-client"
    program, source = place / "security", java.HERE / "security.go"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place / "main.go")
        (place / "go.mod").write_text("module security\n\ngo 1.21\n")
        for words in (["get", GO_CLIENT], ["mod", "tidy"], ["build", "-o", "security", "."]):
            subprocess.run(["go", *words], cwd=place, check=True, capture_output=True)
    return [str(program)]


def cpp_program(folder: Path, trusted: Path | None) -> list[str]:
    place = java.CACHE / "cpp-remoting-client"
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", CPP_CLIENT]
        subprocess.run([str(python), *words], check=True, capture_output=True)
        (place / "installed").touch()
    return [str(python), str(java.HERE / "security_cpp.py")]


def run_cases(
    program: Program,
    folder: Path,
    namesrv: str,
    cases: Mapping[str, tuple[str, ...]],
    trusted: Path | None = None,
) -> dict[str, Outcome]:
    words = [f"{row}={','.join((*case[:4], 'billing', case[4]))}" for row, case in cases.items()]
    found = {row: Outcome(False, "no answer") for row in cases}
    how = "plain" if trusted is None else "tls"
    found |= run_program([*program(folder, trusted), namesrv, how, *words], folder, WITHIN_S)
    return found


def cases_of_client(
    program: Program, folder: Path, rows: Sequence[str], *, encrypts: bool, actions: Sequence[str]
) -> Outcomes:
    """Everything about one client."""
    certificates = Certificates(folder)
    found: dict[str, Outcome] = {}
    with Cluster(folder) as cluster:
        namesrv = cluster.rocketq_namesrv(**certificates.of_server)
        broker = cluster.rocketq_broker("a", namesrv, **WITH_USERS, **certificates.of_server)
        make_users(broker.address)
        make_topics(broker.address)
        cases = {row: case for row, case in CASES.items() if case[0] in actions}
        if "pull" not in actions:  # a client that says no more than that it failed
            cases = {
                row: (*case[:4], "fails" if case[4] == "refused" else case[4])
                for row, case in cases.items()
            }
        found |= run_cases(program, folder, namesrv.address, _wanted(cases, rows))
        if encrypts:
            trusted = certificates.authority
            encrypted = {row + ENCRYPTED: case for row, case in cases.items()}
            found |= run_cases(program, folder, namesrv.address, _wanted(encrypted, rows), trusted)
            strange = _wanted(OTHER_AUTHORITY, rows)
            found |= run_cases(program, folder, namesrv.address, strange, certificates.other)
    if encrypts:
        found |= everything_locked(program, folder / "locked", rows, certificates)
    return found


def everything_locked(
    program: Program, folder: Path, rows: Sequence[str], certificates: Certificates
) -> Outcomes:
    """NameServer and broker have users, and nobody talks in the clear."""
    tls = ClientTls(trust=str(certificates.authority))
    enforcing = {
        **WITH_USERS,
        **certificates.of_server,
        "tls.server.mode": "enforcing",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(certificates.authority),
    }
    with Cluster(folder, listens) as cluster:
        namesrv = cluster.rocketq_namesrv(**enforcing)
        broker = cluster.rocketq_broker("a", namesrv, **enforcing)
        for server in (namesrv, broker):
            make_users(server.address, tls)
        make_topics(broker.address, tls)
        wait_for_route(namesrv.address, "orders", tls)
        trusted = certificates.authority
        found = run_cases(program, folder, namesrv.address, _wanted(LOCKED, rows), trusted)
        return found | run_cases(program, folder, namesrv.address, _wanted(IN_THE_CLEAR, rows))


def _wanted(
    cases: Mapping[str, tuple[str, ...]], rows: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    return {row: case for row, case in cases.items() if not rows or row in rows}


def java_client(release: str, folder: Path, rows: Sequence[str]) -> Outcomes:
    actions = ("send", "push", "retry", "transaction", "pull")
    return cases_of_client(
        partial(java_program, release), folder, rows, encrypts=True, actions=actions
    )


def go_client(folder: Path, rows: Sequence[str]) -> Outcomes:
    """It has no encryption."""
    if not shutil.which("go"):
        return {}
    return cases_of_client(go_program, folder, rows, encrypts=False, actions=("send", "push"))


def cpp_client(folder: Path, rows: Sequence[str]) -> Outcomes:
    return cases_of_client(cpp_program, folder, rows, encrypts=False, actions=("send", "push"))


# Brokers of the other side


def java_brokers(folder: Path, rows: Sequence[str]) -> Outcomes:
    """A Java broker has to prove itself to our NameServer."""
    found: dict[str, Outcome] = {}
    with Cluster(folder, answers) as cluster:
        namesrv = cluster.rocketq_namesrv(**WITH_USERS)
        broker = cluster.java_broker("a", namesrv, **WITH_USERS, **OF_JAVA)
        for server in (namesrv, broker):
            make_users(server.address)
        make_topics(broker.address)
        wait_for_route(namesrv.address, "orders")
        found["Java broker with credentials registers"] = Outcome(True)
        program: Program = partial(java_program, java.V5)
        cases = {f"{row}, Java broker": CASES[row] for row in ("user sends", "user consumes")}
        found |= run_cases(program, folder, namesrv.address, cases)
        broker.stop()
        # Whoever has no credentials is not heard of.
        cluster.java_broker("b", namesrv)
        time.sleep(10)
        names = broker_names(namesrv.address)
        is_kept_out = "broker-b" not in names
        found["Java broker without credentials does not"] = Outcome(is_kept_out, f"{names}")
    found |= elected_java_brokers(folder)
    return {row: each for row, each in found.items() if not rows or row in rows}


def elected_java_brokers(folder: Path) -> Outcomes:
    """A Java broker has to prove itself to our controller; the NameServer lets anybody in."""
    found: dict[str, Outcome] = {}
    inner = "innerClientAuthenticationCredentials"
    with Cluster(folder, answers) as cluster:
        namesrv = cluster.rocketq_namesrv()
        controller = start_controller(cluster, **WITH_USERS)
        elected = {"enableControllerMode": "true", "controllerAddr": controller}
        elected |= {"brokerIP2": "127.0.0.1"}
        known = OF_JAVA | {inner: WITH_USERS[inner]}
        cluster.java_broker("c", namesrv, **elected, **known)
        cluster.java_broker("d", namesrv, **elected)
        deadline = time.monotonic() + ELECTED_WITHIN_S
        while "broker-c" not in broker_names(namesrv.address) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(10)  # as long as the other one would have needed, and longer
        names = broker_names(namesrv.address)
    is_elected, is_kept_out = "broker-c" in names, "broker-d" not in names
    found["Java broker with credentials is elected"] = Outcome(is_elected, f"{names}")
    found["Java broker without credentials is not"] = Outcome(is_kept_out, f"{names}")
    return found


# mqadmin

ADMIN = [
    "createUser -b $BROKER -u dora -p dora-secret",
    "createUser -b $BROKER -u dora -p dora-secret",
    "createUser -b $BROKER -u chief -p chief-secret -t Super",
    "getUser -b $BROKER -u dora",
    "getUser -b $BROKER -u no-such-user",
    "listUser -b $BROKER",
    "listUser -b $BROKER -f dor",
    "updateUser -b $BROKER -u dora -p other-secret",
    "updateUser -b $BROKER -u dora -t Super",
    "updateUser -b $BROKER -u dora -t Normal",
    "updateUser -b $BROKER -u dora -s disable",
    "getUser -b $BROKER -u dora",
    "updateUser -b $BROKER -u no-such-user -p other-secret",
    "createAcl -b $BROKER -s User:dora -r Topic:orders -a Pub,Sub -d Allow",
    "createAcl -b $BROKER -s User:dora -r Group:bill* -a Sub -i 10.0.0.0/8 -d Deny",
    "createAcl -b $BROKER -s User:no-such-user -r Topic:orders -a Pub -d Allow",
    "getAcl -b $BROKER -s User:dora",
    "getAcl -b $BROKER -s User:no-such-user",
    "updateAcl -b $BROKER -s User:dora -r Topic:orders -a Pub -d Deny",
    "getAcl -b $BROKER -s User:dora",
    "listAcl -b $BROKER",
    "listAcl -b $BROKER -s dora -r Topic:orders",
    "deleteAcl -b $BROKER -s User:dora -r Topic:orders",
    "getAcl -b $BROKER -s User:dora",
    "deleteAcl -b $BROKER -s User:dora",
    "deleteUser -b $BROKER -u dora",
    "deleteUser -b $BROKER -u no-such-user",
    "listUser -c DefaultCluster",
]


def printed(folder: Path, start: Callable[[Cluster], tuple[Server, Server]]) -> list[str]:
    """What each command prints against one broker."""
    with Cluster(folder) as cluster:
        credentials = "accessKey: {}\nsecretKey: {}\n".format(*ROOT)
        (cluster.folder / "conf" / "tools.yml").write_text(credentials)
        namesrv, broker = start(cluster)
        session = AdminSession(cluster, namesrv, {"BROKER": broker.address})
        try:
            return [session.run(Invocation(*_words(line))) for line in ADMIN]
        finally:
            session.close()


def _words(line: str) -> tuple[str, tuple[str, ...]]:
    command, *words = shlex.split(line)
    return command, tuple(words)


def mqadmin(folder: Path, rows: Sequence[str]) -> Outcomes:
    def theirs(cluster: Cluster) -> tuple[Server, Server]:
        namesrv = cluster.java_namesrv()
        return namesrv, cluster.java_broker("a", namesrv, **WITH_USERS, **OF_JAVA)

    def ours(cluster: Cluster) -> tuple[Server, Server]:
        namesrv = cluster.rocketq_namesrv()
        return namesrv, cluster.rocketq_broker("a", namesrv, **WITH_USERS)

    by_java, by_us = printed(folder / "java", theirs), printed(folder / "rocketq", ours)
    found: dict[str, Outcome] = {}
    for line, their_output, our_output in zip(ADMIN, by_java, by_us, strict=True):
        command = line.partition(" ")[0]
        different = difference(command, their_output, our_output)
        if different:
            different = f"{line}: {different}"
        row = f"mqadmin {command}"
        earlier = found.get(row, Outcome(True))
        detail = "; ".join(part for part in (earlier.detail, different) if part)
        found[row] = Outcome(earlier.ok and not different, detail)
    return {row: each for row, each in found.items() if not rows or row in rows}


_NO_ADMINISTRATOR = "Need admin permission"
# Command, and what it has to print; with "not " before it, what it must not.
ACCOUNT_COMMANDS = [
    ("getAclConfig -b $BROKER", "accessKey         : RocketMQ"),
    (
        "updateAclConfig -b $BROKER -a dorothea -s dorothea-secret -t orders=PUB,stock=SUB"
        " -g billing=SUB -i DENY -u SUB -w 10.0.0.* -m false",
        "create or update plain access config to $BROKER success.",
    ),
    ("getAclConfig -b $BROKER", "accessKey         : dorothea"),
    ("getAclConfig -b $BROKER", "orders=PUB"),
    ("updateAclConfig -b $BROKER -a dorothea -s dorothea-secret -t orders=DENY", "success."),
    ("getAclConfig -b $BROKER", "orders=DENY"),
    ("updateAclConfig -b $BROKER -a eve -s short", "not success."),
    (
        "updateGlobalWhiteAddr -b $BROKER -g 10.1.0.1,10.1.0.2",
        "update global white remote addresses to $BROKER success.",
    ),
    ("getAclConfig -b $BROKER", "10.1.0.2"),
    (
        "clusterAclConfigVersion -c DefaultCluster",
        "get cluster's plain access config version success.",
    ),
    ("clusterAclConfigVersion -b $BROKER", "$BROKER"),
    (
        "deleteAclConfig -b $BROKER -a dorothea",
        "delete plain access config account from $BROKER success.",
    ),
    ("getAclConfig -b $BROKER", "not dorothea"),
    ("deleteAclConfig -b $BROKER -a dorothea", "not success."),
]
ACCOUNTS = """accounts:
- accessKey: RocketMQ
  secretKey: '12345678'
  admin: true
- accessKey: anybody
  secretKey: '87654321'
"""


def mqadmin_4(folder: Path, rows: Sequence[str]) -> Outcomes:
    """Accounts: with an administrator's, and with one that has no rights."""
    found: dict[str, Outcome] = {}

    def note(row: str, ok: bool, detail: str) -> None:
        earlier = found.get(row, Outcome(True))
        kept = "; ".join(part for part in (earlier.detail, "" if ok else detail) if part)
        found[row] = Outcome(earlier.ok and ok, kept)

    with Cluster(folder) as cluster:
        accounts = cluster.folder / "plain_acl.yml"
        accounts.write_text(ACCOUNTS)
        namesrv = cluster.rocketq_namesrv()
        settings = {"aclEnable": "true", "rocketmq.acl.plain.file": str(accounts)}
        broker = cluster.rocketq_broker("a", namesrv, **settings)
        tools = cluster.folder / "conf" / "tools.yml"
        for user, secret in (("RocketMQ", "12345678"), ("anybody", "87654321")):
            tools.write_text(f"accessKey: {user}\nsecretKey: '{secret}'\n")
            session = AdminSession(cluster, namesrv, {"BROKER": broker.address}, java.V4)
            try:
                for line, text in ACCOUNT_COMMANDS:
                    said = session.run(Invocation(*_words(line)))
                    command = line.partition(" ")[0]
                    if user == "anybody":
                        row = f"mqadmin 4 {command}, no administrator"
                        cause = said.partition("Caused by: ")[2]
                        note(row, _NO_ADMINISTRATOR in cause, f"{line}: {cause[:200]}")
                        continue
                    wanted = text.removeprefix("not ").replace("$BROKER", broker.address)
                    ok = (wanted in said) != text.startswith("not ")
                    note(f"mqadmin 4 {command}", ok, f"{line}: {said[-300:]}")
            finally:
                session.close()
    return {row: each for row, each in found.items() if not rows or row in rows}


COLUMNS = [
    Column("users-java-5", "Java 5.5.0 client", partial(java_client, java.V5)),
    Column("users-java-4", "Java 4.9.8 client", partial(java_client, java.CLIENT_4)),
    Column("users-go", "Go client 2.1.2", go_client),
    Column("users-cpp", "C++ client", cpp_client),
    Column("users-java-broker", "Java 5.5.0 broker → rocketq NameServer", java_brokers),
    Column("users-mqadmin", "mqadmin 5.5.0 → rocketq", mqadmin),
    Column("users-mqadmin-4", "mqadmin 4.9.7 → rocketq", mqadmin_4),
]


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0

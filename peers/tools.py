"""mqadmin: RocketMQ's own against a Java broker and against rocketq, and beside it ours.

All brokers are given the same messages and the same connected clients; then the same commands
run against each, and have to print the same: masked.py says what may differ. A row is a command,
green when all its invocations print the same.

    mqadmin         RocketMQ's tool, a Java broker        RocketMQ's tool, our broker
    our-mqadmin     RocketMQ's tool, our broker           our tool, our broker
    our-mqadmin-set the same with a controller and a slave, and with users
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from peers import elected, java
from peers.admin_commands import COMMANDS, LASTS_MS, SET_COMMANDS, Invocation
from peers.masked import difference, of_tools
from peers.outcomes import Column, Outcome, Outcomes
from peers.servers import Cluster, Server, wait_for_line

END = "\x04"


class Session:
    """Runs commands one after another; later ones may use what earlier ones printed."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def run(self, invocation: Invocation) -> str:
        """What a command prints; words like $BROKER are filled in."""
        words = [self._filled(word) for word in (invocation.command, *invocation.words)]
        output = self._output(words, LASTS_MS.get(invocation.command, 60_000))
        for name, value in invocation.found_in(output).items():
            self._names[name] = value
        return output

    def _filled(self, word: str) -> str:
        for name, value in self._names.items():
            word = word.replace(f"${name}", value)
        return word

    def _output(self, words: list[str], within_ms: int) -> str:
        raise NotImplementedError

    def close(self) -> None:
        pass


class OurSession(Session):
    """Our `mqadmin`, a process for each command."""

    def __init__(self, cluster: Cluster, namesrv: Server, names: dict[str, str]) -> None:
        super().__init__(names)
        self._folder = cluster.folder
        self._environment = {
            **os.environ,
            "NAMESRV_ADDR": namesrv.address,
            "ROCKETMQ_HOME": str(cluster.folder),
            "PYTHONUNBUFFERED": "1",
        }

    def _output(self, words: list[str], within_ms: int) -> str:
        program = "from rocketq_command import mqadmin; mqadmin()"
        process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env=self._environment,
        )
        try:
            return process.communicate(timeout=within_ms / 1000)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0]


class AdminSession(Session):
    """One JVM that runs many commands against one cluster."""

    def __init__(
        self, cluster: Cluster, namesrv: Server, names: dict[str, str], release: str = java.V5
    ) -> None:
        super().__init__(names)
        classes = java.compiled("AdminSession.java", release)
        jvm = [*java.SMALL_JVM, f"-Drocketmq.namesrv.addr={namesrv.address}"]
        command = java.command(release, "AdminSession", cluster.folder, classes, jvm=jvm)
        with open(cluster.folder / "admin.log", "w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=cluster.folder,
                env={"ROCKETMQ_HOME": str(cluster.folder), "PATH": "/usr/bin:/bin"},
            )

    def _output(self, words: list[str], within_ms: int) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join([str(within_ms), *words]) + "\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line.rstrip("\n") == END:
                break
            lines.append(line)
        return "".join(lines)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def printed(
    folder: Path,
    start: Callable[[Cluster], tuple[Server, Server]],
    tool: type[AdminSession] | type[OurSession] = AdminSession,
) -> list[str]:
    """What every command prints against one broker."""
    with Cluster(folder) as cluster:
        namesrv, broker = start(cluster)
        classes = java.compiled("AdminSubject.java", java.V5)
        subject = cluster.run(
            "subject",
            [*java.command(java.V5, "AdminSubject", folder, classes), namesrv.address],
        )
        trace_id = wait_for_line(subject, "ready ")
        names = {
            "BROKER": broker.address,
            "NAMESRV": namesrv.address,
            "FOLDER": str(cluster.folder),
            "TRACED": trace_id,
        }
        write_lists(cluster.folder)
        session = tool(cluster, namesrv, names)
        try:
            # Rows that are not wanted still run: later commands look at what they did.
            outputs = [session.run(invocation) for invocation in COMMANDS]
            for number, (invocation, output) in enumerate(zip(COMMANDS, outputs, strict=True)):
                (cluster.folder / f"{number}-{invocation.command}.txt").write_text(output)
            return outputs
        finally:
            session.close()


def write_lists(folder: Path) -> None:
    """What updateTopicList and updateSubGroupList read."""
    (folder / "topics.json").write_text(
        '[{"topicName":"ListedTopic","readQueueNums":3,"writeQueueNums":3,"perm":6}]'
    )
    (folder / "groups.json").write_text('[{"groupName":"ListedGroup","retryMaxTimes":7}]')


def java_broker(cluster: Cluster) -> tuple[Server, Server]:
    namesrv = cluster.java_namesrv()
    return namesrv, cluster.java_broker("a", namesrv)


def our_broker(cluster: Cluster) -> tuple[Server, Server]:
    namesrv = cluster.rocketq_namesrv()
    return namesrv, cluster.rocketq_broker("a", namesrv)


def compare_brokers(folder: Path, rows: Sequence[str]) -> Outcomes:
    theirs = printed(folder / "java", java_broker)
    ours = printed(folder / "rocketq", our_broker)
    return _compared(theirs, ours, rows)


def compare_on_a_set(folder: Path, rows: Sequence[str]) -> Outcomes:
    """Both tools, one after the other, against the same controller and brokers."""
    with Cluster(folder) as cluster:
        namesrv = cluster.rocketq_namesrv()
        controller = elected.start_controller(cluster)
        members = elected.Set(cluster, namesrv, controller)
        for name in ("e1", "e2"):
            members.start(name, elected.ROCKETQ)
        master, slave = elected.in_sync(namesrv.address, controller, 2)
        names = {
            "BROKER": master,
            "SLAVE": slave,
            "CONTROLLER": controller,
            "NAMESRV": namesrv.address,
            "FOLDER": str(cluster.folder),
        }
        printed_by = []
        for tool in (AdminSession, OurSession):
            session = tool(cluster, namesrv, dict(names))
            try:
                printed_by.append([of_tools(session.run(each)) for each in SET_COMMANDS])
            finally:
                session.close()
    theirs, ours = printed_by
    return _compared(theirs, ours, rows, SET_COMMANDS)


def compare_tools(folder: Path, rows: Sequence[str]) -> Outcomes:
    theirs = printed(folder / "java", our_broker)
    ours = printed(folder / "rocketq", our_broker, OurSession)
    theirs, ours = [of_tools(each) for each in theirs], [of_tools(each) for each in ours]
    return _compared(theirs, ours, rows, with_own=False)


def _compared(
    theirs: list[str],
    ours: list[str],
    rows: Sequence[str],
    commands: Sequence[Invocation] = COMMANDS,
    *,
    with_own: bool = True,
) -> Outcomes:
    found: dict[str, Outcome] = {}
    for invocation, by_java, by_us in zip(commands, theirs, ours, strict=True):
        row = f"mqadmin {invocation.command}"
        if rows and row not in rows and invocation.command not in rows:
            continue
        if invocation.own and not with_own:
            continue
        different = difference(invocation.command, by_java, by_us)
        earlier = found.get(row, Outcome(True))
        if different:
            words = " ".join(invocation.words)
            different = f"{words}: {different}"
        detail = "; ".join(part for part in (earlier.detail, different) if part)
        found[row] = Outcome(earlier.ok and not different, detail)
    return found


COLUMNS = [
    Column("mqadmin", "mqadmin 5.5.0 → rocketq", compare_brokers),
    Column("our-mqadmin", "rocketq's mqadmin beside 5.5.0's", compare_tools),
    Column("our-mqadmin-set", "the same for controllers and users", compare_on_a_set),
]

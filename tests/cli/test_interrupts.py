"""Ctrl-C on a terminal: one rule for every command."""

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketq.testing import LocalBroker
from tests.cli.programs import ENVIRONMENT
from tests.waiting import wait_until

CTRL_C = b"\x03"
CTRL_D = b"\x04"
# What an installed `rocketq` does.
SCRIPT = "from rocketq_command import rocketq; rocketq()"
# The same, and it says when its first line is done. Before that Ctrl-C is Python's business.
MARKED = """
import os, rocketq_command
guard = rocketq_command._guard
rocketq_command._guard = lambda command: (guard(command), os.write(1, b"begun"))
rocketq_command.rocketq()
"""


class Terminal:
    """A command on a terminal of its own, as somebody sits before it."""

    def __init__(self, *arguments: str, folder: Path | None = None) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *arguments],
            env=ENVIRONMENT,
            cwd=folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._slave = slave
        self.shown = ""

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def read(self) -> str:
        while select.select([self._master], [], [], 0)[0]:
            try:
                self.shown += os.read(self._master, 4096).decode()
            except OSError:
                break
        return self.shown

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.read() or self.process.poll() is not None, text)
        assert text in self.read(), self.shown

    def end(self) -> int:
        code = self.process.wait(timeout=30)
        self.read()
        assert "Traceback" not in self.shown, self.shown
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._slave)
        os.close(self._master)


@contextmanager
def terminal(*arguments: str, folder: Path | None = None) -> Iterator[Terminal]:
    opened = Terminal(*arguments, folder=folder)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def test_typed_lines_are_sent_unharmed_and_ctrl_c_ends(broker: LocalBroker) -> None:
    with terminal("send", "typed", "-n", broker.namesrv) as screen:
        screen.wait_for("Ctrl-D ends.\r\n")
        before = len(screen.read())
        screen.press(b"hello ")
        time.sleep(0.7)  # longer than a counter would wait before it redraws
        screen.press(b"world\n")
        wait_until(lambda: [m.body for m in broker.messages("typed")] == [b"hello world"])
        assert screen.read()[before:] == "hello world\r\n"
        screen.press(CTRL_C)
        assert screen.end() == 130
        assert "1 message sent" in screen.shown


def test_ctrl_d_ends_typing_in_good_order(broker: LocalBroker) -> None:
    with terminal("send", "typed-too", "-n", broker.namesrv) as screen:
        screen.wait_for("Ctrl-D ends")
        screen.press(b"one\n" + CTRL_D)
        assert screen.end() == 0
        assert "1 message sent" in screen.shown


def test_tail_ends_with_0(broker: LocalBroker) -> None:
    broker.create_topic("quiet", queues=1)
    with terminal("tail", "quiet", "--from", "earliest", "-n", broker.namesrv) as screen:
        with terminal("send", "quiet", "here", "-n", broker.namesrv) as sender:
            assert sender.end() == 0
        screen.wait_for("here")
        screen.press(CTRL_C)
        assert screen.end() == 0


def test_up_says_where_everything_is_and_ends_with_0(tmp_path: Path) -> None:
    ports = ("--namesrv-port", "0", "--broker-port", "0")
    with terminal("up", "--dir", "here", *ports, folder=tmp_path) as screen:
        screen.wait_for("Ctrl-C stops it")
        assert str(tmp_path / "here") in screen.shown
        address = re.search(r"NameServer +(\S+)", screen.shown)
        assert address is not None
        assert f'rocketq send orders "hello" -n {address[1]}' in screen.shown
        screen.press(CTRL_C)
        screen.press(CTRL_C)
        # The second may find it still stopping, and is obeyed at once.
        assert screen.end() in (0, 130)


def test_bench_reports_what_it_has_and_ends_with_130(broker: LocalBroker) -> None:
    words = ("bench", "produce", "--seconds", "60", "-n", broker.namesrv)
    with terminal(*words) as screen:
        screen.wait_for("/s")
        screen.press(CTRL_C)
        assert screen.end() == 130
        assert "messages in" in screen.shown


@pytest.mark.parametrize(
    ("command", "code"), [("send", 130), ("tail", 0), ("up", 0), ("store", 130)]
)
def test_no_moment_of_the_start_shows_a_traceback(
    command: str, code: int, broker: LocalBroker, tmp_path: Path
) -> None:
    """Pressed ever later, and twice: from our first line on nothing but the code is left."""
    words = {
        "send": ("send", "t", "-n", broker.namesrv),
        "tail": ("tail", "t", "-n", broker.namesrv),
        "up": ("up", "--namesrv-port", "0", "--broker-port", "0"),
        "store": ("store", "check", str(tmp_path)),
    }[command]
    for step in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", MARKED, *words],
            env=ENVIRONMENT,
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.read(5) == b"begun"
        time.sleep(0.01 + step * 0.06)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
        assert b"Traceback" not in complaint, complaint.decode()
        # An empty folder is no store; a process that has ended but for its name dies of it.
        ends = {code, 130, 1 if command == "store" else code, -signal.SIGINT}
        assert process.returncode in ends, (step, complaint)

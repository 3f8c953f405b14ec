"""What servers log: form, place, level, repetitions."""

import json
import logging
import re
import signal
import subprocess
import sys
from pathlib import Path

from rocketq.cli.servers.logs import Repetitions
from tests.cli.programs import ENVIRONMENT, run, serving
from tests.waiting import wait_until

FREE = ("--namesrv-port", "0", "--broker-port", "0")


def warning(text: str, line: int = 1) -> logging.LogRecord:
    return logging.LogRecord("x", logging.WARNING, "x.py", line, text, (), None)


class Heard:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.now = 0.0
        self.filter = Repetitions(lambda record: self.told.append(record.getMessage()), self.time)

    def time(self) -> float:
        return self.now

    def say(self, text: str, line: int = 1) -> None:
        record = warning(text, line)
        if self.filter.filter(record):
            self.told.append(record.getMessage())


def test_a_warning_that_repeats_is_counted() -> None:
    heard = Heard()
    for _ in range(41):
        heard.say("nobody answers")
        heard.now += 1
    heard.say("something else", line=2)
    assert heard.told == ["nobody answers", "something else"]
    heard.now += 60
    heard.say("nobody answers")
    assert heard.told[2:] == ["nobody answers (and 40 times more)", "nobody answers"]


def test_what_was_counted_is_told_at_the_end() -> None:
    heard = Heard()
    heard.say("nobody answers")
    heard.say("nobody answers")
    heard.filter.tell_all()
    assert heard.told == ["nobody answers", "nobody answers (and once more)"]


def test_lines_carry_time_and_level(tmp_path: Path) -> None:
    with serving("up", "--dir", str(tmp_path), *FREE, "--set", "nosuchKey=1") as server:
        assert server.stop() == 0
        assert server.process.stderr is not None
        line = server.process.stderr.read()
    pattern = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING \S+: unknown configuration key nosuch"
    assert re.match(pattern, line), line


def test_a_file_of_json_lines_and_a_level_that_changes_while_it_runs(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "rocketq.log"
    options = ("--log-file", str(log), "--log-json", "--log-level", "info")
    with serving("up", "--dir", str(tmp_path / "data"), *FREE, *options) as server:
        wait_until(lambda: log.read_text())
        server.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: "log level is now debug" in log.read_text())
        server.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: "log level is now info" in log.read_text())
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"time", "level", "logger", "message"} <= records[0].keys()


def test_a_file_that_is_full_is_turned_over(tmp_path: Path) -> None:
    program = """
import logging, sys
from pathlib import Path
from rocketq.cli.servers import logs
logs._FILE_BYTES, logs._FILES = 2_000, 3
logs.log_as_server(logs.LogOptions("info", Path(sys.argv[1])))
for number in range(200):
    logging.getLogger("rocketq").info("line %04d", number)
"""
    log = tmp_path / "rocketq.log"
    subprocess.run([sys.executable, "-c", program, str(log)], env=ENVIRONMENT, check=True)
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == [f"rocketq.log{end}" for end in ("", ".1", ".2", ".3")]
    assert all(each.stat().st_size <= 2_000 for each in files)
    # The newest are kept, and no line is cut in two.
    text = "".join(each.read_text() for each in (*reversed(files[1:]), log))
    kept = [line.split()[-1] for line in text.splitlines()]
    assert kept == [f"{number:04d}" for number in range(200 - len(kept), 200)]


def test_a_recovery_after_a_crash_is_said(tmp_path: Path) -> None:
    with serving("up", "--dir", str(tmp_path), *FREE) as server:
        assert run("send", "t", "hello", "-n", server.facts["namesrv"]).returncode == 0
        server.process.kill()
        server.process.wait()
    with serving("up", "--dir", str(tmp_path), *FREE) as server:
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert "was not closed in good order: recovered" in server.process.stderr.read()


def test_a_broker_that_nobody_will_find_says_so(tmp_path: Path) -> None:
    store = f"storePathRootDir={tmp_path}"
    with serving("broker", "--port", "0", "--host", "127.0.0.1", "--set", store) as server:
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert "registers at no NameServer" in server.process.stderr.read()


def test_strict_refuses_a_key_that_is_not_known() -> None:
    for command in ("up", "broker", "namesrv"):
        key = "listenPrt" if command != "up" else "flushDiskTyp"
        ended = run(command, "--strict", "--set", f"{key}=1")
        assert ended.returncode == 1
        meant = "listenPort" if command != "up" else "flushDiskType"
        assert ended.stderr == (
            f"rocketq: unknown configuration key {key}; did you mean {meant}?\n"
        )


def test_a_quick_start_takes_little_disk(tmp_path: Path) -> None:
    with serving("up", "--dir", str(tmp_path), *FREE) as server:
        assert run("send", "t", "hello", "-n", server.facts["namesrv"]).returncode == 0
        taken = sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*"))
        assert taken < 100_000_000
        assert server.stop() == 0
    # The size stays what it was, whatever the command line would choose now.
    with serving("up", "--dir", str(tmp_path), *FREE) as server:
        assert run("store", "check", str(tmp_path)).returncode == 0
        assert server.stop() == 0


def test_the_command_is_a_module_too() -> None:
    for word in ("version", "--version", "-V"):
        ended = subprocess.run(
            [sys.executable, "-m", "rocketq", word],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ended.stdout == run("--version").stdout
    assert run("help").stdout == run("--help").stdout
    assert run("help", "tail").stdout == run("tail", "--help").stdout

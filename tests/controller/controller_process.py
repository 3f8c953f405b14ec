"""`rocketq controller` as a process that can be killed and frozen."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path


class ControllerProcess:
    """Starts with its making; `again` starts one that was killed, at the same address."""

    def __init__(
        self, endpoints: str, prefix: str, name: str, folder: Path, lease_s: int, port: int = 0
    ) -> None:
        self.name = name
        self._words = [sys.executable, "-m", "rocketq", "controller", "--etcd", endpoints]
        self._words += ["--host", "127.0.0.1", "--dir", str(folder / name)]
        self._words += ["--set", f"etcdPrefix={prefix}", "--set", f"controllerDLegerSelfId={name}"]
        self._words += ["--set", f"etcdLeaseSeconds={lease_s}"]
        self._log = folder / f"{name}.log"
        self.address = ""
        self._start(port)

    def _start(self, port: int) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [*self._words, "--port", str(port)], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        ready = re.fullmatch(r"ready controller=(\S+) pid=(\d+)\n", line)
        assert ready is not None, (line, self._log.read_text())
        assert int(ready[2]) == self._process.pid
        self.address = ready[1]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def again(self) -> None:
        self.close()
        self._start(int(self.address.rpartition(":")[2]))

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self.go_on()
        self._process.terminate()
        assert self._process.wait(30) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

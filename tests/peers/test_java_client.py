"""The official Java client against rocketq: the few seconds of `make peers` that always run."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from peers import java
from rocketq.testing import LocalBroker

FEATURES = ["send-sync", "send-batch", "pull", "query-by-key"]


@pytest.mark.skipif(
    not shutil.which("java") or not shutil.which("javac") or not java.is_installed(java.V5),
    reason="needs a JDK, and the jars that `make peers` fetches",
)
def test_the_java_client_cannot_tell_the_difference(tmp_path: Path) -> None:
    classes = java.compiled("Features.java", java.V5)
    command = java.command(java.V5, "Features", tmp_path, classes)
    with LocalBroker() as broker:
        done = subprocess.run(
            [*command, broker.namesrv, *FEATURES],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [result["feature"] for result in results if result["ok"]] == FEATURES, (
        done.stdout + done.stderr
    )

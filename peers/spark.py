"""Topics of a Java broker in Spark: the suite's own tests of reading, against a real RocketMQ.

Those tests take any cluster (tests/spark/conftest.py); each is a row.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from peers import java
from peers.outcomes import Column, Outcome, Outcomes
from peers.servers import Cluster

ROOT = Path(__file__).resolve().parent.parent
WITHIN_S = 900.0


def reads(release: str, folder: Path, rows: Sequence[str]) -> Outcomes:
    """The tests marked `peers` in tests/spark, with a broker of a release as their cluster."""
    report = folder / "report.xml"
    with Cluster(folder) as cluster:
        namesrv = cluster.java_namesrv(release)
        cluster.java_broker("a", namesrv, release)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "peers", "tests/spark"]
        with open(folder / "pytest.log", "wb") as log:
            subprocess.run(
                [*command, f"--junitxml={report}"],
                cwd=ROOT,
                env=dict(os.environ, ROCKETQ_PEER_NAMESRV=namesrv.address),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=WITHIN_S,
                check=False,
            )
    found = outcomes(report)
    return {name: found[name] for name in found if not rows or name in rows}


def outcomes(report: Path, of: str = "spark") -> dict[str, Outcome]:
    """What the tests of a JUnit report say, by their names as sentences."""
    found: dict[str, Outcome] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "").partition("[")[0].removeprefix("test_").replace("_", " ")
        failure = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        said = [] if failure is None else failure.get("message", "").splitlines()
        row, outcome = f"{of}: {name}", Outcome(failure is None, said[0] if said else "")
        # A test with parameters is one row, which its first failure turns red.
        if row not in found or found[row].ok:
            found[row] = outcome
    return found


COLUMNS = [
    Column(
        "spark-reads-5",
        "rocketq on Spark → RocketMQ 5.5.0",
        lambda folder, rows: reads(java.V5, folder, rows),
    )
]

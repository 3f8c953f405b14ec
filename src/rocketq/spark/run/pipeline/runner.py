"""Runs a pipeline project with everything set up that Spark needs.

Spark's pipelines run on Spark Connect: the program that reads the project talks to a server,
and the server does the work. For a local run both are started here and end with it. Tables are
kept in the project, so that the next run goes on where this one ended:

    storage/      checkpoints, Spark's own
    warehouse/    the tables
    catalog/      what tables there are (Spark's built-in Derby; one run at a time)
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rocketq.common.errors import RocketqError
from rocketq.spark import environment
from rocketq.spark.run.connect_server import connect_server
from rocketq.spark.wire import tally

_SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")


class NoProject(RocketqError):
    """A folder without a pipeline in it."""


def run(
    folder: Path,
    *,
    remote: str = "local[*]",
    arguments: Sequence[str] = (),
    tallied_at: str | None = None,
    on_rejected: Callable[[str, int], object] | None = None,
) -> int:
    """Run the project once; Spark's exit code.

    `remote` is a local master, or the address of a Connect server (sc://host:port).
    `tallied_at` is where tasks on this machine report what they read and write. `on_rejected` is
    told of each table named rejected_* that has got rows, and how many.
    """
    folder = folder.resolve()
    spec = _spec_of(folder)
    (folder / "storage").mkdir(exist_ok=True)
    if not remote.startswith("local"):
        return _spark_pipelines(spec, {"SPARK_REMOTE": remote}, arguments)
    if tallied_at is not None:
        os.environ[tally.ADDRESS_VARIABLE] = tallied_at  # the server's tasks inherit it
    with connect_server(remote, _server_settings(folder)) as server:
        before = _rejected()
        code = _spark_pipelines(spec, server.variables, arguments)
        if on_rejected is not None:
            for table, count in _rejected().items():
                if count > before.get(table, 0):
                    on_rejected(table, count - before.get(table, 0))
        return code


def _rejected() -> dict[str, int]:
    """How many rows the tables have that keep what was left out, by their names."""
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    names = [table.name for table in spark.catalog.listTables()]
    return {name: spark.table(name).count() for name in names if name.startswith("rejected_")}


def _spark_pipelines(spec: Path, variables: Mapping[str, str], arguments: Sequence[str]) -> int:
    """What the script `spark-pipelines` does in the end, without the JVMs it takes to get there."""
    command = [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)]
    environ = {**os.environ, **variables}
    return subprocess.run([*command, *arguments], env=environ, cwd=spec.parent).returncode


def _spec_of(folder: Path) -> Path:
    for name in _SPEC_NAMES:
        if (folder / name).is_file():
            return folder / name
    raise NoProject(
        f"{folder} has no {_SPEC_NAMES[0]}; `rocketq pipeline init {folder.name}` makes a project"
    )


def _server_settings(folder: Path) -> Mapping[str, str]:
    catalog = folder / "catalog"
    return {
        "spark.driver.extraJavaOptions": environment.quiet_java_options()
        + f' "-Dderby.system.home={catalog}"',
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={catalog / 'tables'};create=true"
        ),
    }

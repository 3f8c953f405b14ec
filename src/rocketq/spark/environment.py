"""What Spark needs from the machine, found or asked for in one clear line.

Spark runs on Java 17 or newer and starts Python workers by a name it looks up on PATH. The
traps are known: no Java, an old one, or workers that run another Python than the driver and
lack its packages.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketq.common.errors import RocketqError
from rocketq.common.extras import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_AT_LEAST: Final = 17
QUIET_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
WORKER_PATH: Final = Path(__file__).with_name("run") / "worker_path"
"""What makes Python workers start faster."""
_INSTALL_JAVA: Final = (
    "install it (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at one"
)


class SparkUnavailable(RocketqError):
    """Something Spark needs is not on this machine."""


def what_is_missing() -> str | None:
    """Why Spark cannot run here, in one line with the remedy; None when it can."""
    if importlib.util.find_spec("pyspark") is None:
        return f"pyspark is not installed: {how_to_install('spark')}"
    java = find_java()
    if java is None:
        return f"Spark needs Java {JAVA_AT_LEAST} and none was found: {_INSTALL_JAVA}"
    version = java_version(java)
    if version < JAVA_AT_LEAST:
        return f"Spark needs Java {JAVA_AT_LEAST}, {java} is {version}: {_INSTALL_JAVA}"
    return None


def prepare() -> None:
    """Set what Spark reads from the environment, unless the user has set it."""
    missing = what_is_missing()
    if missing is not None:
        raise SparkUnavailable(missing)
    java = find_java()
    assert java is not None
    home = os.environ.get("JAVA_HOME")
    if not home or not (Path(home) / "bin" / "java").is_file():
        # Spark would look nowhere else, also where JAVA_HOME is a leftover of another Java.
        os.environ["JAVA_HOME"] = str(java.resolve().parent.parent)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    on_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(WORKER_PATH) not in on_path:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(WORKER_PATH), *filter(None, on_path)])


def session(name: str, *, master: str = "local[2]", **settings: str) -> "SparkSession":
    """A Spark session that knows the format `rocketq`.

    Settings are Spark's own, with `_` for `.`: `spark_sql_shuffle_partitions="4"`. With a local
    master everything stays on the loopback interface.
    """
    prepare()
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from rocketq.spark import register

    builder = (
        SparkSession.builder.master(master)
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", quiet_java_options())
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.python.filterPushdown.enabled", "true")
    )
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    for key, value in settings.items():
        builder = builder.config(key.replace("_", "."), value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def finds_format(spark: "SparkSession", name: str) -> bool:
    """Whether Spark has found a format by itself. A Connect client cannot know."""
    inner = getattr(spark, "_jsparkSession", None)
    if inner is None:
        return False
    manager = inner.sessionState().dataSourceManager()
    return bool(manager.dataSourceExists(name))


def check_workers(spark: "SparkSession") -> None:
    """Say it, if the workers of a local Spark run a Python that lacks this package.

    Spark starts them by the name in PYSPARK_PYTHON, `python3` without it: not the Python of a
    virtual environment that is not activated.
    """
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsparkSession") else None
    if context is None or not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec)
    if python is not None and Path(python).samefile(sys.executable):
        return
    tried = python and subprocess.run([python, "-c", "import rocketq.spark"], capture_output=True)
    if not tried or tried.returncode:
        raise SparkUnavailable(
            f"Spark's workers run {context.pythonExec} ({python or 'not found'}), which has no "
            f"package rocketq: set PYSPARK_PYTHON={sys.executable} before Spark starts, or have "
            "rocketq.spark.environment.session start it"
        )


def quiet_java_options() -> str:
    """For `spark.driver.extraJavaOptions`: errors on the console, and nothing else."""
    return f"-Dlog4j2.configurationFile={QUIET_LOGGING.as_uri()}"


def find_java() -> Path | None:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    return Path(on_path) if on_path else None


@lru_cache(maxsize=8)
def java_version(java: Path) -> int:
    """The major version of a Java; 0 when it does not say."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(match[1]) if match else 0

"""The Java side: which releases are used, where their jars are, how a class is run.

Jars come from Maven once and stay in a cache outside the repository ($ROCKETQ_PEERS, by default
~/.cache/rocketq-peers), one folder a release:

    rocketmq-5.5.0, rocketmq-4.9.7     NameServer, broker, client and mqadmin
    rocketmq-client-4.9.8              the last 4.9 client; its broker was never published
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent / "rocketmq"
LAUNCHER = HERE / "rocketmq"
CACHE = Path(os.environ.get("ROCKETQ_PEERS") or Path.home() / ".cache" / "rocketq-peers")
V5, V4 = "rocketmq-5.5.0", "rocketmq-4.9.7"
CLIENT_4 = "rocketmq-client-4.9.8"
OPENS = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
]
# One client JVM among many processes on few cores: quick to start beats fast in the long run.
SMALL_JVM = ["-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


def missing_tools() -> list[str]:
    """What of Java's tools is not on this machine."""
    return [tool for tool in ("java", "javac", "mvn") if not shutil.which(tool)]


def is_installed(release: str) -> bool:
    return any((CACHE / release).glob("rocketmq-client-*.jar"))


def install(releases: Sequence[str]) -> None:
    """Fetch what is not there yet."""
    for release in releases:
        if is_installed(release):
            continue
        print(f"installing {release} into {CACHE}", flush=True)
        version = release.rpartition("-")[2]
        if release != CLIENT_4:
            subprocess.run([sys.executable, LAUNCHER, "--version", version, "install"], check=True)
            continue
        target = CACHE / release
        partial = CACHE / f"{release}.partial"
        command = ["mvn", "-q", "-B", "-f", str(HERE / "client-pom.xml")]
        command += [f"-Drocketmq.version={version}", "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
        subprocess.run(command, check=True)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)


def class_path(release: str, *more: Path) -> str:
    return os.pathsep.join([*map(str, more), f"{CACHE / release}{os.sep}*"])


def compiled(source: str, release: str, *needs: Path) -> Path:
    """The folder with the classes of one of our programs, compiled against a release.

    Several runs may want it at the same time, so it is made aside and moved into place.
    """
    target = CACHE / "peer-classes" / release / Path(source).stem
    origin = HERE / source
    stamp = target / "compiled"
    if stamp.exists() and stamp.read_text() == str(origin.stat().st_mtime_ns):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent))
    command = ["javac", "-nowarn", "-Xlint:-deprecation", "-Xlint:-unchecked", "-d", str(made)]
    command += ["-cp", class_path(release, *needs), str(origin)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    (made / "compiled").write_text(str(origin.stat().st_mtime_ns))
    shutil.rmtree(target, ignore_errors=True)
    made.rename(target)
    return target


def command(
    release: str, main: str, home: Path, *classes: Path, jvm: Sequence[str] = SMALL_JVM
) -> list[str]:
    """The command line that runs a class of a release, or one of ours compiled against it."""
    return [
        *(
            "java",
            *jvm,
            *OPENS,
            f"-Duser.home={home}",
            f"-Drocketmq.client.logRoot={home / 'logs'}",
        ),
        *("-cp", class_path(release, *classes), main),
    ]

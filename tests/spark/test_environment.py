"""What Spark needs from the machine."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from rocketq.spark import environment
from rocketq.spark.wire import tally


@pytest.fixture(autouse=True)
def _own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", "")
    environment.java_version.cache_clear()


def java_that_says(folder: Path, text: str) -> Path:
    """A program in the place of Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(0o755)
    return program


def test_no_java_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = environment.what_is_missing()
    assert missing is not None
    assert "none was found" in missing
    assert "apt-get install openjdk-17" in missing
    with pytest.raises(environment.SparkUnavailable):
        environment.prepare()


def test_a_pipeline_without_java_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-pipeline.yml").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "rocketq.cli", "pipeline", "run", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rocketq: Spark needs Java 17 and none was found: install it")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21-ea"', 21),
        ("something else", 0),
    ],
)
def test_the_version_of_java_is_read(tmp_path: Path, said: str, version: int) -> None:
    assert environment.java_version(java_that_says(tmp_path, said)) == version


def test_an_old_java_is_told_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    missing = environment.what_is_missing()
    assert missing is not None
    assert f"{tmp_path}/bin/java is 11" in missing


def test_java_home_is_set_and_workers_run_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(tmp_path, 'openjdk version "17"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "theirs")
    environment.prepare()
    assert os.environ["JAVA_HOME"] == str(tmp_path)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == "theirs", "what the user has set stays"
    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name)


def test_a_java_home_without_java_is_set_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(tmp_path, 'openjdk version "17"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    environment.prepare()
    assert os.environ["JAVA_HOME"] == str(tmp_path)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name)


def test_spark_finds_the_format_by_itself() -> None:
    """Looking for formats must not drag in the client: every Spark session does it."""
    program = (
        "import sys, pyspark_rocketq; print(pyspark_rocketq.DefaultSource.name(), "
        "'rocketq.client.cluster.instance' in sys.modules, 'pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["rocketq", "False", "False"]


def test_what_tasks_do_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with tally.Tallies() as tallies:
        monkeypatch.setenv(tally.ADDRESS_VARIABLE, tallies.address)
        for what, rows in ((tally.READ, 5), (tally.READ, 7), (tally.WRITTEN, 3)):
            task = tally.Tally(what)
            task.add(rows, 100 * rows)
            task.tell()
    assert tallies.rows == {tally.READ: 12, tally.WRITTEN: 3}
    assert tallies.bytes == {tally.READ: 1200, tally.WRITTEN: 300}


def test_nobody_watching_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tally.ADDRESS_VARIABLE, raising=False)
    task = tally.Tally(tally.READ)
    task.add(1, 1)
    task.tell()  # nobody to tell, and no failure


def said_by_python(python_path: list[Path], program: str) -> list[str]:
    """The words that a program prints, in a Python with these places to import from."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, python_path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return done.stdout.split()


def test_workers_import_the_pyspark_that_is_kept_compiled() -> None:
    installed = Path(pyspark.__file__).parent
    zip_file = installed / "python" / "lib" / "pyspark.zip"
    found, *paths = said_by_python(
        [zip_file, environment.WORKER_PATH],
        "import pyspark, sys; print(pyspark.__file__, *sys.path)",
    )
    assert Path(found) == installed / "__init__.py"
    assert str(zip_file) not in paths


def test_workers_import_a_pyspark_that_is_nowhere_else_from_its_zip_file(tmp_path: Path) -> None:
    zip_file = tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"
    zip_file.parent.mkdir(parents=True)
    with zipfile.ZipFile(zip_file, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    program = "import pyspark; print(pyspark.__file__)"
    (found,) = said_by_python([zip_file, environment.WORKER_PATH], program)
    assert Path(found) == zip_file / "pyspark" / "__init__.py"


def test_workers_run_the_sitecustomize_of_their_user_as_well(tmp_path: Path) -> None:
    theirs = tmp_path / "sitecustomize.py"
    theirs.write_text("import sys; sys.theirs = 1")
    program = "import sys, sitecustomize; print(sys.theirs, sitecustomize.__file__)"
    assert said_by_python([environment.WORKER_PATH, tmp_path], program) == ["1", str(theirs)]


def test_what_is_on_the_python_path_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(tmp_path, 'openjdk version "17"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "theirs")
    environment.prepare()
    environment.prepare()
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(environment.WORKER_PATH), "theirs"])


class Session:
    """As much of a session as is looked at."""

    _jsparkSession = None

    def __init__(self, python: str, master: str = "local[2]") -> None:
        self.sparkContext = SimpleNamespace(master=master, pythonExec=python)


def test_workers_without_the_package_are_named(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    for python in (str(other), "no-such-python"):
        with pytest.raises(environment.SparkUnavailable, match=f"run {python}.*PYSPARK_PYTHON="):
            environment.check_workers(Session(python))  # type: ignore[arg-type]
    environment.check_workers(Session(str(other), "spark://host:7077"))  # type: ignore[arg-type]
    environment.check_workers(Session(sys.executable))  # type: ignore[arg-type]

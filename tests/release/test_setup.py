"""Building the package with and without a compiler."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOT = re.findall(r'^    "(rocketq\.[a-z0-9_.]+)",$', (ROOT / "setup.py").read_text(), re.MULTILINE)
SHARED = "rocketq.common.cython_helpers"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources as somebody finds them after cloning."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    leave_out = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", folder / "src", ignore=leave_out)
    return folder


def with_c_files(tree: Path, broken: str | None = None) -> None:
    """Put small C files where a source distribution has its large ones."""
    for name in {*HOT, SHARED}:
        path = tree / "cython_c" / (name.replace(".", "/") + ".c")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("no C" if name == broken else "int here;\n")


def build(tree: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    left_out = ("ROCKETQ_PURE", "CC")
    base = {name: value for name, value in os.environ.items() if name not in left_out}
    return subprocess.run(
        [sys.executable, "setup.py", "-q", "bdist_wheel", "-d", "dist"],
        cwd=tree,
        env={**base, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def compiled_in(tree: Path) -> set[str]:
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    assert "rocketq/store/log/append.py" in names
    return {name.split(".")[0].replace("/", ".") for name in names if name.endswith(".so")}


def warnings(built: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in built.stderr.splitlines() if line.startswith("rocketq: warning")]


def test_without_a_compiler_it_installs_uncompiled_and_says_so_once(tree: Path) -> None:
    built = build(tree, PATH="")
    assert built.returncode == 0, built.stderr
    assert len(warnings(built)) == 1
    assert "Install a C compiler" in built.stderr
    assert compiled_in(tree) == set()


def test_asked_for_no_compiled_modules_it_makes_a_wheel_for_every_platform(tree: Path) -> None:
    built = build(tree, ROCKETQ_PURE="1")
    assert built.returncode == 0, built.stderr
    assert warnings(built) == []
    assert compiled_in(tree) == set()
    assert [path.name.endswith("-py3-none-any.whl") for path in (tree / "dist").iterdir()] == [True]


needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


@needs_compiler
def test_the_c_files_of_a_source_distribution_are_compiled(tree: Path) -> None:
    with_c_files(tree)
    built = build(tree)
    assert built.returncode == 0, built.stderr
    assert compiled_in(tree) == {*HOT, SHARED}


@needs_compiler
def test_when_one_module_does_not_compile_none_is_installed_compiled(tree: Path) -> None:
    with_c_files(tree, broken="rocketq.store.results")
    built = build(tree)
    assert built.returncode == 0, built.stderr
    assert len(warnings(built)) == 1
    assert compiled_in(tree) == set()


@needs_compiler
def test_a_release_fails_rather_than_to_be_uncompiled(tree: Path) -> None:
    with_c_files(tree, broken="rocketq.store.results")
    assert build(tree, ROCKETQ_PURE="0").returncode != 0
    assert build(tree, ROCKETQ_PURE="0", PATH="").returncode != 0

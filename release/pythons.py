"""`make test-pythons`: the core of the suite on every other Python that is at hand.

Each has an environment of its own, kept as .venv-3.12 and so on. The compiled modules of
several Pythons lie side by side, because their names carry the version.
"""

import subprocess
import sys
from pathlib import Path

from wheels import ROOT, VERSIONS, environment, interpreter

CORE = ("common", "message", "remoting", "filter", "store", "namesrv", "broker", "client", "cli")


def main() -> None:
    own = "{}.{}".format(*sys.version_info)
    failed = [version for version in VERSIONS if version != own and not passes(version)]
    if failed:
        sys.exit(f"failed on {', '.join(failed)}")


def passes(version: str) -> bool:
    python = interpreter(version)
    if python is None:
        print(f"{version}: no such Python here, left out")
        return True
    folder = ROOT / f".venv-{version}"
    inside = folder / "bin" / "python"
    if not inside.exists():
        environment(python, folder)
    words = [inside, "-m", "pip", "install", "-q", "--editable", f"{ROOT}[dev,compression]"]
    subprocess.run(words, check=True)
    words = [inside, "-m", "pytest", "-q", "-m", "not slow and not peers and not spark"]
    words += [Path("tests", part) for part in CORE]
    print(f"{version}:", flush=True)
    return subprocess.run(words, check=False, cwd=ROOT).returncode == 0


if __name__ == "__main__":
    main()

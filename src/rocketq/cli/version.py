"""What `rocketq --version` says."""

import importlib.machinery
import os
import platform
from pathlib import Path

import rocketq


def compiled_modules() -> list[str]:
    """The modules that run compiled, by what lies beside their sources."""
    if os.environ.get("ROCKETQ_PURE") == "1":
        return []
    root = Path(rocketq.__file__).parent
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    return sorted(
        ".".join((rocketq.__name__, *path.parent.relative_to(root).parts, path.name.split(".")[0]))
        for path in root.rglob("*")
        if path.name.endswith(suffixes)
    )


def version_line() -> str:
    form = "compiled" if compiled_modules() else "uncompiled"
    return (
        f"rocketq {rocketq.__version__} ({form}), "
        f"{platform.python_implementation()} {platform.python_version()}"
    )

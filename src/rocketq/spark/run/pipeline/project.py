"""A new pipeline project: the template, with names and addresses filled in."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketq.common.errors import RocketqError

_TEMPLATE: Final = Path(__file__).with_name("template")


class ProjectExists(RocketqError):
    """There is something already where a project was to be made."""


def init(
    folder: Path, *, namesrv: str, source: str = "orders", result: str = "order-totals"
) -> list[Path]:
    """Write a project into a new or empty folder; the files it has."""
    folder = folder.resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectExists(f"{folder} is there already, and it is not empty")
    values = {
        "NAME": re.sub(r"[^A-Za-z0-9_]", "_", folder.name),
        "STORAGE": (folder / "storage").as_uri(),
        "NAMESRV": namesrv,
        "SOURCE": source,
        "RESULT": result,
    }
    written = []
    for file in sorted(_TEMPLATE.rglob("*")):
        if file.is_dir() or "__pycache__" in file.parts:
            continue
        target = folder / file.relative_to(_TEMPLATE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_filled(file.read_text(encoding="utf-8"), values), encoding="utf-8")
        written.append(target)
    return written


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], text)

"""Each package imports only from those to its left (see ARCHITECTURE.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketq

ORDER = [
    "common",
    "message",
    "remoting",
    "filter",
    "store",
    "client",
    "namesrv",
    "controller",
    "broker",
    "proxy",
    "admin",
    "console",
    "spark",
    "cli",
]
SOURCES = Path(rocketq.__file__).parent


def imported_modules(source: Path) -> Iterator[str]:
    """The dotted names a module imports, wherever in it the import stands."""
    package = [SOURCES.name, *source.relative_to(SOURCES).parent.parts]
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module
            # `from rocketq import broker` names the package only here.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def package_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == SOURCES.name and len(parts) > 1 and parts[1] in ORDER else None


def test_every_package_has_its_place_in_the_order() -> None:
    found = {path.parent.name for path in SOURCES.glob("*/__init__.py")}
    assert found == set(ORDER)


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_from_those_to_its_left(package: str) -> None:
    allowed = ORDER[: ORDER.index(package) + 1]
    wrong = {
        f"{source.relative_to(SOURCES)} imports {module}"
        for source in sorted((SOURCES / package).rglob("*.py"))
        for module in imported_modules(source)
        if (imported := package_of(module)) is not None and imported not in allowed
    }
    assert not wrong

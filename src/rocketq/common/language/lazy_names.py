"""Module attributes that are imported when they are first used (PEP 562).

    if TYPE_CHECKING:
        from rocketq.client.blocking.producer import Producer as Producer

    __all__ = lazy_names(__name__)

The block that type checkers read is the one list there is: its lines are read here as text. A
`from module import *` in it stands for the block of that module. `from package import Name` then
costs what Name needs, and importing the package nothing.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_IMPORT: Final = re.compile(r"^    from (\S+) import (?:(\w+) as \2|(\*).*)$", re.MULTILINE)


def lazy_names(module_name: str) -> list[str]:
    """Give a module its `__getattr__` and `__dir__`; the names it offers, for its `__all__`."""
    module = sys.modules[module_name]
    homes = dict(homes_of(module_name))

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name, None)
        if value is None:  # a name that is a module itself (`errors`)
            value = importlib.import_module(f"{home}.{name}")
        setattr(module, name, value)
        return value

    def names() -> list[str]:
        dunders = {name for name in vars(module) if name.startswith("__") and name.endswith("__")}
        return sorted(dunders | homes.keys())

    module.__getattr__ = get  # type: ignore[method-assign]
    module.__dir__ = names  # type: ignore[method-assign]
    return sorted(homes)


def homes_of(module_name: str) -> Iterator[tuple[str, str]]:
    """Each name that a module's block for type checkers imports, and the module it comes from."""
    source = _source_of(module_name)
    _, _, block = source.partition("\nif TYPE_CHECKING:\n")
    for home, name, star in _IMPORT.findall(block):
        if star:
            yield from homes_of(home)
        else:
            yield name, home


def _source_of(module_name: str) -> str:
    spec = importlib.util.find_spec(module_name)
    assert spec is not None, module_name
    assert spec.origin is not None, module_name
    try:
        return Path(spec.origin).read_text("utf-8")
    except OSError:  # in an archive
        return spec.loader.get_source(module_name)  # type: ignore[union-attr, no-any-return]

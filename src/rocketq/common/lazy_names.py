"""Module attributes that are imported when they are first used (PEP 562).

    __getattr__, __dir__ = lazy_names(__name__, {"Producer": "rocketq.client.blocking.producer"})

`from package import Name` then costs what Name needs, and importing the package nothing.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    module_name: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The module's `__getattr__` and `__dir__`; `homes` says where each name is defined."""

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        # A name that is its own module (`errors`) is that module.
        value = module if home.endswith(f".{name}") else getattr(module, name)
        setattr(sys.modules[module_name], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module_name]), *homes})

    return get, names

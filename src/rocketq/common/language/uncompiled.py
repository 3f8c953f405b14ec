"""Runs the package from its sources although compiled modules lie beside them.

A hot module is one `.py` file; installing compiles it where a C compiler is found, and
Python's own order of suffixes then prefers the compiled file. `ROCKETQ_PURE=1` turns that
round: the same source, the same behaviour, no machine code. Tests run both ways.
"""

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import ClassVar


class SourcesFirst:
    """A finder for `rocketq.*` that looks for sources only."""

    _suffixes: ClassVar = importlib.machinery.SOURCE_SUFFIXES

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not name.startswith("rocketq."):
            return None
        for folder in path:
            finder = importlib.machinery.FileFinder(
                folder, (importlib.machinery.SourceFileLoader, list(cls._suffixes))
            )
            spec = finder.find_spec(name)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def prefer_sources() -> None:
    """Make every import of a rocketq module from now on take the source."""
    if SourcesFirst not in sys.meta_path:
        sys.meta_path.insert(0, SourcesFirst)


def is_compiled(module: ModuleType) -> bool:
    """Whether a module runs as machine code."""
    file = module.__file__ or ""
    return file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))

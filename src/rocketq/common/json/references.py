"""fastjson's references: `{"$ref":"$.a.b"}` stands for what was written before."""

import re
from typing import Any, Final

from rocketq.common.json.dialect import DEPTH_LIMIT, JsonError

# What references may make of a text whose reader has set no lower limit.
_EXPANDED_VALUES: Final = 1_000_000
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d{1,9})\]")


def has_references(data: bytes | bytearray | memoryview | str) -> bool:
    """Whether there may be any."""
    return ('"$ref"' in data) if isinstance(data, str) else b'"$ref"' in bytes(data)


def resolved(root: Any, value_limit: int) -> Any:
    """Put the objects themselves where `{"$ref": path}` points at them.

    One object may then stand in many places, and a few lines may stand for billions of
    values: what they expand to is counted, and refused where it is too much or endless.
    """
    ancestors: list[Any] = []

    def visit(value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        if len(ancestors) == DEPTH_LIMIT:
            raise JsonError(f"references in what is nested more than {DEPTH_LIMIT} deep")
        ancestors.append(value)
        if isinstance(value, list):
            value[:] = [visit(item) for item in value]
        elif len(value) == 1 and isinstance(value.get("$ref"), str):
            ancestors.pop()
            return target(value["$ref"])
        else:
            for name, item in value.items():
                value[name] = visit(item)
        ancestors.pop()
        return value

    def target(path: str) -> Any:
        if path == "@":
            return ancestors[-1] if ancestors else None
        if path.startswith(".."):
            levels = path.count("..")
            return ancestors[-1 - levels] if levels < len(ancestors) else None
        if not path.startswith("$"):
            return None
        found = root
        for step in _STEP.finditer(path, 1):
            try:
                found = found[step[1]] if step[1] is not None else found[int(step[2])]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    root = visit(root)
    _Expansion(min(value_limit, _EXPANDED_VALUES)).measure(root)
    return root


class _Expansion:
    """Counts what a value expands to, and how deep it goes; each object once."""

    def __init__(self, value_limit: int) -> None:
        self._value_limit = value_limit
        self._measured: dict[int, tuple[int, int] | None] = {}  # None: under way

    def measure(self, value: Any, level: int = 0) -> tuple[int, int]:
        """How many values, and how many levels of them."""
        if not isinstance(value, dict | list):
            return 1, 0
        key = id(value)
        if key in self._measured:
            known = self._measured[key]
            if known is None:
                raise JsonError("a reference to an object around it")
            return known
        if level == DEPTH_LIMIT:
            raise JsonError(f"references nested more than {DEPTH_LIMIT} deep")
        self._measured[key] = None
        count, depth = 1, 0
        for item in value.values() if isinstance(value, dict) else value:
            item_count, item_depth = self.measure(item, level + 1)
            count += item_count
            depth = max(depth, item_depth)
        if count > self._value_limit:
            raise JsonError(f"references to more than {self._value_limit} values")
        if level + depth >= DEPTH_LIMIT:
            raise JsonError(f"references nested more than {DEPTH_LIMIT} deep")
        self._measured[key] = count, depth + 1
        return count, depth + 1

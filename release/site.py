"""Hooks of mkdocs: the SDK reference is made from docstrings; links out of docs/ become paths."""

import enum
import inspect
import re
from collections.abc import Iterator
from typing import Any

import rocketq
import rocketq.testing

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")
_OPTION = re.compile(r"([a-z_]+): (.*)")
_WIDE = 80

_CLASSES = (
    "Message MessageExt MessageQueue Producer TransactionProducer SendResult SendStatus"
    " PushConsumer SimpleConsumer LitePullConsumer PullConsumer PullResult PullSchedule ConsumeFrom"
    " ConsumeLater ConsumeStatus"
    " Delivery Sql AllocationStrategy Average AverageByCircle ConsistentHash MachineRoom"
    " MachineRoomNearby FixedQueues TransactionState RocketqHandler"
).split()


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    if page.file.src_path == "reference.md":
        return "\n".join([markdown, *_reference()])
    return _OUTSIDE.sub(r"\1 (`\2`)", markdown)


def _reference() -> Iterator[str]:
    for name in _CLASSES:
        yield from _class(name, getattr(rocketq, name))
    yield from _class("testing.LocalBroker", rocketq.testing.LocalBroker)
    yield "## errors\n"
    for name, kind in inspect.getmembers(rocketq.errors, inspect.isclass):
        if issubclass(kind, Exception) and not name.startswith("_"):
            yield f"`{name}`\n:   {_prose(kind)}\n"


def _class(name: str, kind: type) -> Iterator[str]:
    yield f"## {name}\n"
    yield _prose(kind) + "\n"
    if issubclass(kind, enum.Enum):
        yield ", ".join(f"`{member.name}`" for member in kind) + "\n"
        return
    yield from _signature(name.rpartition(".")[2], kind)
    yield from _options(kind)
    for each, member in inspect.getmembers(kind):
        if each.startswith("_") or not inspect.getdoc(member):
            continue
        if callable(member):
            yield f"### {name}.{each}\n"
            yield from _signature(each, member)
            yield _prose(member) + "\n"
        else:
            yield f"`{each}`\n:   {_prose(member)}\n"


def _signature(name: str, value: Any) -> Iterator[str]:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return
    words = [str(each).replace("'", "") for each in parameters if each.name != "self"]
    line = f"{name}({', '.join(words)})"
    if len(line) > _WIDE:
        line = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + ")"
    yield f"```python\n{line}\n```\n"


def _options(kind: type) -> Iterator[str]:
    """The lines `name: meaning` in a constructor's docstring, as a table."""
    text = inspect.getdoc(kind.__init__) or ""  # type: ignore[misc]
    rows: list[list[str]] = []
    for line in text.splitlines():
        found = _OPTION.fullmatch(line)
        if found:
            rows.append([found[1], found[2]])
        elif rows and line.startswith("    "):
            rows[-1][1] += " " + line.strip()
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from (
            f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |" for name, meaning in rows
        )
        yield ""


def _prose(value: object) -> str:
    text = inspect.getdoc(value) or ""
    # Docstrings are plain text: angle brackets and indented parts are meant as they stand.
    return re.sub(r"<(?=\w)", "&lt;", text)

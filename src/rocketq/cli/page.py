"""`python -m rocketq.cli.page`: docs/commands.md, made from what the commands say of themselves."""

import importlib
from collections.abc import Iterator

from rocketq.cli.app import COMMANDS
from rocketq.cli.commands import Described, described

_HEAD = """\
# Commands

Made by `python -m rocketq.cli.page > docs/commands.md` from what the commands say of themselves.
`rocketq help COMMAND` shows the same in a terminal, `rocketq completion` makes the Tab key know it.

Ctrl-C ends every command without a traceback: servers and `tail` with code 0, others, which it cuts
short, with 130. A mistake is one line on stderr and code 1, a wrong option code 2.
"""


# How lines begin that are typed or laid out, not prose.
_CODE = ("rocketq ", "cat ", "source ", "  ")


def page() -> str:
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for name, lazy in COMMANDS.items():
        found: dict[str, Described] = {}
        for module in lazy.modules():
            found |= described(importlib.import_module(module).run)
        yield f"## rocketq {name}\n\n{lazy.summary}\n"
        for sub, each in found.items():
            if sub:
                yield f"### rocketq {name} {sub}\n"
            yield from _command(each)


def _command(each: Described) -> Iterator[str]:
    paragraphs = [part for part in each.text.split("\n\n") if part.strip()]
    for paragraph in paragraphs:
        lines = paragraph.splitlines()
        is_code = all(line.startswith(_CODE) or "   " in line for line in lines)
        yield "\n".join(f"    {line}" if is_code else line for line in lines) + "\n"
    if each.options:
        yield "| | |\n|---|---|"
        for option in each.options:
            yield f"| `{_cell(option.names)}` | {_cell(option.help)} |"
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")

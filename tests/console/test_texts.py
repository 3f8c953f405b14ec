"""Every text of the pages has its Chinese one."""

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import rocketq.console
from rocketq.admin.messages import TrackType
from rocketq.console.access import Role
from rocketq.console.catalog import Kind
from rocketq.console.chinese import CHINESE
from rocketq.console.pages import PAGES
from rocketq.console.texts import Texts, preferred
from rocketq.console.widgets.frame import MENU

# What is called with a text as its first argument.
_SPEAKERS = {"t", "_t", "change", "_everywhere"}


def constants(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may stand for."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from constants(node.body)
        yield from constants(node.orelse)


def spoken() -> Iterator[str]:
    for path in Path(rocketq.console.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                function = node.func
                name = getattr(function, "id", None) or getattr(function, "attr", "")
                if name in _SPEAKERS:
                    yield from constants(node.args[0])
    for heading, entries in MENU:
        yield from ([heading] if heading else [])
        yield from (entry.title for entry in entries)
    yield from (title for _, title, _ in PAGES)
    yield from (role.name.lower() for role in Role)
    yield from (kind.value.title() for kind in Kind)
    yield from (kind.value.lower().replace("_", " ") for kind in TrackType)


def test_every_text_has_a_chinese_one() -> None:
    texts = set(spoken())
    assert len(texts) > 200
    assert sorted(texts - CHINESE.keys()) == []


def test_a_chinese_text_has_the_same_blanks() -> None:
    def blanks(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    for english, chinese in CHINESE.items():
        assert blanks(chinese) == blanks(english), english


def test_a_browser_gets_its_language() -> None:
    assert preferred("zh-CN,zh;q=0.9,en;q=0.8") == "zh"
    assert preferred("de,zh;q=0.5") == "en"
    assert Texts("zh")("Topics") == "主题"
    assert Texts("fr")("{count} today", count=3) == "3 today"

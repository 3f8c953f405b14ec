"""The pages in docs/: their programs run, their commands work, the page of commands is current."""

import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketq import Message, Producer
from rocketq.broker.metrics import families
from rocketq.cli import metrics_page
from rocketq.cli.page import page
from rocketq.common.metrics import monitoring
from rocketq.controller import metrics as controller
from rocketq.namesrv import metrics as namesrv
from rocketq.spark.environment import what_is_missing
from rocketq.testing import LocalBroker
from tests.cli.programs import ENVIRONMENT

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Block:
    def __init__(self, match: re.Match[str]) -> None:
        self.language, self.mark, self.code = match[1], match[2], match[3]
        self.line = match.string[: match.start()].count("\n") + 1


def blocks(name: str) -> list[Block]:
    return [Block(match) for match in BLOCK.finditer((DOCS / name).read_text())]


def run_program(code: str, namesrv: str) -> None:
    code = code.replace("127.0.0.1:9876", namesrv)
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**ENVIRONMENT, "NAMESRV_ADDR": namesrv},
        input="\n",  # for the one that waits for Enter
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        with Producer("earlier", namesrv=broker.namesrv) as producer:
            producer.send(Message("orders", b"{}", tags="paid"))
        yield broker


PROGRAMS = [
    pytest.param(block.code, id=f"{name} line {block.line}")
    for name in ("../README.md", "from-kafka.md", "from-rocketmq.md")
    for block in blocks(name)
    if block.language == "python" and "pyspark" not in block.code
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_of_a_page_runs(code: str, broker: LocalBroker) -> None:
    run_program(code, broker.namesrv)


def test_what_a_page_shows_as_python_is_python() -> None:
    """Also where it is not run, because it needs a cluster, a client of others, or files."""
    pages = ["../README.md", *(path.name for path in DOCS.glob("*.md"))]
    programs = [
        (name, block)
        for name in pages
        if name != "compiled.md"  # two files beside each other
        for block in blocks(name)
        if block.language == "python" and not block.code.startswith(".")  # a fragment
    ]
    assert len(programs) > 25
    for name, block in programs:
        compile(block.code, f"{name} line {block.line}", "exec")


def run_tutorial(folder: Path, *, with_spark: bool) -> None:
    """Every block in turn, as somebody would who reads on; text blocks are what is printed."""
    programs = folder / "bin"
    programs.mkdir()
    command = programs / "rocketq"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rocketq "$@"\n')
    command.chmod(0o755)
    with LocalBroker() as broker:
        environment = {
            **ENVIRONMENT,
            "NAMESRV_ADDR": broker.namesrv,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        printed = ""
        for block in blocks("tutorial.md"):
            if block.language == "sh":
                ended = subprocess.run(
                    ["bash", "-e", "-o", "pipefail", "-c", block.code],
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                assert ended.returncode == 0, (block.code, ended.stderr)
                printed = ended.stdout
            elif block.language == "text":
                assert printed == block.code
            elif block.mark != "spark" or with_spark:
                run_program(block.code, broker.namesrv)


def test_the_tutorial_works_step_by_step(tmp_path: Path) -> None:
    run_tutorial(tmp_path, with_spark=False)


@pytest.mark.spark
@pytest.mark.skipif(what_is_missing() is not None, reason="needs Spark and Java")
def test_the_tutorial_works_up_to_spark(tmp_path: Path) -> None:
    run_tutorial(tmp_path, with_spark=True)


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    assert (DOCS / "commands.md").read_text() == page(), (
        "make it anew: python -m rocketq.cli.page > docs/commands.md"
    )


def test_the_page_of_metrics_is_what_the_code_declares() -> None:
    assert (DOCS / "metrics.md").read_text() == "\n".join(metrics_page.page()).rstrip() + "\n", (
        "make it anew: python -m rocketq.cli.metrics_page > docs/metrics.md"
    )
    named = {line.split("`")[1] for line in metrics_page.page() if line.startswith("| `ro")}
    declared = (*families.FAMILIES, *monitoring.FAMILIES, *namesrv.FAMILIES, *controller.FAMILIES)
    assert named >= {family.name for family in declared if family.name.startswith("ro")}


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    for source in pages:
        for target in re.findall(r"\]\(([^)#\s]+)", source.read_text()):
            if "://" not in target:
                assert (source.parent / target).exists(), f"{source.name}: {target}"


@pytest.mark.parametrize("page_name", ["ARCHITECTURE.md", "docs/compiled.md"])
def test_the_modules_that_a_page_names_are_there(page_name: str) -> None:
    sources = ROOT / "src" / "rocketq"
    there = {f"/{path.relative_to(sources).with_suffix('')}" for path in sources.rglob("*")}
    named = re.findall(r"`([a-z0-9_./]+)`", (ROOT / page_name).read_text())
    modules = [name for name in named if "/" in name or name.endswith(".py")]
    assert modules
    for name in modules:
        ending = "/" + name.strip("/").removesuffix(".py")
        assert any(path.endswith(ending) for path in there) or (ROOT / name).exists(), name


def test_a_line_that_installs_an_extra_works_from_the_sources() -> None:
    """It is on no index: `pip install rocketq[spark]` finds nothing."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*DOCS.glob("*.md"), ROOT / "README.md", *(ROOT / "examples").rglob("*.py")]
    for path in [*texts, *(ROOT / "src").rglob("*.py")]:
        text = path.read_text()
        assert not re.search(r"pip install[ \n]+\W?rocketq", text), path
        named = re.findall(r"pip install '\.\[(\w+)\]'|how_to_install\(\W(\w+)\W\)", text)
        for extra in filter(None, itertools.chain(*named)):
            assert extra in declared["optional-dependencies"], (path, extra)

"""The programs of README.md and docs/spark.md on a real Spark."""

from pathlib import Path

import pytest

from rocketq import Message, Producer
from rocketq.spark.environment import what_is_missing
from rocketq.testing import LocalBroker
from tests.cli.programs import run
from tests.docs.test_pages import Block, blocks, run_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(what_is_missing() is not None, reason="needs Spark and Java"),
]


def statements(block: Block) -> list[str]:
    if block.language != "sql":
        return [block.code]
    return [f"spark.sql('''{each}''')" for each in block.code.split(";") if each.strip()]


def to_its_end(code: list[str]) -> str:
    """A program whose streams take what there is, where the page's would wait for more."""
    caught_up = "\nfor each in spark.streams.active:\n    each.processAllAvailable()\n"
    whole = caught_up.join([*code, "spark.stop()"])
    return whole.replace(".awaitTermination()", ".processAllAvailable()")


def test_the_program_of_the_readme_runs() -> None:
    (program,) = (each.code for each in blocks("../README.md") if "pyspark" in each.code)
    with LocalBroker() as broker:
        broker.create_topic("orders")
        run_program(to_its_end([program]), broker.namesrv)


def test_the_programs_of_the_page_run_one_after_the_other(tmp_path: Path) -> None:
    programs = [
        statement.replace("/data", str(tmp_path))
        for block in blocks("spark.md")
        if block.language in ("python", "sql") and not block.code.startswith(".")  # a fragment
        for statement in statements(block)
    ]
    assert len(programs) >= 9
    with LocalBroker(folder=tmp_path / "rocketmq") as broker:
        with Producer("earlier", namesrv=broker.namesrv) as producer:
            producer.send(Message("orders", b'{"city": "Oslo", "cents": 1}', tags="paid"))
        archive = ("archive", "run", str(tmp_path / "archive"), "--topics", "orders", "--once")
        assert run(*archive, "-n", broker.namesrv).returncode == 0
        programs.append("assert table.count() > 0 and whole.count() > 0")
        run_program(to_its_end(programs), broker.namesrv)

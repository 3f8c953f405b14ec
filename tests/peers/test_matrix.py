"""What the matrix makes of outcomes and outputs; no Java needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from peers.masked import difference
from peers.outcomes import Column, Outcome, read_lines
from peers.table import Table

from peers import page, record, spark, table

ROOT = Path(__file__).resolve().parents[2]


def column(name: str) -> Column:
    return Column(name, f"{name} column", lambda folder, rows: {})


def table_of(**cells: bool) -> Table:
    outcomes = {row: Outcome(ok, "" if ok else "why") for row, ok in cells.items()}
    return Table([column("one")], {"one": outcomes})


@pytest.fixture(autouse=True)
def _expected_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "EXPECTED", tmp_path / "expected.json")


def test_a_cell_that_was_green_and_is_not_is_a_regression() -> None:
    table.remember(table_of(delay=True, retry=True))
    assert table.regressions(table_of(delay=True, retry=False), []) == ["one column: retry: why"]


def test_a_green_cell_that_was_not_run_is_a_regression_unless_left_out() -> None:
    table.remember(table_of(delay=True, retry=True))
    assert table.regressions(table_of(delay=True), []) == ["one column: retry: not run"]
    assert table.regressions(table_of(delay=True), ["delay"]) == []


def test_a_cell_that_was_never_green_may_fail() -> None:
    table.remember(table_of(delay=True, retry=False))
    assert table.regressions(table_of(delay=True, retry=False), []) == []


def test_the_table_names_rows_and_columns() -> None:
    text = table_of(delay=True, retry=False).text()
    assert "1  one column" in text
    assert text.splitlines()[-2:] == ["delay  yes", "retry   NO"]


def test_the_page_keeps_what_was_written_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "compatibility.md")
    monkeypatch.setattr(page, "ROOT", tmp_path)
    monkeypatch.setattr(page, "PARTS", [("Clients", "They work.", [])])
    monkeypatch.setattr("peers.clients.java_version", lambda: "java 17")
    page.PAGE.write_text(f"old\n\n{page.ON_PURPOSE}\n\nby hand\n")
    page.write(table_of(delay=True), {"one": "2026-01-02"})
    text = page.PAGE.read_text()
    assert "old" not in text
    assert "Last run: 2026-01-02, java 17." in text
    assert text.endswith(f"{page.ON_PURPOSE}\n\nby hand\n")


def test_a_run_of_one_column_leaves_the_results_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RECORD", tmp_path / "build" / "peers.json")
    one, two, three = column("one"), column("two"), column("three")
    record.keep(Table([one, two], {"one": {"delay": Outcome(True)}, "two": {}}))
    record.keep(Table([two], {"two": {"delay": Outcome(False, "why")}}))
    newest, dates = record.newest([one, two, three])
    assert newest.columns == [one, two]
    assert newest.outcomes == {
        "one": {"delay": Outcome(True)},
        "two": {"delay": Outcome(False, "why")},
    }
    assert dates.keys() == {"one", "two"}


def test_a_test_with_parameters_is_one_row(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="test_it_fits[a]"/><testcase name="test_it_fits[b]">'
        '<failure message="wrong"/></testcase><testcase name="test_it_fits[c]"/>'
        "</testsuite></testsuites>"
    )
    assert spark.outcomes(report, "console") == {"console: it fits": Outcome(False, "wrong")}


def test_lines_that_are_no_results_are_passed_over() -> None:
    lines = ["RocketMQLog:WARN", '{"feature":"delay","ok":true,"ms":1042,"detail":""}']
    assert read_lines(lines) == {"delay": Outcome(True)}


def test_tests_of_the_suite_are_rows_by_their_names(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="test_rows_are_read[rocketmq]"/>'
        '<testcase name="test_times_are_found[rocketmq]"><failure message="wrong&#10;more"/>'
        "</testcase></testsuite></testsuites>"
    )
    assert spark.outcomes(report) == {
        "spark: rows are read": Outcome(True),
        "spark: times are found": Outcome(False, "wrong"),
    }


def test_outputs_are_the_same_up_to_addresses_times_ids_and_order() -> None:
    theirs = "a  127.0.0.1:10911  2026-01-02 03:04:05\nb 7F000001000012345678901234567890 5\n"
    ours = "b  7F00000100001234567890123456ABCD  5\na 127.0.0.1:7 2026-06-07 08:09:10,123\n"
    assert difference("topicRoute", theirs, ours) == ""


def test_outputs_that_differ_show_how() -> None:
    assert difference("topicRoute", "queues 4\n", "queues 8\n") == "[-queues 4] [+queues 8]"


def test_figures_of_the_moment_do_not_count_where_a_command_prints_them() -> None:
    assert difference("brokerStatus", "putTps : 12\n", "putTps : 345\n") == ""


def test_without_java_the_matrix_says_so_and_succeeds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "peers.matrix"],
        cwd=ROOT,
        env=dict(os.environ, PATH="/nonexistent"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("skipped: the matrix needs Java 17 and Maven")
    assert done.stdout.count("\n") == 1

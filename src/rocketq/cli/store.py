"""`rocketq store`: look into a broker's files, with or without a broker running on them."""

from pathlib import Path
from typing import Annotated

from rocketq.cli import options
from rocketq.cli.commands import Argument, Option, group
from rocketq.cli.failures import fail, log_to_stderr
from rocketq.common import json
from rocketq.common.errors import RocketqError

Directory = Annotated[
    Path, Argument(metavar="DIR", help="The store: the directory that holds `commitlog`.")
]


def check(directory: Directory, as_json: options.Json = False) -> None:
    """Verify every record, queue entry and index entry; code 1 when something was lost."""
    from rocketq.store.inspect.check import Severity, check_store

    log_to_stderr(0)
    _check_is_store(directory)
    errors = 0
    try:
        for finding in check_store(directory):
            errors += finding.severity is Severity.ERROR
            if as_json:
                plain = {
                    "severity": finding.severity.value,
                    "place": finding.place,
                    "text": finding.text,
                }
                print(json.standard_dumps(plain).decode())
            else:
                print(finding)
    except (RocketqError, OSError) as error:
        fail(error)
    if errors:
        raise SystemExit(1)


def dump(
    directory: Directory,
    topic: Annotated[
        str | None, Option("--topic", metavar="T", help="Only messages of this topic.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the messages in the order in which they were stored, one a line."""
    from rocketq.cli.message_text import data_of, line_of
    from rocketq.store.inspect.dump import dump_store

    log_to_stderr(0)
    _check_is_store(directory)
    try:
        for message in dump_store(directory, topic):
            if as_json:
                print(json.standard_dumps(data_of(message)).decode())
            else:
                print(line_of(message))
    except BrokenPipeError:
        pass  # whoever read it has seen enough
    except (RocketqError, OSError) as error:
        fail(error)


def _check_is_store(directory: Path) -> None:
    if not (directory / "commitlog").is_dir():
        fail(f"{directory} is no store: it holds no commitlog directory")


run = group(
    "Look into a broker's files.\n\n"
    "Nothing is changed or locked: it works while a broker runs, and on stores that Java\n"
    "RocketMQ wrote.",
    {"check": check, "dump": dump},
)

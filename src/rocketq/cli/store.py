"""`rocketq store`: look into a broker's files, with or without a broker running on them."""

from itertools import chain
from pathlib import Path
from typing import Annotated

from rocketq.cli import options
from rocketq.cli.commands import Argument, Option, group
from rocketq.cli.failures import fail, log_to_stderr
from rocketq.common import json
from rocketq.common.errors import RocketqError

Directory = Annotated[
    Path,
    Argument(metavar="DIR", help="What `rocketq up --dir` names, or a store with its `commitlog`."),
]


def check(directory: Directory, as_json: options.Json = False) -> None:
    """Verify every record, queue entry and index entry; code 1 when something is lost."""
    from rocketq.store.inspect.check import Severity, check_store

    log_to_stderr(0)
    stores = _stores(directory)
    errors = 0
    try:
        for finding in chain.from_iterable(map(check_store, stores)):
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
    """Print the messages in the order in which they were stored, one per line."""
    from rocketq.cli.messages.text import data_of, text_of
    from rocketq.store.inspect.dump import dump_store

    log_to_stderr(0)
    stores = _stores(directory)
    try:
        for message in chain.from_iterable(dump_store(store, topic) for store in stores):
            if as_json:
                print(json.standard_dumps(data_of(message)).decode())
            else:
                print(text_of(message))
    except BrokenPipeError:
        pass  # whoever read it has seen enough
    except (RocketqError, OSError) as error:
        fail(error)


def _stores(directory: Path) -> list[Path]:
    """The directory itself, or what `rocketq up` keeps in it: one store, or one for each broker."""
    inside = [directory, directory / "store", *sorted(directory.glob("broker-*"))]
    found = [each for each in inside if (each / "commitlog").is_dir()]
    if not found:
        fail(f"{directory} is no store: it holds no commitlog directory")
    return found[:1] if found[0] == directory else found


run = group(
    "Look into a broker's files.\n\n"
    "Nothing is changed or locked: it works while a broker runs, and on stores that Java\n"
    "RocketMQ wrote.",
    {"check": check, "dump": dump},
)

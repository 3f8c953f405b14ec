"""Configuration from the command line: a file, then `--set KEY=VALUE`, then options."""

from collections.abc import Collection, Iterable
from pathlib import Path

from rocketq.cli.failures import CannotStart
from rocketq.cli.servers.logs import LogOptions, log_as_server
from rocketq.common.config import nearest_key, parse_properties, settings, to_shown


def read_file(path: Path | None) -> dict[str, str]:
    """The keys of a `.conf` or `.properties` file."""
    if path is None:
        return {}
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CannotStart(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CannotStart(f"{path} is not a text file") from None


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """The values of `--set`."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CannotStart(f"--set {text}: write it as KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings


def check_known(given: Iterable[str], *classes: type, strict: bool) -> None:
    """With `--strict`, a key that nobody knows is an error; else loading warns of it."""
    known = {key for cls in classes for key in settings(cls)}
    unknown = [key for key in given if key not in known]
    if strict and unknown:
        nearest = nearest_key(unknown[0], known)
        hint = f"; did you mean {nearest}?" if nearest else ""
        raise CannotStart(f"unknown configuration key {unknown[0]}{hint}")


def start_logging(logs: LogOptions) -> None:
    try:
        log_as_server(logs)
    except OSError as error:
        raise CannotStart(f"cannot log to {logs.file}: {error.strerror}") from None


def print_options(*configs: object, only: Collection[str] | None = None) -> None:
    """Options as `name=value`, in the order of their names."""
    merged = {key: value for config in configs for key, value in to_shown(config).items()}
    for key in sorted(merged):
        if only is None or key in only:
            print(f"{key}={merged[key]}")

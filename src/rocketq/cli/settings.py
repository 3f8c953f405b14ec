"""Configuration from the command line: a file, then `--set KEY=VALUE`, then options."""

from collections.abc import Collection, Iterable
from pathlib import Path

from rocketq.cli.failures import CannotStart
from rocketq.common.config import parse_properties, to_properties


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


def print_options(*configs: object, only: Collection[str] | None = None) -> None:
    """Options as `name=value`, in the order of their names."""
    merged = {key: value for config in configs for key, value in to_properties(config).items()}
    for key in sorted(merged):
        if only is None or key in only:
            print(f"{key}={merged[key]}")

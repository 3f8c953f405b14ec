"""Between Python's spelling of a name and Java's.

Field names on the wire and in configuration files are those of RocketMQ's Java classes;
ours are the same words in snake_case, so one can be derived from the other.
"""

import re

_WORD_START = re.compile(r"_([a-z0-9])")


def camel_case(name: str) -> str:
    """`flush_interval_ms` -> `flushIntervalMs`."""
    return _WORD_START.sub(lambda match: match[1].upper(), name)

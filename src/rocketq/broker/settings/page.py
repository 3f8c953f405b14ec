"""A broker's part of docs/settings.md, made from the table."""

from typing import Final

from rocketq.broker.config import BrokerConfig
from rocketq.broker.settings.rows import Row, Standing
from rocketq.broker.settings.table import SECTIONS
from rocketq.common.config import settings, to_properties
from rocketq.store import StoreConfig

_HEAD: Final = """\
# Settings

Made from the code by `python -m rocketq.cli.settings_page > docs/settings.md`.

Those of a broker come first, then those of [a NameServer](#nameserver),
[a controller](#controller) and [a proxy](#proxy).

A broker's settings are the keys of RocketMQ's `broker.conf`: in the file given with `-c`, as
`--set key=value`, or changed with `updateBrokerConfig`. Times are milliseconds and sizes are
bytes unless the key says otherwise. `getBrokerConfig` and `rocketq broker -p` show those that
count.

- **live**: a change counts at once. Others count from the next start on; a change is kept in
  the file, and the answer says so.
- A value outside its range, or with a control character in it, stops the start and is refused
  as a change. A key that nobody knows is named in the log with the nearest one, and refused as
  a change.
- What asks for protection or for a feature that is not there stops the start.
"""

# Their defaults depend on the machine.
_FOUND_OUT: Final = {
    "brokerName": "host name",
    "brokerIP1": "own address",
    "brokerIP2": "brokerIP1",
    "rocketmqHome": "`$ROCKETMQ_HOME`",
    "namesrvAddr": "`$NAMESRV_ADDR`",
    "storePathRootDir": "`~/store`",
}


def page() -> str:
    """The whole page."""
    defaults = to_properties(BrokerConfig(broker_name="-", broker_ip1="127.0.0.1"))
    defaults |= to_properties(StoreConfig())
    known = {**settings(BrokerConfig), **settings(StoreConfig)}
    parts = [_HEAD]
    for section in SECTIONS:
        parts.append(f"\n## {section.title}\n\n")
        standing = section.rows[0].standing
        if standing is Standing.NOT_THERE:
            parts.append("Values other than those named here stop the start.\n\n")
            parts.append("| key | may be | because |\n|---|---|---|\n")
            parts += [_missing(row) for row in section.rows]
        elif standing is Standing.NO_EFFECT:
            parts.append("Keys of RocketMQ's that mean nothing here; one line says so.\n")
            parts += _idle(section.rows)
        else:
            parts.append("| key | default | may be | live | meaning |\n|---|---|---|---|---|\n")
            parts += [
                _counting(row, defaults.get(row.key, ""), known[row.key].kind)
                for row in section.rows
            ]
    return "".join(parts)


def _counting(row: Row, default: str, kind: type) -> str:
    if row.lowest is not None:
        allowed = f"{row.lowest} to {row.highest}"
    elif row.choices:
        allowed = ", ".join(row.choices)
    else:
        allowed = "true, false" if kind is bool else "text"
    shown = _FOUND_OUT.get(row.key, default) or "none"
    is_live = "live" if row.standing is Standing.LIVE else ""
    ours = " *(rocketq's own)*" if row.is_ours else ""
    return f"| `{row.key}` | {shown} | {allowed} | {is_live} | {row.meaning}{ours} |\n"


def _missing(row: Row) -> str:
    harmless = ", ".join(choice or "empty" for choice in row.choices)
    return f"| `{row.key}` | {harmless} | {row.meaning} |\n"


def _idle(rows: tuple[Row, ...]) -> list[str]:
    """One paragraph for each reason."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.meaning, []).append(f"`{row.key}`")
    return [f"\n{reason}\n\n{', '.join(keys)}\n" for reason, keys in by_reason.items()]

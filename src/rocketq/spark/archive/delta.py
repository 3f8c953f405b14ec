"""An archive as a Delta table: the same files, listed in Delta's log as well.

The table is `DIR/data`. Nothing is written twice: a round of the archiver ends with one commit to
Delta's log that adds and removes what the ledger has added and removed since. The ledger decides; a
crash between the two is made up for by the next round. It needs the package deltalake.
"""

import json
import time
from datetime import UTC, datetime
from typing import Any

from rocketq.common.errors import RocketqError
from rocketq.common.extras import how_to_install
from rocketq.spark.archive.ledger import DATA, ArchivedFile, Ledger
from rocketq.spark.archive.parquet import SCHEMA


class NoDelta(RocketqError):
    """The package is not installed."""


class DeltaTwin:
    """Delta's list of an archive's files."""

    def __init__(self, ledger: Ledger) -> None:
        try:
            import deltalake
        except ImportError:
            raise NoDelta(f"Delta tables need the extra delta: {how_to_install('delta')}") from None
        self._ledger = ledger
        self._place = str(ledger.root / DATA)
        self._deltalake: Any = deltalake
        self._table: Any = None

    def update(self) -> int:
        """Make the list that of the ledger; how many files came or went."""
        if self._table is None:
            create = self._deltalake.DeltaTable.create
            self._table = create(self._place, SCHEMA, mode="ignore", name="rocketq archive")
        self._table.update_incremental()
        listed = {_below_data(uri) for uri in self._table.file_uris()}
        files = {file.path: file for file in self._ledger.files}
        changes = [_added(file) for path, file in files.items() if path not in listed]
        changes += [_removed(path) for path in sorted(listed - files.keys())]
        if changes:
            schema = self._table.schema()
            self._table.create_write_transaction(changes, mode="append", schema=schema)
        return len(changes)


def _below_data(uri: str) -> str:
    """Topic, day and name, as the ledger has them."""
    return "/".join(uri.split("/")[-3:])


def _added(file: ArchivedFile) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={},
        modification_time=file.last_ms,
        data_change=True,
        stats=json.dumps(_stats(file)),
    )


def _removed(path: str) -> Any:
    from deltalake.transaction import RemoveAction

    return RemoveAction(path, data_change=True, deletion_timestamp=int(time.time() * 1000))


def _stats(file: ArchivedFile) -> dict[str, Any]:
    """What lets readers pass a file by."""
    place = {"topic": file.topic, "broker_name": file.broker, "queue_id": file.queue_id}
    return {
        "numRecords": file.rows,
        "minValues": {**place, "store_timestamp": _moment(file.first_ms)},
        "maxValues": {**place, "store_timestamp": _moment(file.last_ms + 1)},
    }


def _moment(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

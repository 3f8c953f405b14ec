"""Which of the brokers of its name this one is, where a controller gives them their ids.

Two small files of RocketMQ in the store's directory:

    brokerIdentity        cluster#name#id               the id is this broker's for good
    brokerIdentity-temp   cluster#name#id#checkCode     it was asked for; nobody knows if granted

The check code, `address;milliseconds`, tells the controller that whoever asks again for an id is
the same that asked before. So an answer that got lost costs nothing.
"""

from pathlib import Path
from typing import Final, NamedTuple

from rocketq.common.files import write_atomically
from rocketq.common.numbers import parse_natural

_FILE: Final = "brokerIdentity"
_TEMPORARY: Final = "brokerIdentity-temp"
_LONG: Final = 2**63 - 1


class IdentityMismatch(ValueError):
    """The directory is another broker's."""


class Identity(NamedTuple):
    """A broker id, asked for or granted."""

    broker_id: int
    check_code: str = ""


class IdentityFiles:
    """Reads and writes both. Belongs to the broker that has the directory's lock."""

    def __init__(self, root: Path, cluster: str, name: str) -> None:
        self._root = root
        self._cluster = cluster
        self._name = name

    def granted(self) -> Identity | None:
        """The id of this broker; None if it has none yet."""
        return self._read(_FILE, parts=3)

    def asked(self) -> Identity | None:
        """The id that was asked for last; None if that is settled."""
        return self._read(_TEMPORARY, parts=4)

    def ask(self, identity: Identity) -> None:
        self._write(_TEMPORARY, str(identity.broker_id), identity.check_code)

    def grant(self, identity: Identity) -> None:
        self._write(_FILE, str(identity.broker_id))
        self.give_up()

    def give_up(self) -> None:
        """What was asked for is another's."""
        (self._root / _TEMPORARY).unlink(missing_ok=True)

    def _write(self, file: str, *rest: str) -> None:
        text = "#".join((self._cluster, self._name, *rest))
        write_atomically(self._root / file, text.encode(), keep_backup=False)

    def _read(self, file: str, *, parts: int) -> Identity | None:
        path = self._root / file
        try:
            text = path.read_text().strip()
        except FileNotFoundError:
            return None
        found = text.split("#")
        broker_id = parse_natural(found[2], _LONG) if len(found) == parts else None
        if broker_id is None or found[0] != self._cluster or found[1] != self._name:
            raise IdentityMismatch(
                f"{path} says {text!r}, this is broker {self._name} of cluster {self._cluster}. "
                "If the directory is this broker's all the same, delete the file: it gets a new id"
            )
        return Identity(broker_id, found[3] if parts == 4 else "")

"""Whether a slave's log is the beginning of its master's, asked before the slave goes on.

RocketMQ's slaves say where their log ends and are sent what follows, whatever it is. Here the
slave asks first, with requests that every master answers:

    where the master's log begins and ends        it has to hold the slave's end
    the master's record where the slave has       equal, byte by byte: positions, times and
    its last one                                  numbers are in it, so what is before is equal
"""

from typing import Final

from rocketq.broker.replication.master_location import MasterLocation
from rocketq.common.numbers import parse_int64
from rocketq.remoting import Command, RemotingClient, RequestCode, ResponseCode, check
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.errors import RemotingError
from rocketq.remoting.headers import ViewMessageById
from rocketq.store.replication.follower import Diverged
from rocketq.store.replication.received_log import ReceivedLog

_TIMEOUT_S: Final = 5.0
_REMEDY: Final = (
    "Nothing of the master's log is added here, and nothing is served. To follow this master, "
    "stop the broker, delete its store directory and start it again: it then copies the log "
    "anew. If what is here is wanted instead, start this broker as master"
)


class LogComparison:
    """Asks the master over the usual protocol. Called by the follower before it connects."""

    def __init__(self, client: RemotingClient, location: MasterLocation) -> None:
        self._client = client
        self._location = location

    async def __call__(self, log: ReceivedLog) -> None:
        """Raises `Diverged` if the slave cannot follow; other errors mean that nobody knows."""
        if log.is_empty:
            return
        low, high = await self.master_range()
        if log.end > high:
            raise Diverged(
                f"this slave's log ends at {log.end}, its master's at {high}: the master has "
                f"lost what is here, or is another's. {_REMEDY}"
            )
        if log.end < low:
            raise Diverged(
                f"this slave's log ends at {log.end}, its master's begins at {low}: what lies "
                f"between is gone. {_REMEDY}"
            )
        last = log.last_record()
        if last is None or last[0] < low:
            return
        position, record = last
        reply = await self._call(Command.request(ViewMessageById(offset=position)))
        if reply.code != ResponseCode.SUCCESS or bytes(reply.body) != record:
            raise Diverged(
                f"this slave's log has another record at {position} than its master's, which "
                f"reaches from {low} to {high} (this one ends at {log.end}): they have parted "
                f"before. {_REMEDY}"
            )

    async def master_range(self) -> tuple[int, int]:
        """Where the master's log begins and ends now."""
        request = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = KVTable.decode(check(await self._call(request)).body).table
        low = parse_int64(table.get("commitLogMinOffset", ""))
        high = parse_int64(table.get("commitLogMaxOffset", ""))
        if low is None or high is None:
            raise RemotingError("the master does not say where its log begins and ends")
        return low, high

    async def _call(self, request: Command) -> Command:
        address = self._location.address
        if address is None:
            raise RemotingError("the master's address is not known")
        return await self._client.call(address, request, _TIMEOUT_S)

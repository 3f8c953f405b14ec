"""Who may read from this broker, and where its readers should go next.

    master   sends readers that are far behind to a slave, if slaves may be read from
    slave    refuses everybody unless slaves may be read from (`slaveReadEnable`); sends those
             who are not far behind back to the master while that is alive; and when it is not,
             serves them as a master would

A slave whose log has parted from its master's serves nobody: it has messages that the master
will give other numbers.
"""

from rocketq.broker import remarks
from rocketq.broker.config import LiveConfig
from rocketq.broker.replication.role import MASTER_ID, RoleHolder
from rocketq.remoting import RequestRejected, ResponseCode
from rocketq.remoting.bodies.groups import SubscriptionGroupConfig
from rocketq.store import GetStatus
from rocketq.store.replication.follower import LogFollower


class Reading:
    """Worked out when something changes, so that a pull only looks at it."""

    def __init__(self, live: LiveConfig, roles: RoleHolder, follower: LogFollower) -> None:
        self.refusal: RequestRejected | None = None
        """Why nobody may read here; None when everybody may."""
        self.is_slave = False
        self.points_back = False
        """Whether readers belong to the master, which is alive: this is a slave."""
        self.corrects_offsets = True
        """Whether this broker knows the end of a queue, and so whether an offset is wrong."""
        self._live = live
        self._roles = roles
        self._follower = follower
        roles.on_change(lambda role: self.judge())
        live.on_change(lambda before, after: self.judge())
        follower.on_change(self.judge)
        self.judge()

    def judge(self) -> None:
        is_slave = self.is_slave = self._roles.current.is_slave
        self.points_back = is_slave and self._follower.is_connected
        self.corrects_offsets = not is_slave or self._live.store.offset_check_in_slave
        self.refusal = None
        if is_slave and self._follower.divergence is not None:
            self.refusal = RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"this slave does not serve: {self._follower.divergence}",
            )
        elif is_slave and not self._follower.is_proven:
            self.refusal = RequestRejected(
                ResponseCode.SYSTEM_BUSY, remarks.system_busy("the role is not known yet")
            )
        elif is_slave and not self._live.broker.slave_read_enable:
            self.refusal = RequestRejected(
                ResponseCode.SYSTEM_BUSY, remarks.system_busy("REJECTREQUEST")
            )

    def code_on_slave(self, code: ResponseCode, status: GetStatus) -> ResponseCode:
        """What a slave answers to a read that found nothing.

        It may lag behind its master, so it moves nobody's offset: who asks for what is not
        here yet waits for it here, or goes back to the master where that is alive.
        """
        if self.points_back:
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        if code == ResponseCode.PULL_OFFSET_MOVED and not self.corrects_offsets:
            if status is GetStatus.OFFSET_TOO_SMALL:
                return ResponseCode.PULL_RETRY_IMMEDIATELY
            return ResponseCode.PULL_NOT_FOUND
        return code

    def suggestion(self, group: SubscriptionGroupConfig, *, is_far_behind: bool) -> int:
        """Which broker of the group to read from next time."""
        if not self._live.broker.slave_read_enable:
            return MASTER_ID
        if is_far_behind:
            return group.which_broker_when_consume_slowly
        return MASTER_ID if self.points_back else group.broker_id

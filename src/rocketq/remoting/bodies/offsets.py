"""Offsets of consumers and of delayed messages."""

from dataclasses import field

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.bodies.assignment import SetMessageRequestMode
from rocketq.remoting.bodies.body import Body
from rocketq.remoting.bodies.registration import DataVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOffsetWrapper(Body):
    """How far every group has come: `topic@group` -> queue -> offset."""

    data_version: DataVersion | None = None
    offset_table: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayOffsetWrapper(Body):
    """How far delivery has come: delay level -> offset."""

    data_version: DataVersion | None = None
    offset_table: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequestModeWrapper(Body):
    """Whether groups pull or pop: topic -> group -> mode."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestMode]] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionOffsets(Body):
    """The lowest offsets of other groups by queue; answers 308."""

    correction_offsets: dict[int, int] = field(default_factory=dict)

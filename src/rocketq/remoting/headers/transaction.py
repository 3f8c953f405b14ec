"""Transactions."""

from dataclasses import field
from typing import ClassVar

from rocketq.common.light_dataclass import dataclass
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers.header import RequestHeader, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction(RequestHeader):
    """A producer decides on a half message: 8 commit, 12 roll back, 0 not yet."""

    CODE: ClassVar = RequestCode.END_TRANSACTION

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    topic: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTransactionState(RequestHeader):
    """A broker asks a producer what became of a half message."""

    CODE: ClassVar = RequestCode.CHECK_TRANSACTION_STATE

    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCheckHalfMessage(RequestHeader):
    """Has a half message checked again that was given up."""

    CODE: ClassVar = RequestCode.RESUME_CHECK_HALF_MESSAGE

    msg_id: str | None = None
    topic: str | None = None

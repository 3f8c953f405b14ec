"""Limits for groups that read cold data, and how the log is read ahead."""

from typing import Final

from rocketq.broker.cold_read_limits import ColdReadLimits
from rocketq.common import json
from rocketq.common.config import ConfigError, parse_properties
from rocketq.common.numbers import parse_natural
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.headers import SetCommitLogReadMode
from rocketq.store import MessageStore

_NORMAL: Final = 0


class ColdReadAdminProcessor:
    """Sets and shows the limits."""

    def __init__(self, limits: ColdReadLimits, store: MessageStore) -> None:
        self._limits = limits
        self._store = store

    def handlers(self) -> Handlers:
        return {
            RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: self._update,
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: self._remove,
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: self._show,
            SetCommitLogReadMode.CODE: self._set_read_mode,
        }

    def _update(self, request: Command, connection: Connection) -> Command:
        try:
            asked = parse_properties(bytes(request.body).decode())
        except (ConfigError, UnicodeDecodeError) as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"unreadable: {error}") from None
        limits = {group: parse_natural(text) for group, text in asked.items()}
        for group, limit in limits.items():
            if limit is None:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR, f"unreadable: {group} has no number of bytes"
                )
        for group, limit in limits.items():
            assert limit is not None
            self._limits.set(group, limit)
        return request.reply()

    def _remove(self, request: Command, connection: Connection) -> Command:
        self._limits.remove(bytes(request.body).decode().strip())
        return request.reply()

    def _show(self, request: Command, connection: Connection) -> Command:
        return request.reply(body=json.dumps(self._limits.table()))

    def _set_read_mode(self, request: Command, connection: Connection) -> Command:
        # A missing or garbled number would read as 0, which means something here.
        if request.ext_fields.get("READ_AHEAD_MODE") not in ("0", "1"):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, "set commitlog readahead mode param error"
            )
        mode = request.header(SetCommitLogReadMode).read_ahead_mode
        self._store.set_read_ahead(mode == _NORMAL)
        return request.reply(remark=f"set commitlog readahead mode success, mode: {mode}")

"""Reading and changing a broker's options while it runs."""

import logging

from rocketq.broker.config import LiveConfig
from rocketq.common.config import ConfigError, parse_properties
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.headers import GetBrokerConfigResponse

logger = logging.getLogger(__name__)


class ConfigAdminProcessor:
    """Options in force now: read as text, changed a few at a time."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live

    def handlers(self) -> Handlers:
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self._update,
            RequestCode.GET_BROKER_CONFIG: self._get,
        }

    def _update(self, request: Command, connection: Connection) -> Command:
        try:
            changes = parse_properties(bytes(request.body).decode())
        except (ConfigError, UnicodeDecodeError) as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"unreadable: {error}") from None
        if self._live.black_list & changes.keys():
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, "Can not update config in black list."
            )
        try:
            later = self._live.update(changes)
        except ConfigError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        logger.info("%s changed options: %s", connection.peer_address, ", ".join(changes))
        return request.reply(
            remark=f"in force from the next start on: {', '.join(later)}" if later else None
        )

    def _get(self, request: Command, connection: Connection) -> Command:
        version = self._live.version.value.encode().decode()
        return request.reply(GetBrokerConfigResponse(version=version), self._live.text().encode())

"""Requests about the key-value settings and the NameServer's own options."""

from rocketq.common.config import ConfigError, parse_changes
from rocketq.namesrv.config import LiveConfig
from rocketq.namesrv.kv_config import KvConfig, KvConfigFull
from rocketq.remoting.codes import RequestCode, ResponseCode
from rocketq.remoting.errors import RequestRejected
from rocketq.remoting.headers.namesrv import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvConfigResponse,
    GetKvListByNamespace,
    PutKvConfig,
)
from rocketq.remoting.link.connection import Connection
from rocketq.remoting.link.server import Handlers
from rocketq.remoting.wire.command import Command


class SettingsProcessor:
    """Reads and changes what operators have set."""

    def __init__(self, kv_config: KvConfig, config: LiveConfig) -> None:
        self._kv_config = kv_config
        self._config = config

    def handlers(self) -> Handlers:
        return {
            PutKvConfig.CODE: self._put,
            GetKvConfig.CODE: self._get,
            DeleteKvConfig.CODE: self._delete,
            GetKvListByNamespace.CODE: self._list,
            RequestCode.GET_NAMESRV_CONFIG: self._get_config,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
        }

    async def _put(self, request: Command, connection: Connection) -> Command:
        header = request.header(PutKvConfig)
        if not header.namespace or not header.key:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
        limit = self._config.current.max_kv_config_bytes
        try:
            await self._kv_config.put(header.namespace, header.key, header.value, limit)
        except KvConfigFull as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return request.reply()

    def _get(self, request: Command, connection: Connection) -> Command:
        header = request.header(GetKvConfig)
        value = self._kv_config.get(header.namespace, header.key)
        if value is None:
            raise RequestRejected(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return request.reply(GetKvConfigResponse(value=value))

    async def _delete(self, request: Command, connection: Connection) -> Command:
        header = request.header(DeleteKvConfig)
        await self._kv_config.delete(header.namespace, header.key)
        return request.reply()

    def _list(self, request: Command, connection: Connection) -> Command:
        namespace = request.header(GetKvListByNamespace).namespace
        text = self._kv_config.encoded(namespace)
        if text is None:
            raise RequestRejected(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}"
            )
        return request.reply(body=text)

    def _get_config(self, request: Command, connection: Connection) -> Command:
        return request.reply(body=self._config.text().encode())

    async def _update_config(self, request: Command, connection: Connection) -> Command:
        try:
            changes = parse_changes(request.body)
        except ConfigError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        if not self._config.current.locked_keys.isdisjoint(changes):
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, "Can not update config in black list."
            )
        try:
            await self._config.update(changes)
        except ConfigError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return request.reply()

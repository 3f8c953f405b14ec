"""Accounts of RocketMQ 4, administered with its requests."""

import json as standard_json
from dataclasses import replace
from pathlib import Path

from rocketq.broker.config import LiveConfig
from rocketq.common import json
from rocketq.remoting import (
    Command,
    Connection,
    Handlers,
    RequestCode,
    RequestRejected,
    ResponseCode,
)
from rocketq.remoting.access.audit import change_line
from rocketq.remoting.access.plain import InvalidAccounts, PlainAccount, PlainFile, PlainFiles
from rocketq.remoting.headers.access import (
    DeleteAclConfig,
    GetBrokerClusterAclInfoResponse,
    UpdateAclConfig,
    UpdateGlobalWhiteAddrsConfig,
)


class PlainAccessProcessor:
    """Changes the files of accounts; without them there is nothing to change."""

    def __init__(self, config: LiveConfig, files: PlainFiles | None, address: str) -> None:
        self._config = config
        self._files = files
        self._address = address

    def handlers(self) -> Handlers:
        return {
            UpdateAclConfig.CODE: self._update,
            DeleteAclConfig.CODE: self._delete,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self._versions,
            UpdateGlobalWhiteAddrsConfig.CODE: self._update_white_addresses,
            RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: self._accounts,
        }

    async def _update(self, request: Command, connection: Connection) -> Command:
        header = request.header(UpdateAclConfig)

        def changed(before: PlainAccount | None) -> PlainAccount:
            if before is None:
                before = PlainAccount(header.access_key, header.secret_key or "")
            return replace(
                before,
                secret_key=header.secret_key or before.secret_key,
                white_remote_address=_given(
                    header.white_remote_address, before.white_remote_address
                ),
                is_admin=header.admin,
                default_topic_perm=header.default_topic_perm or before.default_topic_perm,
                default_group_perm=header.default_group_perm or before.default_group_perm,
                topic_perms=_words(header.topic_perms, before.topic_perms),
                group_perms=_words(header.group_perms, before.group_perms),
            )

        try:
            await self._known().put(changed, header.access_key)
        except InvalidAccounts as error:
            raise RequestRejected(
                ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, str(error)
            ) from None
        change_line("account changed", connection.peer_address, request, header.access_key)
        return request.reply()

    async def _delete(self, request: Command, connection: Connection) -> Command:
        key = request.header(DeleteAclConfig).access_key
        try:
            await self._known().delete(key)
        except InvalidAccounts as error:
            raise RequestRejected(ResponseCode.DELETE_ACL_CONFIG_FAILED, str(error)) from None
        change_line("account deleted", connection.peer_address, request, key)
        return request.reply()

    async def _update_white_addresses(self, request: Command, connection: Connection) -> Command:
        header = request.header(UpdateGlobalWhiteAddrsConfig)
        addresses = tuple(
            text.strip() for text in header.global_white_addrs.split(",") if text.strip()
        )
        path = Path(header.acl_file_full_path) if header.acl_file_full_path else None
        try:
            await self._known().set_white_addresses(addresses, path)
        except InvalidAccounts as error:
            raise RequestRejected(
                ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, str(error)
            ) from None
        change_line("white list changed", connection.peer_address, request, "*")
        return request.reply()

    def _versions(self, request: Command, connection: Connection) -> Command:
        files = self._known().files
        first = next(iter(files.values()))
        versions = {str(path): _version(file) for path, file in files.items()}
        broker = self._config.broker
        return request.reply(
            GetBrokerClusterAclInfoResponse(
                version=standard_json.dumps(_version(first)),
                all_acl_file_version=standard_json.dumps(versions),
                broker_name=broker.broker_name,
                broker_addr=self._address,
                cluster_name=broker.broker_cluster_name,
            )
        )

    def _accounts(self, request: Command, connection: Connection) -> Command:
        """Tools copy accounts from broker to broker, so administrators are shown secrets."""
        files = self._known()
        body = {
            "globalWhiteAddrs": [
                text for file in files.files.values() for text in file.white_addresses
            ],
            "plainAccessConfigs": [account.to_file() for account in files.accounts],
        }
        return request.reply(body=json.dumps(body))

    def _known(self) -> PlainFiles:
        if self._files is None:
            raise RequestRejected(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "aclEnable is false: there are no files of accounts",
            )
        return self._files


def _version(file: PlainFile) -> dict[str, int]:
    return {"counter": file.version_counter, "timestamp": file.version_ms}


def _given(text: str | None, before: str) -> str:
    return before if text is None else text


def _words(text: str | None, before: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return before
    return tuple(word.strip() for word in text.split(",") if word.strip())

"""Limits for groups that read cold data, and how a broker reads its log ahead."""

from typing import Any

from rocketq.client.cluster.rpc import BrokerApi
from rocketq.common import json
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers import SetCommitLogReadMode


async def limits(api: BrokerApi, address: str) -> dict[str, Any]:
    reply = await api.invoke(address, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
    found = json.loads(reply.body) if reply.body else {}
    return dict(found)


async def set_limit(api: BrokerApi, address: str, group: str, threshold: int) -> None:
    body = f"{group}={threshold}\n".encode()
    await api.invoke(address, RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body)


async def remove_limit(api: BrokerApi, address: str, group: str) -> None:
    await api.invoke(address, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, group.encode())


async def set_read_ahead(api: BrokerApi, address: str, mode: int) -> str:
    """What the broker says to it."""
    reply = await api.invoke(address, SetCommitLogReadMode(read_ahead_mode=mode))
    return reply.remark or ""

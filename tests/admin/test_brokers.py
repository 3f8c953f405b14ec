"""Brokers and NameServers, administered for real."""

import pytest

from rocketq.admin.cluster import brokers, name_servers
from rocketq.admin.errors import UnknownBroker
from rocketq.client.cluster.rpc import BrokerApi
from rocketq.client.errors import BrokerRejected
from rocketq.testing import LocalBroker


async def test_every_broker_is_listed_with_its_figures(api: BrokerApi, broker: LocalBroker) -> None:
    (state,) = await brokers.states(api, broker.cluster)
    assert (state.broker_name, state.broker_id, state.address) == ("broker-a", 0, broker.address)
    assert state.runtime["brokerActive"] == "true"
    assert state.number("putTps") >= 0
    assert state.number("no such figure") == 0


async def test_names_and_addresses_lead_to_each_other(api: BrokerApi, broker: LocalBroker) -> None:
    assert await brokers.broker_name_of(api, broker.address) == "broker-a"
    assert await brokers.address_of(api, "broker-a") == broker.address
    with pytest.raises(UnknownBroker):
        await brokers.address_of(api, "nobody")
    with pytest.raises(UnknownBroker):
        await brokers.broker_name_of(api, "127.0.0.1:1")


async def test_an_option_of_a_broker_is_changed(api: BrokerApi, broker: LocalBroker) -> None:
    await brokers.update_config(api, broker.address, "flushConsumerOffsetInterval", "4000")
    assert (await brokers.config(api, broker.address))["flushConsumerOffsetInterval"] == "4000"
    with pytest.raises(BrokerRejected):
        await brokers.update_config(api, broker.address, "flushConsumerOffsetInterval", "soon")


async def test_an_option_of_a_name_server_is_changed(api: BrokerApi, broker: LocalBroker) -> None:
    assert await name_servers.update_config(api, "waitSecondsForService", "44") == (broker.namesrv,)
    configs = await name_servers.configs(api)
    assert configs[broker.namesrv]["waitSecondsForService"] == "44"


async def test_write_permission_is_taken_and_given_back(
    api: BrokerApi, broker: LocalBroker
) -> None:
    wiped = await name_servers.wipe_write_permission(api, "broker-a")
    assert wiped[broker.namesrv] > 0
    assert await name_servers.add_write_permission(api, "broker-a") == wiped
    assert await name_servers.wipe_write_permission(api, "nobody") == {broker.namesrv: 0}


async def test_settings_are_kept_by_the_name_server(api: BrokerApi) -> None:
    await name_servers.put_setting(api, "n", "k", "v")
    assert await api.kv_config("n", "k") == "v"
    await name_servers.delete_setting(api, "n", "k")
    assert await api.kv_config("n", "k") is None

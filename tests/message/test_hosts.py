"""Addresses in bytes."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.message import hosts
from rocketq.message.hosts import InvalidHost

ports = st.integers(0, 65535)


@given(st.ip_addresses(v=4), ports)
def test_ipv4_hosts_round_trip_in_8_bytes(address: ipaddress.IPv4Address, port: int) -> None:
    encoded = hosts.encode_host(str(address), port)
    assert len(encoded) == hosts.V4_SIZE
    assert hosts.decode_host(encoded) == (str(address), port)


@given(st.ip_addresses(v=6), ports)
def test_ipv6_hosts_round_trip_in_20_bytes(address: ipaddress.IPv6Address, port: int) -> None:
    if address.ipv4_mapped is not None:
        return
    encoded = hosts.encode_host(str(address), port)
    assert len(encoded) == hosts.V6_SIZE
    host, decoded_port = hosts.decode_host(encoded)
    assert (ipaddress.ip_address(host), decoded_port) == (address, port)


def test_a_known_host() -> None:
    assert hosts.encode_host("192.168.1.10", 10911).hex() == "c0a8010a00002a9f"


def test_an_ipv4_address_in_ipv6_clothes_is_ipv4() -> None:
    assert hosts.encode_host("::ffff:10.0.0.1", 1) == hosts.encode_host("10.0.0.1", 1)


def test_the_scope_of_a_link_local_address_is_dropped() -> None:
    assert hosts.encode_host("fe80::1%eth0", 1) == hosts.encode_host("fe80::1", 1)


@pytest.mark.parametrize("host", ["", "localhost", "256.1.1.1", "1.2.3", ":::"])
def test_names_are_refused(host: str) -> None:
    with pytest.raises(InvalidHost, match="numeric"):
        hosts.encode_host(host, 1)


def test_other_sizes_are_refused() -> None:
    with pytest.raises(InvalidHost, match="8 or 20"):
        hosts.decode_host(b"123")


def test_text_form() -> None:
    assert hosts.format_host("127.0.0.1", 9876) == "127.0.0.1:9876"

"""Configuration files and the dataclasses they become."""

import logging
import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketq.common.config import (
    ConfigError,
    check_ranges,
    format_properties,
    key,
    load,
    load_all,
    parse_changes,
    parse_properties,
    settings,
    update,
)


class FlushDiskType(Enum):
    SYNC_FLUSH = 1
    ASYNC_FLUSH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    flush_interval_ms: int = 500
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    disk_ratio: float = 0.75
    warm_up: bool = False
    store_path: Path = Path("store")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    broker_ip1: str = field(default="127.0.0.1", metadata=key("brokerIP1"))
    broker_name: str = "broker-a"
    namesrv_addr: str | None = None
    listen_port: int | None = None


def test_keys_are_derived_from_fields_or_named_by_them() -> None:
    assert list(settings(BrokerConfig)) == ["brokerIP1", "brokerName", "namesrvAddr", "listenPort"]


def test_a_file_becomes_a_configuration() -> None:
    text = """
# a comment
! another
flushDiskType = SYNC_FLUSH
flushIntervalMs: 100
diskRatio 0.5
warmUp=TRUE
storePath=/data/\\
    rocket\\u0071
"""
    assert load(StoreConfig, parse_properties(text)) == StoreConfig(
        flush_interval_ms=100,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        disk_ratio=0.5,
        warm_up=True,
        store_path=Path("/data/rocketq"),
    )


def test_what_is_written_is_read_back() -> None:
    config = StoreConfig(flush_disk_type=FlushDiskType.SYNC_FLUSH, warm_up=True)
    assert load(StoreConfig, parse_properties(format_properties(config))) == config


def test_settings_without_a_value_are_not_written() -> None:
    assert format_properties(BrokerConfig()) == "brokerIP1=127.0.0.1\nbrokerName=broker-a\n"


def test_one_file_may_hold_several_configurations() -> None:
    properties = {"brokerName": "b", "warmUp": "true"}
    broker, store = load_all(properties, BrokerConfig, StoreConfig)
    assert broker == BrokerConfig(broker_name="b")
    assert store == StoreConfig(warm_up=True)


def test_an_unknown_key_is_warned_about_with_the_nearest_known_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        load(StoreConfig, {"flushIntervalMS": "1", "zzz": "1"})
    assert [record.getMessage() for record in caplog.records] == [
        "unknown configuration key flushIntervalMS is ignored; did you mean flushIntervalMs?",
        "unknown configuration key zzz is ignored",
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("flushIntervalMs", "soon", "flushIntervalMs=soon: must be a whole number"),
        ("flushIntervalMs", "", "flushIntervalMs=: must be a whole number"),
        ("diskRatio", "half", "diskRatio=half: must be a number"),
        ("warmUp", "yes", "warmUp=yes: must be true or false"),
        (
            "flushDiskType",
            "NEVER",
            "flushDiskType=NEVER: must be one of SYNC_FLUSH, ASYNC_FLUSH",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(StoreConfig, {name: value})
    assert str(caught.value) == message


def test_an_update_changes_only_what_it_names() -> None:
    config = BrokerConfig(broker_name="b")
    assert update(config, {"listenPort": "1", "warmUp": "true"}) == BrokerConfig(
        broker_name="b", listen_port=1
    )
    assert update(config, {"warmUp": "true"}) is config


def test_an_optional_value_may_be_emptied() -> None:
    assert update(BrokerConfig(listen_port=1), {"listenPort": ""}) == BrokerConfig()


@given(st.text())
def test_any_text_is_properties_of_some_kind(text: str) -> None:
    parse_properties(text)


names = st.text("abcXYZ019._-", min_size=1)
values = st.text("abc XYZ/:=#!-_.,;", max_size=20).map(str.strip)


@given(st.dictionaries(names, values))
def test_plain_lines_are_read_as_they_are(properties: dict[str, str]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    assert parse_properties(text) == properties


no_controls = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=20)


@given(no_controls.map(str.strip))
def test_a_setting_is_one_line_of_the_file_whatever_is_in_it(name: str) -> None:
    text = format_properties(BrokerConfig(broker_name=name))
    assert load(BrokerConfig, parse_properties(text)) == BrokerConfig(broker_name=name)
    assert "\nnamesrvAddr" not in text


@pytest.mark.parametrize("control", ["\n", "\r", "\0", "\x0b", "\x1f", "\x7f", "\x85", "\u2028"])
def test_control_characters_are_refused(control: str) -> None:
    for value in (f"b{control}namesrvAddr=evil", control, f"b{control}"):
        with pytest.raises(ConfigError, match="line feeds"):
            update(BrokerConfig(), {"brokerName": value})


def test_changes_over_the_wire_are_short_and_text() -> None:
    assert parse_changes(b"brokerName=b\n") == {"brokerName": "b"}
    with pytest.raises(ConfigError, match="allowed are"):
        parse_changes(b"a=1\n" * 20_000)
    with pytest.raises(ConfigError, match="not a text"):
        parse_changes(b"a=\xff")


@pytest.mark.parametrize(
    ("port", "fits"), [(0, True), (65_535, True), (-1, False), (65_536, False)]
)
def test_numbers_have_ranges(port: int, fits: bool) -> None:
    ranges = {"listen_port": (0.0, 65_535.0), "flush_interval_ms": (1.0, math.inf)}
    config = BrokerConfig(listen_port=port)
    check_ranges(BrokerConfig(), ranges)  # what is not set is not checked
    if fits:
        check_ranges(config, ranges)
    else:
        with pytest.raises(ConfigError, match=f"listenPort={port}: must be 0.0 to 65535.0"):
            check_ranges(config, ranges)
    with pytest.raises(ConfigError, match="flushIntervalMs=0: must be at least 1"):
        check_ranges(StoreConfig(flush_interval_ms=0), ranges)

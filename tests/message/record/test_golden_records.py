"""Every record that real brokers wrote, against what Java says about it."""

import hashlib

import pytest

from rocketq.message import MessageExt, SysFlag
from rocketq.message.properties.codec import decode_properties, encode_properties
from rocketq.message.properties.walk import get_property
from rocketq.message.record.reader import RecordStatus, check_record, decode_record
from rocketq.message.record.writer import new_record
from tests.message.record import golden_stores


def positions(store: str) -> list[int]:
    """Where valid records start, found by walking over the log as recovery does."""
    log = golden_stores.commit_log(store)
    file_size = golden_stores.manifest(store)["settings"]["mappedFileSizeCommitLog"]
    found = []
    at = 0
    while at < len(log):
        checked = check_record(log, at)
        if checked.is_valid:
            found.append(at)
            at += checked.size
        elif checked.is_blank:
            assert checked.size == file_size - at % file_size, "a blank fills its file"
            at += checked.size
        else:
            break
    return found


def encoded_again(message: MessageExt, body: bytes, sys_flag: int) -> bytes:
    return new_record(
        message.raw_topic,
        body,
        message.raw_properties,
        queue_id=message.queue_id,
        flag=message.flag,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.raw_born_host,
        store_timestamp=message.store_timestamp,
        store_host=message.raw_store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )


def decompressed(message: MessageExt) -> bytes:
    return encoded_again(message, message.body, message.sys_flag & ~SysFlag.COMPRESSED)


@pytest.mark.parametrize("store", golden_stores.NAMES)
def test_walking_over_the_log_finds_what_java_found(store: str) -> None:
    expected = [message["commitLogOffset"] for message in golden_stores.messages(store)]
    assert positions(store) == expected


@pytest.mark.parametrize("store", golden_stores.NAMES)
def test_every_field_reads_as_java_reads_it(store: str) -> None:
    log = golden_stores.commit_log(store)
    for expected in golden_stores.messages(store):
        message = decode_record(log, expected["commitLogOffset"])
        if message.sys_flag & SysFlag.COMPRESSED and expected["sysFlag"] & 1 == 0:
            # This store was read by id, where Java's client decompresses, and forgets it did.
            message = decode_record(decompressed(message))
        assert {
            "topic": message.topic,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "commitLogOffset": message.physical_offset,
            "storeSize": check_record(log, expected["commitLogOffset"]).size,
            "offsetMsgId": message.offset_msg_id,
            "bodyCRC": decode_record(log, expected["commitLogOffset"]).body_crc,
            "sysFlag": message.sys_flag,
            "flag": message.flag,
            "bornTimestamp": message.born_timestamp,
            "storeTimestamp": message.store_timestamp,
            "bornHost": "/{}:{}".format(*message.born_host),
            "storeHost": "/{}:{}".format(*message.store_host),
            "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_transaction_offset,
            "properties": message.properties,
            "storedBodySize": len(message.raw_body),
            "storedBodySha256": hashlib.sha256(message.raw_body).hexdigest(),
            "bodySize": len(message.body),
            "bodySha256": hashlib.sha256(message.body).hexdigest(),
        } == {
            name: value
            for name, value in expected.items()
            if name not in ("uniqId", "body", "noTopicConfig")
        }
        if "body" in expected:
            assert message.body.decode() == expected["body"]
        if "uniqId" in expected:
            assert message.msg_id == expected["uniqId"]
        assert message.is_body_intact


@pytest.mark.parametrize("store", golden_stores.NAMES)
def test_every_record_is_encoded_to_the_same_bytes(store: str) -> None:
    log = golden_stores.commit_log(store)
    for expected in golden_stores.messages(store):
        message = decode_record(log, expected["commitLogOffset"])
        assert encoded_again(message, message.raw_body, message.sys_flag) == message.record


@pytest.mark.parametrize("store", golden_stores.NAMES)
def test_single_properties_are_found_without_decoding_all(store: str) -> None:
    log = golden_stores.commit_log(store)
    for expected in golden_stores.messages(store):
        message = decode_record(log, expected["commitLogOffset"])
        properties = expected["properties"]
        assert {name: message.get_property(name) for name in properties} == properties
        assert message.tags == properties.get("TAGS")
        for name in ("TAGS", "KEYS", "DELAY"):
            found = get_property(message.raw_properties, name.encode())
            assert (found and found.decode()) == properties.get(name)


def test_older_brokers_leave_the_last_separator_out_and_newer_ones_do_not() -> None:
    for store, terminated in (("store-4.9.8", False), ("store-5.5.0", True)):
        first = next(golden_stores.messages(store))
        message = decode_record(golden_stores.commit_log(store), first["commitLogOffset"])
        assert message.raw_properties.endswith(b"\x02") is terminated
        again = encode_properties(decode_properties(message.raw_properties))
        assert again.rstrip(b"\x02") == message.raw_properties.rstrip(b"\x02")


def test_the_torn_record_of_the_crashed_store_is_noticed() -> None:
    store = "store-5.5.0-crashed"
    log = golden_stores.commit_log(store)
    last = max(golden_stores.messages(store), key=lambda message: message["commitLogOffset"])
    torn_at = last["commitLogOffset"] + last["storeSize"]
    assert check_record(log, torn_at).status == RecordStatus.BAD_BODY_CRC

"""Reading encoded properties (`rocketq.message.properties.codec`) at speed: all, one, or some.

A broker handles every message's properties as bytes and wants to know a handful of them: the
tag to index by, the keys, the delay level. `scan_properties` walks over the encoded form once
and keeps what it knows by name; the rest stays untouched.

Compiled where that is possible. All three walk alike: an entry ends with 0x02 or with the
text, its name ends with its first 0x01, and without name or value it is none.
"""

import cython

from rocketq.message.hashing import java_hash_bytes

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
    from cython.cimports.libc.string import memchr, memcmp


@cython.final
@cython.freelist(16)
@cython.cclass
class PropertyScan:
    """Values by name, None where a message has no such property."""

    tags = cython.declare(object, visibility="readonly")
    keys = cython.declare(object, visibility="readonly")
    wait = cython.declare(object, visibility="readonly")
    delay = cython.declare(object, visibility="readonly")
    producer_group = cython.declare(object, visibility="readonly")
    pop_check_point = cython.declare(object, visibility="readonly")
    cluster = cython.declare(object, visibility="readonly")
    transaction = cython.declare(object, visibility="readonly")
    real_queue_id = cython.declare(object, visibility="readonly")
    unique_key = cython.declare(object, visibility="readonly")
    trace_on = cython.declare(object, visibility="readonly")
    message_type = cython.declare(object, visibility="readonly")
    crc32 = cython.declare(object, visibility="readonly")
    inner_num = cython.declare(object, visibility="readonly")
    real_topic = cython.declare(object, visibility="readonly")
    inner_base = cython.declare(object, visibility="readonly")
    region = cython.declare(object, visibility="readonly")
    retry_topic = cython.declare(object, visibility="readonly")
    reconsume_time = cython.declare(object, visibility="readonly")
    timer_delay_ms = cython.declare(object, visibility="readonly")
    timer_delay_sec = cython.declare(object, visibility="readonly")
    timer_deliver_ms = cython.declare(object, visibility="readonly")
    reply_to_client = cython.declare(object, visibility="readonly")
    origin_message_id = cython.declare(object, visibility="readonly")
    max_reconsume_times = cython.declare(object, visibility="readonly")
    inner_multi_dispatch = cython.declare(object, visibility="readonly")

    @property
    def tags_code(self) -> int:
        """The hash of the tag, 0 without one: what a consume queue entry holds."""
        return 0 if self.tags is None else java_hash_bytes(self.tags)

    @property
    def delay_level(self) -> int:
        """The delay level; 0 without one, or when it is not a number."""
        try:
            return 0 if self.delay is None else int(self.delay)
        except ValueError:
            return 0

    @property
    def is_transaction(self) -> bool:
        """Whether this is a half message."""
        return self.transaction is not None and self.transaction.lower() == b"true"

    @property
    def wait_store_ok(self) -> bool:
        """Whether the producer wants to wait for flush and replication."""
        return self.wait is None or self.wait.lower() == b"true"


ATTRIBUTES = {
    b"TAGS": "tags",
    b"KEYS": "keys",
    b"WAIT": "wait",
    b"DELAY": "delay",
    b"PGROUP": "producer_group",
    b"POP_CK": "pop_check_point",
    b"CLUSTER": "cluster",
    b"TRAN_MSG": "transaction",
    b"REAL_QID": "real_queue_id",
    b"UNIQ_KEY": "unique_key",
    b"TRACE_ON": "trace_on",
    b"MSG_TYPE": "message_type",
    b"__CRC32#": "crc32",
    b"INNER_NUM": "inner_num",
    b"REAL_TOPIC": "real_topic",
    b"INNER_BASE": "inner_base",
    b"MSG_REGION": "region",
    b"RETRY_TOPIC": "retry_topic",
    b"RECONSUME_TIME": "reconsume_time",
    b"TIMER_DELAY_MS": "timer_delay_ms",
    b"TIMER_DELAY_SEC": "timer_delay_sec",
    b"TIMER_DELIVER_MS": "timer_deliver_ms",
    b"REPLY_TO_CLIENT": "reply_to_client",
    b"ORIGIN_MESSAGE_ID": "origin_message_id",
    b"MAX_RECONSUME_TIMES": "max_reconsume_times",
    b"INNER_MULTI_DISPATCH": "inner_multi_dispatch",
}
"""Which property each attribute of a `PropertyScan` holds."""


def scan_properties(encoded) -> PropertyScan:
    """Look through encoded properties, bytes-like, for those with an attribute above."""
    raw: bytes = encoded if type(encoded) is bytes else bytes(encoded)
    scan: PropertyScan = PropertyScan()
    if cython.compiled:
        at: cython.p_const_char = raw
        end: cython.p_const_char = at + len(raw)
        while at < end:
            entry_end: cython.p_const_char = _find(at, end, 2)
            name_end: cython.p_const_char = _find(at, entry_end, 1)
            if at < name_end and name_end + 1 < entry_end:
                _keep(scan, at, name_end - at, name_end + 1, entry_end - name_end - 1)
            at = entry_end + 1
    else:
        for entry in raw.split(b"\x02"):
            name, _, value = entry.partition(b"\x01")
            if value and name in ATTRIBUTES:
                setattr(scan, ATTRIBUTES[name], value)
    return scan


def get_property(encoded, name: bytes, start: cython.Py_ssize_t = 0):
    """One value out of encoded properties that begin at `start`, or None."""
    raw: bytes = encoded if type(encoded) is bytes else bytes(encoded)
    found = None
    if cython.compiled:
        if start < 0:
            raise IndexError(start)
        wanted: cython.p_const_char = name
        wanted_size: cython.Py_ssize_t = len(name)
        at: cython.p_const_char = cython.cast(cython.p_const_char, raw) + start
        end: cython.p_const_char = cython.cast(cython.p_const_char, raw) + len(raw)
        while at < end:
            entry_end: cython.p_const_char = _find(at, end, 2)
            if (
                entry_end - at > wanted_size + 1
                and at[wanted_size] == 1
                and memcmp(at, wanted, wanted_size) == 0
                and wanted_size > 0
            ):
                value: cython.p_const_char = at + wanted_size + 1
                found = PyBytes_FromStringAndSize(value, entry_end - value)
            at = entry_end + 1
    else:
        prefix = name + b"\x01"
        for entry in raw[start:].split(b"\x02"):
            if entry.startswith(prefix) and len(entry) > len(prefix) > 1:
                found = entry[len(prefix) :]
    return found


def decode_properties(encoded) -> dict:
    """The map; what cannot be read as an entry is skipped, as RocketMQ does."""
    raw: bytes = encoded if type(encoded) is bytes else bytes(encoded)
    properties: dict = {}
    if cython.compiled:
        at: cython.p_const_char = raw
        end: cython.p_const_char = at + len(raw)
        while at < end:
            entry_end: cython.p_const_char = _find(at, end, 2)
            name_end: cython.p_const_char = _find(at, entry_end, 1)
            if at < name_end and name_end + 1 < entry_end:
                name = PyUnicode_DecodeUTF8(at, name_end - at, b"replace")
                value: cython.p_const_char = name_end + 1
                properties[name] = PyUnicode_DecodeUTF8(value, entry_end - value, b"replace")
            at = entry_end + 1
    else:
        for entry in raw.decode("utf-8", "replace").split("\x02"):
            name, separator, text = entry.partition("\x01")
            if name and text and separator:
                properties[name] = text
    return properties


if cython.compiled:

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _find(
        at: cython.p_const_char, end: cython.p_const_char, byte: cython.int
    ) -> cython.p_const_char:
        """Where the byte is found, or the end."""
        found: cython.p_const_char = cython.cast(cython.p_const_char, memchr(at, byte, end - at))
        return end if found == cython.NULL else found

    @cython.cfunc
    def _keep(
        scan: PropertyScan,
        name: cython.p_const_char,
        name_size: cython.Py_ssize_t,
        value: cython.p_const_char,
        value_size: cython.Py_ssize_t,
    ) -> object:
        if name_size == 4:
            if memcmp(name, b"TAGS", 4) == 0:
                scan.tags = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"KEYS", 4) == 0:
                scan.keys = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"WAIT", 4) == 0:
                scan.wait = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 5:
            if memcmp(name, b"DELAY", 5) == 0:
                scan.delay = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 6:
            if memcmp(name, b"PGROUP", 6) == 0:
                scan.producer_group = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"POP_CK", 6) == 0:
                scan.pop_check_point = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 7:
            if memcmp(name, b"CLUSTER", 7) == 0:
                scan.cluster = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 8:
            if memcmp(name, b"UNIQ_KEY", 8) == 0:
                scan.unique_key = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"TRACE_ON", 8) == 0:
                scan.trace_on = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"TRAN_MSG", 8) == 0:
                scan.transaction = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"REAL_QID", 8) == 0:
                scan.real_queue_id = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"MSG_TYPE", 8) == 0:
                scan.message_type = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"__CRC32#", 8) == 0:
                scan.crc32 = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 9:
            if memcmp(name, b"INNER_NUM", 9) == 0:
                scan.inner_num = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 10:
            if memcmp(name, b"MSG_REGION", 10) == 0:
                scan.region = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"REAL_TOPIC", 10) == 0:
                scan.real_topic = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"INNER_BASE", 10) == 0:
                scan.inner_base = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 11:
            if memcmp(name, b"RETRY_TOPIC", 11) == 0:
                scan.retry_topic = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 14:
            if memcmp(name, b"RECONSUME_TIME", 14) == 0:
                scan.reconsume_time = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"TIMER_DELAY_MS", 14) == 0:
                scan.timer_delay_ms = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 15:
            if memcmp(name, b"TIMER_DELAY_SEC", 15) == 0:
                scan.timer_delay_sec = PyBytes_FromStringAndSize(value, value_size)
            elif memcmp(name, b"REPLY_TO_CLIENT", 15) == 0:
                scan.reply_to_client = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 16:
            if memcmp(name, b"TIMER_DELIVER_MS", 16) == 0:
                scan.timer_deliver_ms = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 17:
            if memcmp(name, b"ORIGIN_MESSAGE_ID", 17) == 0:
                scan.origin_message_id = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 19:
            if memcmp(name, b"MAX_RECONSUME_TIMES", 19) == 0:
                scan.max_reconsume_times = PyBytes_FromStringAndSize(value, value_size)
        elif name_size == 20 and memcmp(name, b"INNER_MULTI_DISPATCH", 20) == 0:
            scan.inner_multi_dispatch = PyBytes_FromStringAndSize(value, value_size)
        return None

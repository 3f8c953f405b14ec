# Types of dispatch.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.hashing as hashing
cimport rocketq.message.properties.entries as entries
cimport rocketq.message.record.layout as layout
cimport rocketq.store.index.index_file as index_file
from rocketq.store.index.index_file cimport IndexFile as IndexFileType
from rocketq.store.queues.queue_tail cimport QueueTail as QueueTailType


@cython.final
cdef class Dispatcher:
    cdef public long long position
    cdef public long long last_start
    cdef public long long last_timestamp
    cdef public object listener
    cdef public tuple delay_times_ms
    cdef object _index
    cdef IndexFileType _index_file
    cdef bytes _scanned
    cdef readonly bint has_inner_count
    cdef Py_ssize_t _tags_at
    cdef Py_ssize_t _tags_size
    cdef Py_ssize_t _keys_at
    cdef Py_ssize_t _keys_size
    cdef Py_ssize_t _unique_at
    cdef Py_ssize_t _unique_size

    @cython.locals(
        needs_attention="bint", data="const unsigned char*", at="Py_ssize_t", end="Py_ssize_t",
        stop="Py_ssize_t",
    )
    cpdef bint scan(self, bytes properties) except -1

    @cython.locals(code="long long", transaction="int", is_done="bint")
    cpdef bint dispatch(
        self,
        QueueTailType tail,
        bytes properties,
        long long position,
        int size,
        int sys_flag,
        long long timestamp,
        long long queue_offset=*,
    ) except -1

    @cython.locals(data="const unsigned char*", start="Py_ssize_t", stop="Py_ssize_t")
    cdef bint _put_keys(
        self,
        QueueTailType tail,
        bytes properties,
        Py_ssize_t at,
        Py_ssize_t size,
        long long position,
        long long timestamp,
    ) except -1

    @cython.locals(key_hash="int", file=IndexFileType, is_first="bint")
    cdef bint _put_key(
        self,
        QueueTailType tail,
        bytes properties,
        Py_ssize_t at,
        Py_ssize_t size,
        long long position,
        long long timestamp,
    ) except -1

    cdef long long _delivery_time(
        self, bytes properties, long long timestamp, long long code
    ) except *

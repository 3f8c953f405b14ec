# Types of replay.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.record.layout as layout
cimport rocketq.message.record.reader as reader
from rocketq.message.record.reader cimport RecordCheck as RecordCheckType
from rocketq.message.record.reader cimport RecordFields as RecordFieldsType
from rocketq.store.dispatch cimport Dispatcher as DispatcherType
from rocketq.store.queues.queue_tail cimport QueueTail as QueueTailType


cdef int _VALID
cdef int _MAX_QUEUE_ID
cdef long long _MARK_DISTANCE
cdef long long _SECTOR


@cython.final
cdef class Replay:
    cdef readonly long long position
    cdef readonly long long count
    cdef readonly long long last_timestamp
    cdef DispatcherType _dispatcher
    cdef object _open_tail
    cdef bint _check_crc
    cdef bint _require_crc
    cdef long long _complete_from
    cdef long long _sectors_from
    cdef long long _require_from
    cdef bint _is_growing
    cdef object _marks
    cdef long long _mark_at
    cdef public dict beginnings
    cdef dict _tails
    cdef bytes _topic
    cdef str _name
    cdef dict _found

    @cython.locals(
        data="const unsigned char*", size="Py_ssize_t", at="Py_ssize_t",
        check=RecordCheckType, fields=RecordFieldsType, tail=QueueTailType,
    )
    cpdef int run(
        self, object view, long long segment_start, long long position, long long stop
    ) except -1

    @cython.locals(found=dict)
    cdef QueueTailType _find(self, bytes topic, int queue_id)

    @cython.locals(queues=dict, tail=QueueTailType)
    cdef QueueTailType _find_open(self, dict tails, bytes topic, int queue_id)


@cython.locals(topic=bytes)
cdef bint _is_plausible(RecordFieldsType fields) except -1

@cython.locals(size="Py_ssize_t")
cdef bint _is_complete(RecordFieldsType fields) except -1

@cython.locals(properties=bytes, size="Py_ssize_t", at="Py_ssize_t", after="Py_ssize_t")
cdef bint _lacks_sector(RecordFieldsType fields, long long position) except -1

cdef bint _is_unfinished(const unsigned char* data, Py_ssize_t at, Py_ssize_t stop) noexcept

# Types of results.py when compiled.

cimport cython


cdef int _LAST_STORED
cdef tuple _PUT_STATUSES
cdef tuple _GET_STATUSES


@cython.final
cdef class AppendResult:
    cdef readonly int status_code
    cdef readonly long long physical_offset
    cdef readonly int size
    cdef readonly long long queue_offset
    cdef readonly long long store_timestamp
    cdef readonly int count
    cdef list _physical_offsets


@cython.final
cdef class GetResult:
    cdef public int status_code
    cdef public long long next_offset
    cdef public long long min_offset
    cdef public long long max_offset
    cdef public list buffers
    cdef public int message_count
    cdef public long long size
    cdef public bint suggest_slave
    cdef public long long last_position

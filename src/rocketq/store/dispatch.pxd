cimport cython

from rocketq.store.index.index_file cimport IndexFile
from rocketq.store.queues.queue_tail cimport QueueTail


@cython.final
cdef class Dispatcher:
    cdef public long long position
    cdef public long long last_start
    cdef public long long last_timestamp
    cdef public object listener
    cdef public tuple delay_times_ms
    cdef object _index
    cdef IndexFile _index_file
    cdef bytes _scanned
    cdef Py_ssize_t _tags_at
    cdef Py_ssize_t _tags_size
    cdef Py_ssize_t _keys_at
    cdef Py_ssize_t _keys_size
    cdef Py_ssize_t _unique_at
    cdef Py_ssize_t _unique_size

    cpdef bint scan(self, bytes properties)

    cpdef bint dispatch(
        self,
        QueueTail tail,
        bytes properties,
        long long position,
        int size,
        int sys_flag,
        long long timestamp,
        long long queue_offset=*,
    )
    cdef bint _put_keys(
        self,
        QueueTail tail,
        bytes properties,
        Py_ssize_t at,
        Py_ssize_t size,
        long long position,
        long long timestamp,
    )
    cdef bint _put_key(
        self,
        QueueTail tail,
        bytes properties,
        Py_ssize_t at,
        Py_ssize_t size,
        long long position,
        long long timestamp,
    )
    cdef long long _delivery_time(
        self, bytes properties, long long timestamp, long long code
    )


cdef int _hash(bytes text, Py_ssize_t at, Py_ssize_t size, int seed)

cimport cython

from rocketq.store.dispatch cimport Dispatcher
from rocketq.store.queues.queue_tail cimport QueueTail


@cython.final
cdef class Replay:
    cdef readonly long long position
    cdef readonly long long count
    cdef readonly long long last_timestamp
    cdef Dispatcher _dispatcher
    cdef object _open_tail
    cdef bint _check_crc
    cdef bint _require_crc
    cdef long long _complete_from
    cdef long long _require_from
    cdef bint _is_growing
    cdef object _marks
    cdef long long _mark_at
    cdef dict _beginnings
    cdef dict _tails

    cdef QueueTail _find(self, bytes topic, int queue_id)

cimport cython

from rocketq.store.log.append cimport LogTail
from rocketq.store.results cimport GetResult


@cython.final
cdef class QueueReader:
    cdef readonly long long found_count
    cdef readonly long long found_messages
    cdef readonly long long missed_count
    cdef object _queues
    cdef object _log
    cdef LogTail _log_tail
    cdef long long _memory_bytes
    cdef long long _segment_start
    cdef long long _segment_end
    cdef object _segment_view
    cdef const unsigned char[::1] _raw
    cdef long long _hot_bytes
    cdef long long _cold_bytes
    cdef long long _max_bytes
    cdef long long _scan_bytes
    cdef long long _effort
    cdef long long _terms

    cdef bint _collect(
        self,
        GetResult result,
        queue,
        const unsigned char[::1] entries,
        long long window_start,
        long long window_end,
        long long offset,
        int max_count,
        long long max_bytes,
        filter,
        long long log_min,
        long long log_end,
    )
    cdef bint _find_segment(self, long long position)
    cdef bint _is_record(self, long long position, int size)
    cdef bint _properties_match(self, filter, long long position, int size)
    cdef bint _take_run(self, GetResult result, long long start, long long end)

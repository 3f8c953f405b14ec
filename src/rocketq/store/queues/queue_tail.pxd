cimport cython


@cython.final
cdef class QueueTail:
    cdef readonly str topic
    cdef readonly int queue_id
    cdef readonly int index_seed
    cdef readonly bint is_schedule
    cdef public long long end
    cdef public long long next_offset
    cdef public long long end_position
    cdef public long long limit
    cdef readonly long long view_start
    cdef unsigned char[::1] view
    cdef public bint used
    cdef public bint is_dirty
    cdef readonly object owner

    cpdef bint put(self, long long position, int size, long long tags_code)
    cpdef bint put_at(
        self, long long offset, long long position, int size, long long tags_code
    )

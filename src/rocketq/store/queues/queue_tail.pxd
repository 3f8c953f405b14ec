# Types of queue_tail.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.record.layout as layout


cdef object _NOTHING
cdef object _NO_OWNER


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
    cdef readonly object view
    cdef unsigned char* _memory
    cdef public bint used
    cdef public bint is_dirty
    cdef readonly object owner

    @cython.locals(at="Py_ssize_t")
    cpdef bint put(self, long long position, int size, long long tags_code) except -1

    @cython.locals(at="long long", place="Py_ssize_t")
    cpdef bint put_at(
        self, long long offset, long long position, int size, long long tags_code
    ) except -1

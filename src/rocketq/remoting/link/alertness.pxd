# Types of alertness.py when compiled.

cimport rocketq.common.ticks as ticks

cdef int _FEW
cdef int _FIRST_REST
cdef int _LONGEST_REST


cdef class Alertness:
    cdef object _loop
    cdef long long _longest_ns
    cdef long long _until_ns
    cdef bint _is_looking
    cdef int _rest
    cdef int _reads_left

    cpdef stir(self, Py_ssize_t frame_count)
    cpdef written(self)
    cpdef _look(self)

# Types of ids.py when compiled.

cimport cython


cdef list _BYTES


cdef class UniqueIds:
    cdef bytes _address
    cdef bytes _constant
    cdef object _now_ms
    cdef object _counter
    cdef str _prefix
    cdef int _prefix_generation
    cdef tuple _month
    cdef tuple _stem

    @cython.locals(now_ms="long long", generation="int", made_ms="long long", stem=str, number="int")
    cpdef str next(self)

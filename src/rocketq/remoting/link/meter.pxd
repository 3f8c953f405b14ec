# Types of meter.py when compiled.

cdef int _ONE_IN, _IN_A_ROW
cdef double _ROW_EVERY_S


cdef class RequestMeter:
    cdef tuple _bounds
    cdef double _units_per_second
    cdef long _runs
    cdef int _row_left
    cdef double _next_row_s
    cdef long _passed_over
    cdef public dict series

    cpdef bint is_run_timed(self)
    cpdef int weight(self)

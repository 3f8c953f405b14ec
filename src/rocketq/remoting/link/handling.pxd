# Types of handling.py when compiled.

cimport cython

from rocketq.remoting.link.meter cimport RequestMeter
from rocketq.remoting.wire.command cimport Command as CommandType


cdef int _RESPONSE
cdef Py_ssize_t _LONGEST_RUN
cdef Py_ssize_t _BYTES_AT_WORK


cdef class RequestHandling:
    cdef object _connection
    cdef dict _handlers
    cdef tuple _hooks
    cdef Py_ssize_t _limit
    cdef object _on_room
    cdef dict _tasks
    cdef Py_ssize_t _bytes_at_work
    cdef public bint is_stranger
    cdef RequestMeter _meter
    cdef object _sent_away
    cdef public int sent_away_count

    @cython.locals(request=CommandType, end="Py_ssize_t")
    cpdef Py_ssize_t handle(self, list commands, Py_ssize_t at) except -1

    @cython.locals(weight=cython.int, began=cython.double)
    cdef object _handle_one(self, object handler, CommandType request)
    cdef object _handle_run(self, object handler, list requests)


@cython.locals(code=int, end="Py_ssize_t", limit="Py_ssize_t", command=CommandType)
cdef Py_ssize_t _end_of_run(list commands, Py_ssize_t start) except -1

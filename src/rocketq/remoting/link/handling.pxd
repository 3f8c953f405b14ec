# Types of dispatch.py when compiled.

cimport cython

from rocketq.remoting.wire.command cimport Command as CommandType


cdef int _RESPONSE


cdef class Dispatcher:
    cdef object _connection
    cdef dict _routes
    cdef tuple _hooks
    cdef Py_ssize_t _limit
    cdef object _on_room
    cdef set _tasks

    @cython.locals(request=CommandType, end="Py_ssize_t")
    cpdef Py_ssize_t dispatch(self, list commands, Py_ssize_t at) except -1

    cdef object _handle(self, object route, CommandType request)
    cdef object _handle_run(self, object route, list requests)


@cython.locals(code=int, end="Py_ssize_t", command=CommandType)
cdef Py_ssize_t _end_of_run(list commands, Py_ssize_t start) except -1

# Types of frame.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.remoting.wire.command as commands
cimport rocketq.remoting.wire.scan as scan
from rocketq.remoting.wire.command cimport Command as CommandType


cdef bint SCANS


cdef class FrameSplitter:
    cdef readonly object error
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _header_limit
    cdef object _rest
    cdef Py_ssize_t _wanted

    @cython.locals(found=list, taken="Py_ssize_t")
    cpdef list feed(self, data)

    @cython.locals(used="Py_ssize_t", more="Py_ssize_t", rest=bytearray)
    cdef Py_ssize_t _complete(self, list found, object data) except -1

    @cython.locals(base="const unsigned char*", end="Py_ssize_t")
    cdef Py_ssize_t _take(self, list found, object data, Py_ssize_t at) except -1

    cdef int _check_header(self, Py_ssize_t size) except -1
    cdef Py_ssize_t _checked(self, unsigned int length) except -1


@cython.locals(
    word="unsigned int", header_at="Py_ssize_t", header_end="Py_ssize_t", command=CommandType
)
cdef CommandType command_at(
    object frame, const unsigned char* base, Py_ssize_t start, Py_ssize_t end
)

@cython.locals(found="bint")
cdef bint _scan(CommandType command, const unsigned char* base)

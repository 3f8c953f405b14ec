# Types of frame.py when compiled.

cimport cython

from rocketq.remoting.wire.command cimport Command


cdef class FrameSplitter:
    cdef readonly object error
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _header_limit
    cdef object _rest
    cdef Py_ssize_t _wanted

    @cython.locals(commands=list, taken="Py_ssize_t")
    cpdef list feed(self, data)

    @cython.locals(used="Py_ssize_t", more="Py_ssize_t")
    cdef Py_ssize_t _complete(self, list commands, object data) except -1

    @cython.locals(base="const unsigned char*", end="Py_ssize_t")
    cdef Py_ssize_t _take(self, list commands, object data, Py_ssize_t at) except -1

    cdef int _check_header(self, Py_ssize_t size) except -1
    cdef Py_ssize_t _checked(self, unsigned int length) except -1


@cython.locals(
    word="unsigned int", header_at="Py_ssize_t", header_end="Py_ssize_t", command=Command
)
cdef Command command_at(object frame, const unsigned char* base, Py_ssize_t start, Py_ssize_t end)

cdef unsigned int word_at(const unsigned char* base, Py_ssize_t at) noexcept

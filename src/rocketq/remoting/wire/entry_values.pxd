# Types of entry_values.py when compiled.

cimport cython

from rocketq.remoting.wire.command cimport Command


cdef bint name_is(
    Command command, const unsigned char* base, int entry, const char* word, int word_size
) noexcept

cdef str text_value(Command command, int entry)

@cython.locals(
    at="Py_ssize_t", size="Py_ssize_t", end="Py_ssize_t", used="Py_ssize_t",
    char="unsigned char", high="unsigned char", out="unsigned char*",
)
cdef bytes raw_value(Command command, const unsigned char* base, int entry)

@cython.locals(
    at="Py_ssize_t", end="Py_ssize_t", number="long long", is_negative="bint", digits="Py_ssize_t"
)
cdef bint number_value(
    Command command, const unsigned char* base, int entry, long long limit, long long* result
) noexcept

@cython.locals(at="Py_ssize_t")
cdef bint bool_value(Command command, const unsigned char* base, int entry) noexcept

cdef bint is_utf8(bytes value)

cdef unsigned char hex_digit(unsigned char char) noexcept

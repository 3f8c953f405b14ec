# Types of header_scan.py when compiled.

cimport cython

from rocketq.remoting.wire.command cimport Command


@cython.locals(
    name_at="Py_ssize_t", name_size="Py_ssize_t", number=long, quoted_at="Py_ssize_t",
    next_at="Py_ssize_t", first="unsigned char", seen="bint",
)
cdef bint scan_json(Command command, const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(
    count="int", name_at="Py_ssize_t", name_end="Py_ssize_t", value_at="Py_ssize_t",
    first="unsigned char",
)
cdef Py_ssize_t scan_ext_fields(
    Command command, const unsigned char* text, Py_ssize_t at, Py_ssize_t end
) noexcept

@cython.locals(
    remark_size="long", ext_size="long", ext_end="Py_ssize_t", count="int", name_size="long",
    value_size="long",
)
cdef bint scan_binary(
    Command command, const unsigned char* header, Py_ssize_t at, Py_ssize_t end
) noexcept

@cython.locals(char="unsigned char", i="int")
cdef Py_ssize_t string_end(const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

cdef Py_ssize_t name_end_of(const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(digits="Py_ssize_t")
cdef Py_ssize_t number_end(const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(number=long, is_negative=bint)
cdef long number_at(const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(i="Py_ssize_t")
cdef bint matches(
    const unsigned char* text, Py_ssize_t at, Py_ssize_t size, const unsigned char* word
) noexcept

cdef int language_at(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept

@cython.locals(number="int")
cdef int int16_at(const unsigned char* header, Py_ssize_t at) noexcept

@cython.locals(number=long)
cdef long int32_at(const unsigned char* header, Py_ssize_t at) noexcept

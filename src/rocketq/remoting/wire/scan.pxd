# Types of scan.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.remoting.wire.json_header as json_header
from rocketq.remoting.wire.command cimport Command as CommandType


cdef int _ENTRY_LIMIT
cdef int _CUT_CODES_FROM
cdef int _CUT_CODES_TO
cdef long long _NOT_A_NUMBER


cdef void make_room(CommandType command) noexcept

@cython.locals(
    name_at="Py_ssize_t", name_size="Py_ssize_t", number="long long", quoted_at="Py_ssize_t",
    next_at="Py_ssize_t", first="unsigned char",
)
cdef bint scan_json(
    CommandType command, const unsigned char* text, Py_ssize_t at, Py_ssize_t end
) noexcept

@cython.locals(
    count="int", name_at="Py_ssize_t", name_end="Py_ssize_t", value_at="Py_ssize_t",
    first="unsigned char",
)
cdef Py_ssize_t _scan_ext_fields(
    CommandType command, const unsigned char* text, Py_ssize_t at, Py_ssize_t end
) noexcept

cdef Py_ssize_t _name_end(const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(char="unsigned char", i="int", is_escaped="bint")
cdef Py_ssize_t _string_end(const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(digits="Py_ssize_t")
cdef Py_ssize_t _number_end(const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(number="long long", is_negative="bint")
cdef long long _number_at(const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

cdef int _language_at(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept

@cython.locals(
    remark_size="long", ext_size="long", ext_end="Py_ssize_t", count="int", name_size="long",
    value_size="long",
)
cdef bint scan_binary(
    CommandType command, const unsigned char* header, Py_ssize_t at, Py_ssize_t end
) noexcept


cdef bint name_is(
    CommandType command, const unsigned char* base, int entry, const unsigned char* word,
    int word_size
) noexcept

cdef str text_value(CommandType command, int entry)

@cython.locals(used="Py_ssize_t", buffer=bytearray, value=bytes)
cdef bytes raw_value(CommandType command, const unsigned char* base, int entry)

@cython.locals(
    at="Py_ssize_t", end="Py_ssize_t", char="unsigned char", high="unsigned char", is_escaped=bint
)
cdef Py_ssize_t put_value(
    CommandType command, const unsigned char* base, int entry, unsigned char* out, Py_ssize_t used
) noexcept

cdef bint _is_utf8(bytes value)

cdef unsigned char _hex_digit(unsigned char char) noexcept

@cython.locals(
    at="Py_ssize_t", end="Py_ssize_t", number="long long", is_negative="bint", digits="Py_ssize_t"
)
cdef long long number_value(
    CommandType command, const unsigned char* base, int entry, long long limit, long long absent
) noexcept

@cython.locals(at="Py_ssize_t")
cdef bint bool_value(CommandType command, const unsigned char* base, int entry) noexcept

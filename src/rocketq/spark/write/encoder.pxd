# Types of encoder.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.hashing as hashing
cimport rocketq.message.record.layout as layout


cdef Py_ssize_t _UNIQUE_KEY_SIZE


@cython.final
cdef class Numbers:
    cdef readonly Py_ssize_t count
    cdef object _view
    cdef const int* values


@cython.final
cdef class Texts:
    cdef bint _has_validity
    cdef object _validity
    cdef object _offsets
    cdef object _data
    cdef Py_ssize_t _shift
    cdef const unsigned char* _bits
    cdef const int* _ends
    cdef const unsigned char* data

    cdef Py_ssize_t start(self, Py_ssize_t row) noexcept

    @cython.locals(at="Py_ssize_t")
    cdef Py_ssize_t size(self, Py_ssize_t row) noexcept

    cdef bytes value(self, Py_ssize_t row)

    @cython.locals(out=bytearray, to="int*", row="Py_ssize_t")
    cpdef bytearray java_hashes(self, Py_ssize_t count)


@cython.final
cdef class BatchRows:
    cdef readonly Py_ssize_t count
    cdef Texts _bodies
    cdef Texts _tags
    cdef Texts _keys
    cdef Texts _sharding_keys
    cdef Numbers _entries
    cdef Texts _names
    cdef Texts _values
    cdef Numbers _flags
    cdef frozenset _reserved
    cdef bytes _prefix
    cdef long long _first_row

    @cython.locals(
        end="Py_ssize_t", out=bytearray, at="Py_ssize_t", place="Py_ssize_t", row="Py_ssize_t",
        properties_size="Py_ssize_t", size="Py_ssize_t",
    )
    cpdef tuple encode(
        self, Numbers rows, Py_ssize_t begin, Py_ssize_t max_bytes, Py_ssize_t max_messages
    )

    @cython.locals(size="Py_ssize_t", entry="Py_ssize_t")
    cdef Py_ssize_t _properties_size(self, Py_ssize_t row) except -1

    @cython.locals(size="Py_ssize_t")
    cdef Py_ssize_t _entry_size(
        self, Texts texts, Py_ssize_t row, Py_ssize_t name_size
    ) except -1

    cdef bint _is_wanted(self, Py_ssize_t entry) except -1

    @cython.locals(body_size="Py_ssize_t", entry="Py_ssize_t")
    cdef int _write(
        self,
        unsigned char* out,
        Py_ssize_t at,
        Py_ssize_t row,
        Py_ssize_t size,
        Py_ssize_t properties_size,
    ) except -1


@cython.locals(size="Py_ssize_t")
cdef Py_ssize_t _put_text(
    unsigned char* out, Py_ssize_t at, Texts texts, Py_ssize_t row
) noexcept

@cython.locals(start="Py_ssize_t", end="Py_ssize_t")
cdef bint _has_separator(Texts texts, Py_ssize_t row) noexcept

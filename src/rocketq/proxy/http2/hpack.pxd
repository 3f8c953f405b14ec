# Types of hpack.py when compiled.

cimport cython

cimport rocketq.common.memory as memory


cdef int[::1] _STEPS
cdef bytes _ENDINGS
cdef list _STATIC
cdef Py_ssize_t _STATIC_COUNT
cdef Py_ssize_t _ENTRY_OVERHEAD
cdef Py_ssize_t _MOST_BYTES
cdef int _SYMBOL_SHIFT


@cython.final
cdef class HeaderDecoder:
    cdef object _entries
    cdef Py_ssize_t _size
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _at

    @cython.locals(
        data="const unsigned char*", end="Py_ssize_t", headers=dict, total="Py_ssize_t",
        first="unsigned char", pair=tuple, size="Py_ssize_t",
    )
    cpdef dict decode(self, bytes block)

    @cython.locals(index="Py_ssize_t")
    cdef tuple _literal(self, const unsigned char* data, Py_ssize_t end, int bits)

    @cython.locals(at="Py_ssize_t")
    cdef tuple _entry(self, Py_ssize_t index)

    cdef object _keep(self, tuple pair)
    cdef object _evict(self)

    @cython.locals(most="Py_ssize_t", number="Py_ssize_t", shift="int", byte="unsigned char")
    cdef Py_ssize_t _number(
        self, const unsigned char* data, Py_ssize_t end, int bits
    ) except -1

    @cython.locals(is_coded="bint", size="Py_ssize_t", start="Py_ssize_t")
    cdef str _text(self, const unsigned char* data, Py_ssize_t end)


@cython.locals(
    out=bytearray, room="unsigned char*", count="Py_ssize_t", state="int", at="Py_ssize_t",
    byte="unsigned char", step="int", endings="const unsigned char*",
)
cdef str _decoded(const unsigned char* data, Py_ssize_t start, Py_ssize_t size)

# Types of dialect.py when compiled.

cimport cython


cdef class DialectParser:
    cdef str _text
    cdef Py_ssize_t _at
    cdef Py_ssize_t _end
    cdef Py_ssize_t _depth
    cdef Py_ssize_t _backslash_at

    @cython.locals(start=Py_UCS4)
    cdef object _value(self)

    @cython.locals(fields=dict, end=Py_UCS4)
    cdef dict _object(self)

    @cython.locals(items=list, end=Py_UCS4)
    cdef list _array(self)

    cdef int _enter(self) except -1
    cdef int _leave(self) except -1

    @cython.locals(start=Py_UCS4, end="Py_ssize_t")
    cdef object _key(self)

    @cython.locals(quote=Py_UCS4, parts=list, end="Py_ssize_t", found="Py_ssize_t", text=str)
    cdef str _string(self)

    @cython.locals(kind=str, width="Py_ssize_t", digits=str)
    cdef str _escape(self)

    @cython.locals(end="Py_ssize_t")
    cdef object _number(self)

    @cython.locals(at="Py_ssize_t", first="Py_ssize_t", char=Py_UCS4)
    cdef Py_ssize_t _end_of_digits(self) noexcept

    cdef Py_UCS4 _peek(self) except 0x110000
    cdef int _skip_blanks(self) except -1

    @cython.locals(char=Py_UCS4)
    cdef int _skip_blanks_and_commas(self) except -1

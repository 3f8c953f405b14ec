# Types of json_head.py when compiled.

cimport cython


cdef enum:
    SCRATCH_SIZE = 8192

@cython.locals(out="unsigned char*", at="Py_ssize_t", size="Py_ssize_t", length="unsigned int")
cpdef bytes json_head(
    int code, bytes ext_json, int flag, bytes language, int opaque, bytes remark_json,
    int version, Py_ssize_t body_size
)

cdef unsigned char* scratch() noexcept

@cython.locals(size="Py_ssize_t")
cdef Py_ssize_t put(unsigned char* out, Py_ssize_t at, bytes text) noexcept

@cython.locals(rest="unsigned long long", first="Py_ssize_t", last="Py_ssize_t", digit="unsigned char")
cdef Py_ssize_t put_number(unsigned char* out, Py_ssize_t at, long long number) noexcept

@cython.locals(i="Py_ssize_t", char="unsigned char")
cdef Py_ssize_t put_hex(
    unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t size
) noexcept

cdef void put_word(unsigned char* out, Py_ssize_t at, unsigned int word) noexcept

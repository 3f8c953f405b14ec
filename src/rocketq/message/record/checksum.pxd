# Types of checksum.py when compiled.

cimport cython

cimport rocketq.common.memory as memory


cdef Py_ssize_t _ZLIB_FROM
cdef unsigned int[4096] _TABLES

cdef unsigned int crc32(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t size
) except? 0xFFFFFFFF

@cython.locals(crc="unsigned int")
cdef unsigned int crc32_by_table(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t size
) noexcept

# What compiled code outside this module may use.

cdef unsigned int crc32(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t size
) except? 0xFFFFFFFF

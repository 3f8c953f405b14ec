# Types of json_header.py when compiled.

cimport cython

cimport rocketq.common.memory as memory


cdef Py_ssize_t _SCRATCH_SIZE
cdef Py_ssize_t _FIXED_SIZE
cdef bytearray _SCRATCH


@cython.locals(buffer=bytearray, out="unsigned char*", at="Py_ssize_t", size="Py_ssize_t")
cpdef bytes json_head(
    int code, bytes ext_json, int flag, bytes language, int opaque, bytes remark_json,
    int version, Py_ssize_t body_size
)

cdef bytearray buffer_for(Py_ssize_t size)

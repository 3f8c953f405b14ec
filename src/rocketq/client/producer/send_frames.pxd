# Types of send_frames.py when compiled.

cimport cython


cdef class SendTemplate:
    cdef bytes _start
    cdef bytes _middle
    cdef bytes _end

    @cython.locals(out="unsigned char*", at="Py_ssize_t", size="Py_ssize_t")
    cpdef bytes head(
        self, int opaque, int sys_flag, long long born_ms, int flag, bytes properties,
        Py_ssize_t body_size
    )


@cython.locals(
    i="Py_ssize_t", size="Py_ssize_t", text="const unsigned char*", char="unsigned char"
)
cdef Py_ssize_t put_escaped(unsigned char* out, Py_ssize_t at, bytes properties) noexcept


cdef bytes _ID_NAME
cdef Py_ssize_t _ITEM_FIXED_SIZE


@cython.locals(
    id_size="Py_ssize_t", extra="Py_ssize_t", body_size="Py_ssize_t", properties_size="Py_ssize_t",
    size="Py_ssize_t", at="Py_ssize_t", out="unsigned char*", item=bytes
)
cpdef bytes batch_item(int flag, bytes body, bytes properties, str new_id)

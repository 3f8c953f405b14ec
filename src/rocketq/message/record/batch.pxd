# Types of batch.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.record.layout as layout


@cython.final
cdef class BatchItem:
    cdef readonly int flag
    cdef readonly Py_ssize_t body_at
    cdef readonly Py_ssize_t body_size
    cdef public bytes properties
    cdef public Py_ssize_t record_size


@cython.locals(held="Py_buffer")
cpdef list batch_items(object body)

@cython.locals(
    items=list, item=BatchItem, at="Py_ssize_t", end="Py_ssize_t", properties_at="Py_ssize_t"
)
cdef list _items(const unsigned char* data, Py_ssize_t size)

@cython.locals(size="Py_ssize_t", body_size="Py_ssize_t", properties_size="Py_ssize_t")
cdef Py_ssize_t _item_end(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) except -1

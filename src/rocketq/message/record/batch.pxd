# What compiled code outside this module may use without going through Python objects.

cimport cython


@cython.final
cdef class BatchItem:
    cdef readonly int flag
    cdef readonly Py_ssize_t body_at
    cdef readonly Py_ssize_t body_size
    cdef public bytes properties
    cdef public Py_ssize_t record_size


cpdef list batch_items(body)

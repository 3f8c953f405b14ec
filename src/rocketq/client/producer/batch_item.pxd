# Types of batch_item.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.record.layout as layout


cdef bytes _ID_NAME


@cython.locals(
    body_size="Py_ssize_t", properties_size="Py_ssize_t", size="Py_ssize_t", at="Py_ssize_t",
    item=bytearray, out="unsigned char*"
)
cpdef bytearray batch_item(int flag, bytes body, bytes properties, str new_id)

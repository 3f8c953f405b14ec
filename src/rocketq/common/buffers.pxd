cimport rocketq.common.memory as memory

cpdef bytearray unfilled(Py_ssize_t size)

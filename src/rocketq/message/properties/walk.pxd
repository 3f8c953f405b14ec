# Types of walk.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.properties.entries as entries
from rocketq.message.properties.entries cimport Span as SpanType


@cython.locals(raw=bytes, data="const unsigned char*", found=SpanType)
cpdef object get_property(object encoded, bytes name, Py_ssize_t start=*)

@cython.locals(
    raw=bytes, data="const unsigned char*", properties=dict, at="Py_ssize_t", end="Py_ssize_t",
    stop="Py_ssize_t", name_end="Py_ssize_t", name=str,
)
cpdef dict decode_properties(object encoded)

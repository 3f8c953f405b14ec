# Types with which message.py is compiled; without a compiler they are not looked at.

cimport rocketq.message.record.layout as layout


cdef class Message:
    cdef object _topic
    cdef object _body
    cdef object _flag
    cdef object _properties

    cpdef object get_property(self, name)
    cdef object _load_topic(self)
    cdef object _load_body(self)
    cdef object _load_flag(self)
    cdef object _load_properties(self)


cdef class MessageExt(Message):
    cdef readonly bytes record
    cdef public object broker_name
    cdef object _reconsume_times
    cdef object _added

    cpdef object get_property(self, name)
    cdef object _load_topic(self)
    cdef object _load_body(self)
    cdef object _load_flag(self)
    cdef object _load_properties(self)


cdef long long _int16(bytes record, Py_ssize_t at) except? -1
cdef long long _int32(bytes record, Py_ssize_t at) except? -1
cdef long long _int64(bytes record, Py_ssize_t at) except? -1
cdef Py_ssize_t _body_at(bytes record) except -1
cdef (Py_ssize_t, Py_ssize_t) _topic_span(bytes record) except *

# How the short way lies in memory when compiled; the code is in plain_send.py.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.properties.entries as entries
cimport rocketq.remoting.hot.send as sends
cimport rocketq.store.message_inner as message_inner
from rocketq.remoting.wire.command cimport Command as CommandType
from rocketq.remoting.hot.send cimport SendFields as FieldsType, SendReplies as RepliesType
from rocketq.store.message_inner cimport MessageInner as MessageType
from rocketq.store.results cimport AppendResult


cdef int _ONEWAY


@cython.final
cdef class PlainTopic:
    cdef readonly str name
    cdef readonly bytes name_bytes
    cdef readonly int queue_count
    cdef long long[::1] counts
    cdef long long[::1] sizes
    cdef bint is_counted
    cdef unsigned char[::1] is_ready


@cython.final
cdef class PropertyLook:
    cdef readonly Py_ssize_t unique_at
    cdef readonly Py_ssize_t unique_size
    cdef readonly bint waits

    cdef bytes unique_key(self, bytes properties)

    @cython.locals(
        data="const unsigned char*", end="Py_ssize_t", at="Py_ssize_t", stop="Py_ssize_t",
        name_end="Py_ssize_t", value_at="Py_ssize_t", name_size="Py_ssize_t",
        first="unsigned char",
    )
    cpdef bint through(self, bytes properties) noexcept


@cython.locals(first="unsigned char")
cdef bint _is_unusual(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept


@cython.final
cdef class PlainSends:
    cdef object _processor
    cdef object _live
    cdef object _store
    cdef object _topics
    cdef object _append
    cdef object _append_batch
    cdef object _acknowledgements
    cdef object _stats
    cdef bytes _store_host
    cdef bytes _added
    cdef dict _plain
    cdef list _counted
    cdef RepliesType _replies
    cdef PropertyLook _look
    cdef bint _is_open
    cdef bint _waits_first

    @cython.locals(
        replies=list, waiting=list, safe_at="long long", is_plain="bint", born_host=bytes,
        request=CommandType, fields=FieldsType, topic=PlainTopic, properties=bytes,
        message=MessageType, result=AppendResult, reply=CommandType, at="Py_ssize_t",
    )
    cpdef list handle_run(self, list requests, object connection)

    @cython.locals(fields=FieldsType, topic=PlainTopic, message=MessageType, result=AppendResult)
    cpdef handle_batch(self, CommandType request, object connection)

    @cython.locals(message=MessageType)
    cdef MessageType _message(
        self, FieldsType fields, PlainTopic topic, object body, bytes properties, bytes born_host
    )

    cdef PlainTopic _find(self, str name)
    cdef bint _may_use(self, PlainTopic topic, int queue_id) except -1
    cdef int _count(
        self, PlainTopic topic, int queue_id, long long count, long long size
    ) except -1

    @cython.locals(topic=PlainTopic, queue_id="int", counts="long long[::1]", i="int")
    cpdef int report_counts(self) except -1


cdef int _size_class(long long size) noexcept
cdef bytes born_host_of(object connection)

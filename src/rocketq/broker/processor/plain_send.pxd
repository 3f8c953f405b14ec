# How the short way lies in memory when compiled; the code is in send_path.py.

cimport cython

from rocketq.remoting.wire.command cimport Command
from rocketq.remoting.hot.headers cimport SendFields
from rocketq.remoting.hot.replies cimport SendReplies
from rocketq.store.message_inner cimport MessageInner
from rocketq.store.results cimport AppendResult


@cython.final
cdef class PlainTopic:
    cdef readonly str name
    cdef readonly bytes name_bytes
    cdef readonly int queue_count
    cdef long long[::1] counts
    cdef bint is_counted


@cython.final
cdef class SendPath:
    cdef object _sends
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
    cdef SendReplies _replies
    cdef Py_ssize_t _unique_at
    cdef Py_ssize_t _unique_size
    cdef bint _waits
    cdef bint _is_open
    cdef bint _waits_first

    @cython.locals(
        replies=list, waiting=list, safe_at="long long", is_plain="bint", born_host=bytes,
        request=Command, fields=SendFields, topic=PlainTopic, properties=bytes,
        message=MessageInner, result=AppendResult, reply=Command,
    )
    cpdef list handle_run(self, list requests, object connection)

    @cython.locals(fields=SendFields, topic=PlainTopic, message=MessageInner, result=AppendResult)
    cpdef handle_batch(self, Command request, object connection)

    @cython.locals(message=MessageInner)
    cdef MessageInner _message(
        self, SendFields fields, PlainTopic topic, object body, bytes properties, bytes born_host
    )

    cdef PlainTopic _find(self, str name)
    cdef bint _look_through(self, bytes properties) except -1
    cdef int _count(
        self, PlainTopic topic, int queue_id, long long count, long long size
    ) except -1

    @cython.locals(topic=PlainTopic, queue_id="int", counts="long long[::1]", i="int")
    cpdef int report_counts(self) except -1


cdef bytes born_host_of(object connection)

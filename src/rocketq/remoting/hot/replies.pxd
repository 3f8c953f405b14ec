# Types of fast_replies.py when compiled.

cimport cython

from rocketq.remoting.wire.command cimport Command


cdef class SendReplies:
    cdef readonly str region
    cdef readonly bint trace_on
    cdef bytes _tail

    cpdef Command reply(
        self, Command request, int code, bytes store_host, long long physical_offset,
        int queue_id, long long queue_offset, bytes transaction_id
    )

    @cython.locals(ids=bytes, ext_json=bytes)
    cpdef Command batch_reply(
        self, Command request, bytes store_host, list physical_offsets, int queue_id,
        long long queue_offset, bytes transaction_id
    )

    @cython.locals(out="unsigned char*", at="Py_ssize_t")
    cdef bytes _ext_json(
        self, bytes store_host, long long physical_offset, int queue_id, long long queue_offset,
        bytes transaction_id
    )


@cython.locals(
    size="Py_ssize_t", ids=bytes, out="unsigned char*", at="Py_ssize_t", offset="long long",
    position="unsigned char*",
)
cpdef bytes message_ids(bytes store_host, list physical_offsets)

cpdef Command reply_to_pull(
    Command request, int code, bytes remark, long long suggest_which_broker_id,
    long long next_begin_offset, long long min_offset, long long max_offset,
    int topic_sys_flag=*, int group_sys_flag=*, object body=*
)

@cython.locals(out="unsigned char*", at="Py_ssize_t")
cdef bytes _pull_ext_json(
    long long suggest_which_broker_id, long long next_begin_offset, long long min_offset,
    long long max_offset, int topic_sys_flag, int group_sys_flag
)

@cython.locals(reply=Command, body_size="Py_ssize_t")
cdef Command _encoded(Command request, int code, bytes ext_json, bytes remark_json, object body)

@cython.locals(i="Py_ssize_t")
cdef bint _is_plain(bytes text) noexcept

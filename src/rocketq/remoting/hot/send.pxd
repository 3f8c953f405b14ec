# Types of send.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.remoting.wire.command as commands
cimport rocketq.remoting.wire.json_header as json_header
cimport rocketq.remoting.wire.scan as scan
from rocketq.remoting.wire.command cimport Command as CommandType


cdef long long _INT32_MAX
cdef long long _LONG_MAX
cdef long long _NOT_A_NUMBER
cdef Py_ssize_t _NUMBERS_SIZE
cdef Py_ssize_t _PLAIN_SIZE


cdef class SendFields:
    cdef public str topic
    cdef public bytes topic_bytes
    cdef public int default_topic_queue_nums
    cdef public int queue_id
    cdef public int sys_flag
    cdef public long long born_timestamp
    cdef public int flag
    cdef public bytes properties
    cdef public int reconsume_times
    cdef public bint unit_mode
    cdef public int max_reconsume_times
    cdef public bint batch
    cdef CommandType _command
    cdef object _producer_group
    cdef object _default_topic
    cdef object _broker_name
    cdef int _producer_group_entry
    cdef int _default_topic_entry
    cdef int _broker_name_entry


@cython.locals(
    fields=SendFields, base="const unsigned char*", letter="unsigned char", i="int",
    number="long long",
)
cpdef SendFields read_send(CommandType command)

@cython.locals(fields=SendFields)
cdef SendFields _from_ext_fields(CommandType command)

@cython.locals(fields=SendFields)
cdef SendFields _blank(CommandType command)


cdef class SendReplies:
    cdef readonly str region
    cdef readonly bint trace_on
    cdef bytes _tail

    @cython.locals(out="unsigned char*", at="Py_ssize_t")
    cpdef CommandType reply(
        self, CommandType request, int code, bytes store_host, long long physical_offset,
        int queue_id, long long queue_offset, bytes transaction_id
    )

    @cython.locals(ids=bytes, ext_json=bytes, out="unsigned char*", at="Py_ssize_t")
    cpdef CommandType batch_reply(
        self, CommandType request, bytes store_host, list physical_offsets, int queue_id,
        long long queue_offset, bytes transaction_id
    )

    cdef bint _writes(self, CommandType request, bytes transaction_id) noexcept

    cdef Py_ssize_t _put_rest(
        self, unsigned char* out, Py_ssize_t at, int queue_id, long long queue_offset,
        bytes transaction_id
    ) except -1

    cdef CommandType _general(
        self, CommandType request, int code, bytes ids, int queue_id, long long queue_offset,
        bytes transaction_id
    )


@cython.locals(buffer=bytearray, out="unsigned char*", at="Py_ssize_t", offset="long long")
cpdef bytes message_ids(bytes store_host, list physical_offsets)

@cython.locals(i="Py_ssize_t", size="Py_ssize_t", data="const unsigned char*")
cdef bint is_plain(bytes text) noexcept


cdef class SendTemplate:
    cdef bytes _start
    cdef bytes _middle
    cdef bytes _end

    @cython.locals(buffer=bytearray, out="unsigned char*", at="Py_ssize_t", size="Py_ssize_t")
    cpdef bytes head(
        self, int opaque, int sys_flag, long long born_ms, int flag, bytes properties,
        Py_ssize_t body_size
    )


@cython.locals(i="Py_ssize_t", text="const unsigned char*", char="unsigned char")
cdef Py_ssize_t _put_escaped(unsigned char* out, Py_ssize_t at, bytes properties) noexcept

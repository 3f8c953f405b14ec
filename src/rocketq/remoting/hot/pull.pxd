# Types of pull.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.remoting.wire.command as commands
cimport rocketq.remoting.wire.json_header as json_header
cimport rocketq.remoting.wire.scan as scan
from rocketq.remoting.wire.command cimport Command as CommandType


cdef long long _INT32_MAX
cdef long long _LONG_MAX
cdef long long _NOT_A_NUMBER
cdef Py_ssize_t _REPLY_SIZE


cdef class PullFields:
    cdef public str consumer_group
    cdef public str topic
    cdef public int queue_id
    cdef public long long queue_offset
    cdef public int max_msg_nums
    cdef public int sys_flag
    cdef public long long commit_offset
    cdef public long long suspend_timeout_millis
    cdef public object subscription
    cdef public long long sub_version
    cdef public object expression_type
    cdef public int max_msg_bytes
    cdef public object lite_topic
    cdef public object broker_name


@cython.locals(fields=PullFields, base="const unsigned char*", i="int")
cpdef PullFields read_pull(CommandType command)

@cython.locals(number="long long")
cdef bint _read_number(
    PullFields fields, CommandType command, const unsigned char* base, int entry
) noexcept

@cython.locals(fields=PullFields)
cdef PullFields _from_ext_fields(CommandType command)

@cython.locals(fields=PullFields)
cdef PullFields _blank()


@cython.locals(out="unsigned char*", at="Py_ssize_t", ext_json=bytes, remark_json=bytes)
cpdef CommandType reply_to_pull(
    CommandType request, int code, bytes remark, long long suggest_which_broker_id,
    long long next_begin_offset, long long min_offset, long long max_offset,
    int topic_sys_flag=*, int group_sys_flag=*, object body=*
)

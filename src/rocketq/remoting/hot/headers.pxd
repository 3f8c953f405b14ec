# How the fields lie in memory when compiled; the code is in fast_headers.py.

cimport cython

from rocketq.remoting.wire.command cimport Command


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
    cdef Command _command
    cdef object _producer_group
    cdef object _default_topic
    cdef object _broker_name
    cdef int _producer_group_entry
    cdef int _default_topic_entry
    cdef int _broker_name_entry


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


cpdef SendFields scan_send_v2(Command command)

@cython.locals(
    fields=SendFields, base="const unsigned char*", letter="unsigned char", i="int",
    number="long long", limit="long long",
)
cdef SendFields _scan_send_v2(Command command)

cdef object _set_texts(
    SendFields fields, object producer_group, object default_topic, object broker_name
)

cpdef PullFields scan_pull(Command command)

@cython.locals(fields=PullFields, base="const unsigned char*", i="int", number="long long")
cdef PullFields _scan_pull(Command command)

cdef bint _is_long(Command command, const unsigned char* base, int entry) noexcept
cdef bint _is_int(Command command, const unsigned char* base, int entry) noexcept

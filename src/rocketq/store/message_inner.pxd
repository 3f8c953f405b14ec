cimport cython


@cython.final
cdef class MessageInner:
    cdef public str topic
    cdef public bytes topic_bytes
    cdef public int queue_id
    cdef public int flag
    cdef public int sys_flag
    cdef public long long born_timestamp
    cdef public bytes born_host
    cdef public bytes store_host
    cdef public int reconsume_times
    cdef public long long prepared_transaction_offset
    cdef public object body
    cdef public bytes properties
    cdef public bint wait_store


@cython.locals(again=MessageInner)
cpdef MessageInner stored_again(message)

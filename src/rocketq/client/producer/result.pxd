# How a result lies in memory when compiled; the code is in result.py.

cimport cython


cdef class SendResult:
    cdef public object status
    cdef public str msg_id
    cdef public str offset_msg_id
    cdef public object queue
    cdef public long long queue_offset
    cdef public str transaction_id
    cdef public str region_id
    cdef public bint trace_on
    cdef public str recall_handle


@cython.locals(queue_id="long long", result=SendResult)
cpdef SendResult receipt(object status, str msg_id, object queue, dict fields)


@cython.locals(offset_ids=list, parts=list, part=SendResult, queue_offset="long long")
cpdef list split_result(SendResult result, object msg_ids)

# Types of quick_send.py when compiled.

cimport cython

cimport rocketq.client.producer.result as receipts
cimport rocketq.message.record.layout as layout
cimport rocketq.remoting.wire.command as commands
from rocketq.client.producer.result cimport SendResult as SendResultType
from rocketq.remoting.hot.send cimport SendTemplate as SendTemplateType
from rocketq.remoting.wire.command cimport Command as CommandType


cdef class QuickSends


cdef class Lane:
    cdef readonly object connection
    cdef readonly int code
    cdef readonly SendTemplateType template
    cdef readonly object queue


cdef class Ring:
    cdef list _lanes
    cdef Py_ssize_t _count
    cdef Py_ssize_t _turn

    cdef Lane next_lane(self)


cdef class QuickSend:
    cdef QuickSends _sends
    cdef dict _bucket
    cdef readonly Lane lane
    cdef readonly object future
    cdef readonly int opaque
    cdef readonly object topic
    cdef readonly str msg_id
    cdef readonly bytes head
    cdef readonly bytes body
    cdef readonly object choice
    cdef readonly double deadline
    cdef readonly Py_ssize_t reads

    @cython.locals(result=SendResultType)
    cpdef complete(self, CommandType response)


cdef class QuickSends:
    cdef readonly object take_over
    cdef readonly set pending
    cdef dict _rings
    cdef object _ids
    cdef object _loop
    cdef double _budget_s
    cdef Py_ssize_t _plain_below
    cdef dict _bucket
    cdef double _bucket_until

    @cython.locals(
        ring=Ring, lane=Lane, body=bytes, size="Py_ssize_t", properties=dict, msg_id=str,
        encoded=bytes, born_ms="long long"
    )
    cpdef send(self, object message)

    @cython.locals(opaque="int", head=bytes, now="double", waiting=QuickSend)
    cpdef start(
        self, Lane lane, object topic, bytes body, bytes properties, int sys_flag, int flag,
        long long born_ms, str msg_id, object choice
    )

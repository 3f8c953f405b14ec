# How the objects of send_path.py lie in memory when compiled.

cimport cython

from rocketq.client.producer.send_frames cimport SendTemplate
from rocketq.client.producer.result cimport SendResult
from rocketq.remoting.wire.command cimport Command


cdef class SendPath


cdef class Lane:
    cdef readonly object connection
    cdef readonly SendTemplate template
    cdef readonly object queue


cdef class Ring:
    cdef list _lanes
    cdef Py_ssize_t _count
    cdef Py_ssize_t _turn

    cdef Lane next_lane(self)


cdef class QuickSend:
    cdef SendPath _path
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

    @cython.locals(fields=dict, result=SendResult, queue_id="long long")
    cpdef complete(self, Command response)


cdef class SendPath:
    cdef readonly object delivery
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

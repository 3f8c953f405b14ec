# Types of connection.py when compiled.

cimport cython

cimport rocketq.common.ticks as ticks
from rocketq.remoting.wire.command cimport Command as CommandType
from rocketq.remoting.link.alertness cimport Alertness as AlertnessType
from rocketq.remoting.link.handling cimport RequestHandling as HandlingType
from rocketq.remoting.wire.frame cimport FrameSplitter as FrameSplitterType


# Compared with the numbers of every frame.
cdef int _PEER_DOES_NOT_READ
cdef int _HANDLERS_BUSY
cdef int _STOPPING
cdef int _PUT_OFF
cdef int _SHARE_USED_UP
cdef int _RESPONSE
cdef int _GO_AWAY
cdef Py_ssize_t _JOINED_SIZE
cdef Py_ssize_t _TURN_SIZE
cdef long long _SLICE_NS
cdef long long _REMEMBERED_NS


cdef class Connection:
    cdef public dict attributes
    cdef public tuple peer
    cdef public str peer_address
    cdef public tuple local
    cdef public int idle_rounds
    cdef public Py_ssize_t unsent_before
    cdef public Py_ssize_t reads
    cdef readonly object deadlines
    cdef object _limits
    cdef object _shares
    cdef long long _watched_until
    cdef long long _asks_in_turn_until
    cdef Py_ssize_t _frame_limit
    cdef Py_ssize_t _unsent_limit
    cdef bint _serves_strangers
    cdef tuple _calling_hooks
    cdef object _on_connect
    cdef object _on_go_away
    cdef object _on_silence
    cdef list _close_callbacks
    cdef object _loop
    cdef AlertnessType _alertness
    cdef readonly object _transport
    cdef object _closed
    cdef FrameSplitterType _splitter
    cdef HandlingType _handling
    cdef object _backlog
    cdef dict _pending
    cdef list _out
    cdef Py_ssize_t _out_size
    cdef bint _in_turn
    cdef bint _flush_scheduled
    cdef int _stops
    cdef bint _is_read_paused
    cdef bint _is_write_paused
    cdef bint _is_finished
    cdef bint _closes_when_answered
    cdef object _drained

    @cython.locals(size="Py_ssize_t", command=CommandType)
    cpdef send_all(self, list commands)

    @cython.locals(commands=list)
    cpdef data_received(self, data)

    @cython.locals(at="Py_ssize_t", command=CommandType, began="long long", now="long long")
    cdef object _turn(self, list commands)

    cdef object _complete(self, CommandType response)

    cdef object _schedule_flush(self)

    @cython.locals(out=list, size="Py_ssize_t")
    cpdef _flush(self)

    cdef bint _leaves_too_much(self, Py_ssize_t size) except -1

    cdef object _share_is_used_up(self, long long now, bint asks_more)
    cdef object _stop(self, int reason)
    cdef object _go_on(self, int reason)
    cdef object _update_reading(self)

cimport cython

from rocketq.store.dispatch cimport Dispatcher
from rocketq.store.message_inner cimport MessageInner
from rocketq.store.queues.queue_tail cimport QueueTail
from rocketq.store.results cimport AppendResult


@cython.final
cdef class LogTail:
    cdef public long long end
    cdef public long long limit
    cdef readonly long long segment_start
    cdef readonly long long segment_end
    cdef readonly object view
    cdef unsigned char[::1] memory


@cython.final
cdef class Appender:
    cdef public int refusal
    cdef public bint is_dispatching
    cdef public object waker
    cdef public bint has_waiting
    cdef readonly long long last_timestamp
    cdef readonly long long put_count
    cdef readonly long long put_bytes
    cdef readonly long long put_failed
    cdef public long long slowest_ns
    cdef readonly long long put_ns
    cdef list latencies
    cdef long long _fast_count
    cdef LogTail _tail
    cdef object _log
    cdef object _queues
    cdef dict _tails
    cdef Dispatcher _dispatcher
    cdef object _now_ms
    cdef long long _max_body
    cdef Py_ssize_t _max_topic
    cdef bint _long_topics
    cdef Py_ssize_t _crc_size
    cdef bytearray _apart

    cpdef AppendResult append(self, MessageInner message)
    cdef int _check(self, MessageInner message)
    cdef int _check_sizes(
        self, Py_ssize_t body_size, Py_ssize_t properties_size, Py_ssize_t size
    )
    cdef AppendResult _refused(self, int status)
    cdef int _write(
        self,
        unsigned char[::1] memory,
        long long at,
        MessageInner message,
        int flag,
        long long queue_offset,
        long long position,
        Py_ssize_t size,
        long long timestamp,
        long long prepared_transaction_offset,
        body,
        Py_ssize_t body_at,
        Py_ssize_t body_size,
        bytes properties,
    )
    cdef bytearray _room_apart(self, Py_ssize_t size)
    cdef int _make_room(self, Py_ssize_t size, bint is_apart)
    cdef QueueTail _find_queue(self, str topic, int queue_id)
    cdef bint _dispatch(
        self,
        QueueTail queue,
        bytes properties,
        long long position,
        int size,
        int sys_flag,
        long long timestamp,
    )
    cdef long long _now(self)
    cdef bint _note_latency(self, long long elapsed_ns)

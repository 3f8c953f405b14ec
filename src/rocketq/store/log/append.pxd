# Types of append.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.common.ticks as ticks
cimport rocketq.message.record.batch as batch
cimport rocketq.message.record.layout as layout
cimport rocketq.message.record.writer as writer
cimport rocketq.store.results as results
from rocketq.message.record.batch cimport BatchItem as BatchItemType
from rocketq.store.dispatch cimport Dispatcher as DispatcherType
from rocketq.store.message_inner cimport MessageInner as MessageType
from rocketq.store.queues.queue_tail cimport QueueTail as QueueTailType
from rocketq.store.results cimport AppendResult as AppendResultType


cdef int _OK
cdef int _ILLEGAL
cdef int _PROPERTIES_SIZE_EXCEEDED
cdef object _NOTHING
cdef Py_ssize_t _MAX_LONG_TOPIC
cdef long long _RECORD_ALLOWANCE
cdef Py_ssize_t _WORTH_A_CALL
cdef Py_ssize_t _KEPT_APART
cdef long long _NS_IN_MS
cdef int _CRC_SIGN


@cython.final
cdef class LogTail:
    cdef public long long end
    cdef public long long limit
    cdef readonly long long segment_start
    cdef readonly long long segment_end
    cdef readonly object view
    cdef object _held
    cdef unsigned char* memory


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
    cdef list latencies
    cdef long long _fast_count
    cdef LogTail _tail
    cdef object _log
    cdef object _queues
    cdef dict _tails
    cdef DispatcherType _dispatcher
    cdef object _now_ms
    cdef long long _max_body
    cdef Py_ssize_t _max_topic
    cdef bint _long_topics
    cdef Py_ssize_t _crc_size
    cdef bytearray _apart

    @cython.locals(
        is_timed="bint", began="long long", status="int", body_size="Py_ssize_t",
        properties=bytes, properties_size="Py_ssize_t", size="Py_ssize_t", queue=QueueTailType,
        is_queued="bint", timestamp="long long", position="long long", queue_offset="long long",
        result=AppendResultType,
    )
    cpdef AppendResultType append(self, MessageType message)

    @cython.locals(
        began="long long", status="int", items=list, item=BatchItemType, total="Py_ssize_t",
        properties=bytes, properties_size="Py_ssize_t", is_apart="bint", queue=QueueTailType,
        timestamp="long long", first="long long", first_offset="long long", position="long long",
        positions=list, out="unsigned char*", out_start="long long",
    )
    cpdef AppendResultType append_batch(self, MessageType message)

    cdef list _batch_items(self, MessageType message, object body)

    @cython.locals(topic_size="Py_ssize_t", host_size="Py_ssize_t")
    cdef int _check(self, MessageType message) except -1

    cdef int _check_sizes(
        self, Py_ssize_t body_size, Py_ssize_t properties_size, Py_ssize_t size
    ) noexcept

    cdef AppendResultType _refused(self, int status)

    @cython.locals(is_held="bint", data="const unsigned char*", held="Py_buffer")
    cdef int _write(
        self,
        unsigned char* out,
        Py_ssize_t at,
        MessageType message,
        int flag,
        long long queue_offset,
        long long position,
        Py_ssize_t size,
        long long timestamp,
        long long prepared_transaction_offset,
        object body,
        Py_ssize_t body_at,
        Py_ssize_t body_size,
        bytes properties,
    ) except -1

    cdef bytearray _room_apart(self, Py_ssize_t size)

    @cython.locals(before="long long", status="int")
    cdef int _make_room(self, Py_ssize_t size, bint is_apart) except -1

    @cython.locals(queues=dict)
    cdef QueueTailType _find_queue(self, str topic, int queue_id)

    @cython.locals(is_done="bint")
    cdef int _dispatch(
        self,
        QueueTailType queue,
        bytes properties,
        long long position,
        int size,
        int sys_flag,
        long long timestamp,
    ) except -1

    cdef long long _now(self) except *
    cdef int _note_latency(self, long long elapsed_ns) except -1


@cython.locals(size="Py_ssize_t")
cdef bint _may_have_crc(bytes properties) noexcept

cdef bytes _without_crc(bytes properties)
cdef bytes _with_end(bytes properties)

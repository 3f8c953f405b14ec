# Types of reader.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.record.layout as layout
from rocketq.store.log.append cimport LogTail as LogTailType
from rocketq.store.queues.queue_tail cimport QueueTail as QueueTailType
from rocketq.store.results cimport GetResult as GetResultType


cdef int _FOUND
cdef int _NO_MATCHED_MESSAGE
cdef int _MESSAGE_WAS_REMOVING
cdef int _OFFSET_FOUND_NULL
cdef int _OFFSET_OVERFLOW_BADLY
cdef int _OFFSET_OVERFLOW_ONE
cdef int _OFFSET_TOO_SMALL
cdef int _NO_MATCHED_LOGIC_QUEUE
cdef int _NO_MESSAGE_IN_QUEUE
cdef object _NOTHING
cdef int _FILLER_SIZE
cdef long long _MAX_BYTES
cdef long long _MOST_EFFORT
cdef long long _PROPERTIES_A_TERM


@cython.final
cdef class QueueReader:
    cdef readonly long long found_count
    cdef readonly long long found_messages
    cdef readonly long long missed_count
    cdef object _queues
    cdef object _log
    cdef LogTailType _log_tail
    cdef long long _memory_bytes
    cdef long long _segment_start
    cdef long long _segment_end
    cdef object _segment_view
    cdef const unsigned char* _raw
    cdef long long _hot_bytes
    cdef long long _cold_bytes
    cdef long long _max_bytes
    cdef long long _scan_bytes
    cdef long long _effort
    cdef long long _terms

    @cython.locals(
        tail=QueueTailType, first="long long", end="long long", status="int",
        following="long long", window_start="long long", window_end="long long",
        result=GetResultType, log_end="long long",
    )
    cpdef GetResultType get(
        self,
        str topic,
        int queue_id,
        long long offset,
        int max_count,
        long long max_bytes=*,
        object filter=*,
    )

    @cython.locals(
        at="long long", stop="long long", position="long long", size="int", code="long long",
        limit="long long", run_start="long long", run_end="long long", count="int",
        total="long long", needs_properties="bint", was_removed="bint", entry_at="Py_ssize_t",
    )
    cdef int _collect(
        self,
        GetResultType result,
        object queue,
        const unsigned char* entries,
        long long window_start,
        long long window_end,
        long long offset,
        int max_count,
        long long max_bytes,
        object filter,
        long long log_min,
        long long log_end,
    ) except -1

    cdef bint _find_segment(self, long long position) except -1

    @cython.locals(at="Py_ssize_t", magic="int")
    cdef bint _is_record(self, long long position, int size) noexcept

    cdef bint _properties_match(self, object filter, long long position) except -1
    cdef int _take_run(self, GetResultType result, long long start, long long end) except -1

# Types of connection.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
from rocketq.proxy.http2.hpack cimport HeaderDecoder as DecoderType


cdef int _DATA
cdef int _HEADERS
cdef int _RST_STREAM
cdef int _SETTINGS
cdef int _PUSH_PROMISE
cdef int _PING
cdef int _GOAWAY
cdef int _WINDOW_UPDATE
cdef int _CONTINUATION
cdef int _END_STREAM
cdef int _ACK
cdef int _END_HEADERS
cdef int _PADDED
cdef int _WITH_PRIORITY
cdef Py_ssize_t _FRAME_SIZE
cdef Py_ssize_t _BLOCK_LIMIT
cdef long long _STREAM_WINDOW
cdef long long _CONNECTION_WINDOW
cdef long long _LARGEST_WINDOW
cdef Py_ssize_t _ENOUGH_WAITING


cdef class Stream:
    cdef readonly Http2Connection connection
    cdef readonly long long number
    cdef readonly dict headers
    cdef public object receiver
    cdef public long long window
    cdef readonly bint is_over
    cdef public bint has_ended
    cdef bint _are_headers_sent
    cdef bytes _trailers
    cdef object _waiting
    cdef Py_ssize_t _waiting_size
    cdef object _drained
    cdef list _parts
    cdef Py_ssize_t _parts_size
    cdef Py_ssize_t _unread

    cpdef send(self, bytes message)
    cpdef finish(self, int status=*, str text=*)
    cdef object _send_headers(self)

    @cython.locals(size="Py_ssize_t")
    cdef object _put(self, bytes data)

    @cython.locals(room="long long")
    cdef object _push(self)

    cdef object _wake(self)
    cdef object _end(self, bytes trailers)
    cdef object _leave(self)

    @cython.locals(size="Py_ssize_t", end="Py_ssize_t", raw="const unsigned char*")
    cdef bint _take(self, bytes data) except -1

    @cython.locals(size="Py_ssize_t", first=bytes, whole=bytes, rest=bytes)
    cdef bint _take_parts(self) except -1

    cdef object _hand_up(self, int flag, bytes message)


cdef class Http2Connection:
    cdef public dict attributes
    cdef public object peer
    cdef readonly str peer_address
    cdef public int quiet_rounds
    cdef public int idle_rounds
    cdef public int resets
    cdef object _opener
    cdef object _limits
    cdef Py_ssize_t _message_limit
    cdef object _on_connect
    cdef list _close_callbacks
    cdef object _loop
    cdef object _transport
    cdef dict _streams
    cdef long long _last_stream
    cdef DecoderType _decoder
    cdef bytes _rest
    cdef bint _has_preface
    cdef list _block
    cdef Py_ssize_t _block_size
    cdef long long _block_stream
    cdef int _block_flags
    cdef long long _window
    cdef long long _stream_window
    cdef Py_ssize_t _frame_size
    cdef long long _unread
    cdef long long _unfinished
    cdef dict _waiting
    cdef long long _waiting_size
    cdef list _out
    cdef bint _in_turn
    cdef bint _flush_scheduled
    cdef bint _is_write_paused
    cdef bint _is_going_away
    cdef object _closed

    cpdef data_received(self, data)

    @cython.locals(streams=dict, stream=Stream)
    cpdef connection_lost(self, error)

    @cython.locals(
        end="Py_ssize_t", size="Py_ssize_t", stop="Py_ssize_t", kind="int", flags="int",
        number="long long", raw="const unsigned char*",
    )
    cdef Py_ssize_t _take_frames(self, bytes data, Py_ssize_t at) except -1

    cdef object _take_frame(
        self, int kind, int flags, long long number, bytes data, Py_ssize_t start, Py_ssize_t stop
    )

    @cython.locals(size="Py_ssize_t", stream=Stream)
    cdef object _take_data(
        self, int flags, long long number, bytes data, Py_ssize_t start, Py_ssize_t stop
    )

    cdef object _ended(self, Stream stream)

    cdef object _take_headers(
        self, int flags, long long number, bytes data, Py_ssize_t start, Py_ssize_t stop
    )

    cdef object _take_continuation(self, int flags, long long number, bytes part)

    @cython.locals(stream=Stream)
    cdef object _take_block(self, int flags, long long number, bytes block)

    @cython.locals(stream=Stream)
    cdef object _take_reset(self, long long number)

    @cython.locals(stream=Stream, more="long long")
    cdef object _take_window_update(self, long long number, bytes body)

    cdef object _fail(self, int error, str why)
    cdef bint _may_write(self, Stream stream, Py_ssize_t size) except -1
    cdef long long _room(self, Stream stream) except -2
    cdef object _note_waiting(self, Stream stream, Py_ssize_t size)
    cdef object _waited(self, Py_ssize_t size)
    cdef object _no_longer_waiting(self, Stream stream)

    @cython.locals(stream=Stream)
    cdef object _push_all(self)

    cdef object _forget(self, Stream stream)
    cdef object _write_headers(self, long long number, bytes block, bint is_last)
    cdef object _write_data(self, Stream stream, bytes data, Py_ssize_t size)
    cdef object _write_reset(self, long long number, int error)

    @cython.locals(size="Py_ssize_t")
    cdef object _write(self, int kind, int flags, long long number, bytes body)

    cpdef _flush(self)
